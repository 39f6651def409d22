#include "properties/checkpoint/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <fstream>

#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"

namespace slicecheck::properties {
namespace {

using checkpoint::Element;
using layout::Projection;

// 1 / g of a float g in [2^first, 2^(first + 1)): the divisor 1 / (1 / g) is not g, so what a
// compressed-tensors checkpoint holds is g itself.
float divisor_of(const Case& given, std::int64_t expert, std::int64_t j, int first) {
  return std::bit_cast<float>(
      layout::scalar_bits(given.payload.seed ^ 0x5CA1E5U, expert, j, first));
}

constexpr int weight_order = 11;
constexpr int input_order = 7;

// What of a number the checkpoint holds: the divisor, or its reciprocal.
float held(const Case& given, float divisor) {
  return given.format == Format::compressed_tensors ? divisor : 1.0F / divisor;
}

// Word 0 and 1: weight scales of w13 and w2. Words 2 to 4: input scales.
float weight_divisor(const Case& given, std::int64_t e, Projection projection) {
  return divisor_of(given, e, projection == Projection::w2 ? 1 : 0, weight_order);
}
float input_divisor(const Case& given, std::int64_t e, Projection projection) {
  return divisor_of(given, e, 2 + static_cast<std::int64_t>(projection), input_order);
}

// A tensor to be written.
struct Written {
  checkpoint::TensorEntry entry;
  ByteVector bytes;
};

Written tensor(std::string name, Element element, Extents extents, ByteVector bytes) {
  return {{std::move(name), element, std::move(extents), 0, 0}, std::move(bytes)};
}

ByteVector bytes_of(const std::vector<float>& values) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(values.data());
  return {from, from + values.size() * sizeof(float)};
}

using Scale = float (*)(const Case&, std::int64_t, Projection);

ByteVector scales_of(const Case& given, Scale divisor, const std::vector<Projection>& columns) {
  std::vector<float> values;
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    for (const Projection each : columns) values.push_back(held(given, divisor(given, e, each)));
  }
  return bytes_of(values);
}

std::string root(const Case& given) {
  return fmt::format("model.layers.{}.mlp.experts", layer_number(given));
}

experts::PlainExpert expert_of(const Case& given, std::int64_t e) {
  return experts::payload_expert(given.payload, e, layout::stock_widths(given.shape));
}

// One tensor a projection and expert.
std::vector<Written> per_expert(const Case& given) {
  const bool reciprocal = given.format == Format::compressed_tensors;
  const checkpoint::Suffixes& suffixes =
      reciprocal ? checkpoint::compressed_suffixes : checkpoint::modelopt_suffixes;
  const auto& names =
      checkpoint::projection_names[given.payload.seed % checkpoint::projection_names.size()];
  std::vector<Written> made;
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    const experts::PlainExpert plain = expert_of(given, e);
    for (const Projection each : layout::projections) {
      const std::string stem =
          fmt::format("{}.{}.{}", root(given), e, names[static_cast<std::size_t>(each)]);
      const auto named = [&](std::string_view suffix) { return stem + std::string(suffix); };
      const experts::PlainProjection& from = projection_of(plain, each);
      const layout::Matrix weight =
          layout::plain_matrix(each, false, layout::stock_widths(given.shape));
      const Extents one = reciprocal ? Extents{1} : Extents{};
      made.push_back(tensor(named(suffixes.weight), Element::u8, {weight.rows, weight.row_bytes},
                            from.weight));
      made.push_back(tensor(named(suffixes.scale), Element::f8_e4m3,
                            {weight.rows, weight.row_bytes / 8}, from.scale));
      made.push_back(tensor(named(suffixes.scale_2), Element::f32, one,
                            bytes_of({held(given, weight_divisor(given, e, each))})));
      made.push_back(tensor(named(suffixes.input_scale), Element::f32, one,
                            bytes_of({held(given, input_divisor(given, e, each))})));
    }
  }
  return made;
}

// One tensor for all experts, gate rows first.
std::vector<Written> fused(const Case& given, std::string_view name,
                           const std::vector<Projection>& rows) {
  const std::string stem = fmt::format("{}.{}", root(given), name);
  const layout::Matrix each =
      layout::plain_matrix(rows.front(), false, layout::stock_widths(given.shape));
  const std::int64_t all = given.shape.experts;
  const std::int64_t count = each.rows * std::ssize(rows);
  const Extents scalars = rows.size() == 2 ? Extents{all, 2} : Extents{all};
  ByteVector weights;
  ByteVector scales;
  for (std::int64_t e = 0; e < all; ++e) {
    const experts::PlainExpert plain = expert_of(given, e);
    for (const Projection part : rows) {
      const experts::PlainProjection& from = projection_of(plain, part);
      weights.insert(weights.end(), from.weight.begin(), from.weight.end());
      scales.insert(scales.end(), from.scale.begin(), from.scale.end());
    }
  }
  const auto named = [&](std::string_view suffix) { return stem + std::string(suffix); };
  std::vector<Written> made;
  made.push_back(tensor(named(checkpoint::fused_suffixes.weight), Element::u8,
                        {all, count, each.row_bytes}, std::move(weights)));
  made.push_back(tensor(named(checkpoint::fused_suffixes.scale), Element::f8_e4m3,
                        {all, count, each.row_bytes / 8}, std::move(scales)));
  made.push_back(tensor(named(checkpoint::fused_suffixes.scale_2), Element::f32, scalars,
                        scales_of(given, weight_divisor, rows)));
  made.push_back(tensor(named(checkpoint::fused_suffixes.input_scale), Element::f32, scalars,
                        scales_of(given, input_divisor, rows)));
  return made;
}

std::vector<Written> tensors_of(const Case& given) {
  if (given.format != Format::fused) return per_expert(given);
  std::vector<Written> made = fused(given, "gate_up_proj", {Projection::w1, Projection::w3});
  for (Written& each : fused(given, "down_proj", {Projection::w2})) made.push_back(std::move(each));
  return made;
}

Reason write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return {};
  return Reason(fmt::format("{} cannot be written", path));
}

Reason write_shard(const std::string& path, const std::vector<const Written*>& tensors) {
  std::vector<checkpoint::TensorEntry> entries;
  for (const Written* each : tensors) entries.push_back(each->entry);
  Result<checkpoint::SafetensorsWriter> file =
      checkpoint::SafetensorsWriter::create(path, {{"format", "pt"}}, std::move(entries));
  Reason reason = file.reason;
  for (const Written* each : tensors) {
    if (!reason) reason = file->add(each->bytes);
  }
  if (!reason) reason = file->finish();
  return reason;
}

constexpr std::string_view modelopt_config = R"({"quantization_config": {"quant_method": "modelopt",
"quant_algo": "NVFP4", "ignore": ["lm_head"]}})";
constexpr std::string_view compressed_config = R"({"quantization_config": {"quant_method":
"compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {"targets":
["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size":
16}}}, "ignore": ["lm_head"]}})";

}  // namespace

CheckpointScales checkpoint_scales(const Case& given) {
  CheckpointScales made;
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    made.w13.push_back(1.0F / weight_divisor(given, e, Projection::w1));
    made.w2.push_back(1.0F / weight_divisor(given, e, Projection::w2));
    for (const Projection each : layout::projections) {
      made.inputs[static_cast<std::size_t>(each)].push_back(1.0F / input_divisor(given, e, each));
    }
  }
  return made;
}

experts::Scalars due_scalars(const CheckpointScales& scales, std::int64_t first,
                             std::int64_t count) {
  const auto largest = [&](Projection projection) {
    const std::vector<float>& all = scales.inputs[static_cast<std::size_t>(projection)];
    return *std::max_element(all.begin(), all.end());
  };
  const float a13 = std::max(largest(Projection::w1), largest(Projection::w3));
  const float a2 = largest(Projection::w2);
  experts::Scalars made;
  made.a1_gscale = 1.0F / a13;
  made.a2_gscale = 1.0F / a2;
  for (std::int64_t e = first; e < first + count; ++e) {
    made.g1_alphas.push_back(a13 * scales.w13[e]);
    made.g1_scale_c.push_back(made.g1_alphas.back() * made.a2_gscale);
    made.g2_alphas.push_back(a2 * scales.w2[e]);
  }
  return made;
}

std::int64_t layer_number(const Case& given) {
  return static_cast<std::int64_t>(given.payload.seed % 64);
}

Reason write_checkpoint(const std::string& folder, const Case& given) {
  const std::vector<Written> tensors = tensors_of(given);
  const auto shards = static_cast<std::size_t>(1 + given.payload.seed / 64 % 3);
  std::vector<std::vector<const Written*>> parts(shards);
  std::string map;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parts[i % shards].push_back(&tensors[i]);
    map += fmt::format("{}\"{}\": \"model-{}.safetensors\"", i == 0 ? "" : ", ",
                       tensors[i].entry.name, i % shards);
  }
  Reason reason;
  for (std::size_t i = 0; i < shards && !reason; ++i) {
    reason = write_shard(fmt::format("{}/model-{}.safetensors", folder, i), parts[i]);
  }
  if (!reason) {
    reason =
        write_text(folder + "/model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  }
  if (reason) return reason;
  return write_text(folder + "/config.json",
                    std::string(given.format == Format::compressed_tensors ? compressed_config
                                                                           : modelopt_config));
}

}  // namespace slicecheck::properties
