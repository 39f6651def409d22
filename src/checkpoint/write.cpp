#include "checkpoint/write.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "checkpoint/in_quotes.h"
#include "checkpoint/names.h"
#include "experts/payload.h"

namespace slicecheck::checkpoint {
namespace {

using layout::Projection;

struct Member {
  TensorEntry entry;
  ByteVector bytes;
};

class Members {
 public:
  void add(std::string name, Element element, Extents extents, ByteVector bytes) {
    all_.push_back({{std::move(name), element, std::move(extents), 0, 0}, std::move(bytes)});
  }

  void add_floats(std::string name, Extents extents, const std::vector<float>& values) {
    ByteVector bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    add(std::move(name), Element::f32, std::move(extents), std::move(bytes));
  }

  std::vector<Member> take() { return std::move(all_); }

 private:
  std::vector<Member> all_;
};

std::string root_of(const WrittenLayer& layer) {
  return fmt::format("model.layers.{}.mlp.experts", layer.number);
}

// [rows, columns] of so many bytes.
Extents extents_of(Projection projection, const layout::Widths& widths, const ByteVector& bytes) {
  const std::int64_t rows = layout::plain_matrix(projection, false, widths).rows;
  return {rows, static_cast<std::int64_t>(bytes.size()) / rows};
}

std::vector<Member> per_expert_members(const WrittenLayer& layer) {
  const bool reciprocal = layer.format == Format::compressed_tensors;
  const Suffixes& suffixes = reciprocal ? compressed_suffixes : modelopt_suffixes;
  const Extents one = reciprocal ? Extents{1} : Extents{};
  Members made;
  for (std::size_t e = 0; e < layer.experts.size(); ++e) {
    const experts::PlainExpert& expert = layer.experts[e];
    for (const Projection projection : layout::projections) {
      const auto p = static_cast<std::size_t>(projection);
      const std::string stem =
          fmt::format("{}.{}.{}", root_of(layer), e, projection_names.at(layer.names)[p]);
      const auto named = [&](std::string_view suffix) { return stem + std::string(suffix); };
      const experts::PlainProjection& from = experts::projection_of(expert, projection);
      if (from.weight.empty()) continue;
      made.add(named(suffixes.weight), Element::u8,
               extents_of(projection, expert.widths, from.weight), from.weight);
      if (!from.scale.empty()) {
        made.add(named(suffixes.scale), Element::f8_e4m3,
                 extents_of(projection, expert.widths, from.scale), from.scale);
      }
      const auto add_scale = [&](std::string_view suffix, const std::optional<float>& value) {
        if (value) made.add_floats(named(suffix), one, {reciprocal ? 1.0F / *value : *value});
      };
      add_scale(suffixes.scale_2, layer.scales[e][p].weight);
      add_scale(suffixes.input_scale, layer.scales[e][p].input);
    }
  }
  return made.take();
}

ByteVector stacked(const WrittenLayer& layer, const std::vector<Projection>& projections,
                   bool scale) {
  ByteVector made;
  for (const experts::PlainExpert& expert : layer.experts) {
    for (const Projection projection : projections) {
      const experts::PlainProjection& from = experts::projection_of(expert, projection);
      const ByteVector& bytes = scale ? from.scale : from.weight;
      made.insert(made.end(), bytes.begin(), bytes.end());
    }
  }
  return made;
}

// gate_up_proj or down_proj of all experts, with its scales [E, projections] or [E].
void add_stacked(const WrittenLayer& layer, const std::string& stem,
                 const std::vector<Projection>& projections, Members& made) {
  const auto experts = static_cast<std::int64_t>(layer.scales.size());
  const auto count = static_cast<std::int64_t>(projections.size());
  const auto named = [&](std::string_view suffix) { return stem + std::string(suffix); };
  for (const bool scale : {false, true}) {
    const layout::Matrix one =
        layout::plain_matrix(projections.front(), scale, layer.experts.front().widths);
    ByteVector bytes = stacked(layer, projections, scale);
    if (bytes.empty()) continue;
    const std::int64_t stacks = static_cast<std::int64_t>(bytes.size()) / (count * one.bytes());
    made.add(named(scale ? fused_suffixes.scale : fused_suffixes.weight),
             scale ? Element::f8_e4m3 : Element::u8, {stacks, count * one.rows, one.row_bytes},
             std::move(bytes));
  }
  const auto add_scales = [&](std::string_view suffix,
                              std::optional<float> ProjectionScales::*member) {
    if (!(layer.scales.front()[static_cast<std::size_t>(projections.front())].*member)) return;
    std::vector<float> values;
    for (const auto& scales : layer.scales) {
      for (const Projection projection : projections) {
        values.push_back((scales[static_cast<std::size_t>(projection)].*member).value_or(0));
      }
    }
    made.add_floats(named(suffix), count == 1 ? Extents{experts} : Extents{experts, count}, values);
  };
  add_scales(fused_suffixes.scale_2, &ProjectionScales::weight);
  add_scales(fused_suffixes.input_scale, &ProjectionScales::input);
}

std::vector<Member> fused_members(const WrittenLayer& layer) {
  Members made;
  add_stacked(layer, root_of(layer) + ".gate_up_proj", {Projection::w1, Projection::w3}, made);
  add_stacked(layer, root_of(layer) + ".down_proj", {Projection::w2}, made);
  return made.take();
}

Reason write_shard(const std::string& path, const std::vector<const Member*>& members) {
  std::vector<TensorEntry> entries;
  for (const Member* member : members) entries.push_back(member->entry);
  Result<SafetensorsWriter> writer =
      SafetensorsWriter::create(path, {{"format", "pt"}}, std::move(entries));
  if (writer.reason) return writer.reason;
  for (const Member* member : members) {
    Reason reason = writer->add(member->bytes);
    if (reason) return reason;
  }
  return writer->finish();
}

Reason write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return {};
  return Reason(fmt::format("{}: cannot be written", shown(path)));
}

// The widths of the experts that are written.
layout::Widths widths_of(const WrittenLayer& layer) {
  for (const experts::PlainExpert& expert : layer.experts) {
    if (expert.widths.hidden != 0) return expert.widths;
  }
  return {};
}

std::string config_text(const WrittenLayer& layer) {
  const bool compressed = layer.format == Format::compressed_tensors;
  const std::string_view method =
      compressed ? R"("quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized")"
                 : R"("quant_method": "modelopt", "quant_algo": "NVFP4")";
  const WrittenClaims& claims = layer.claims;
  const std::string groups = fmt::format(
      R"("config_groups": {{"group_0": {{"targets": ["Linear"], "weights": {{"num_bits": {},
"type": "{}", "strategy": "tensor_group", "group_size": {}}}, "input_activations": {{"num_bits": 4,
"type": "float", "group_size": 16, "dynamic": {}}}}}}})",
      claims.num_bits, claims.type, claims.group_size, compressed ? R"("local")" : "false");
  const layout::Widths widths = widths_of(layer);
  return fmt::format(
      R"({{"num_experts": {}, "hidden_size": {}, "moe_intermediate_size": {},
"quantization_config": {{{}, {}, "ignore": ["lm_head"]}}}})",
      layer.experts.size(), claims.hidden.value_or(widths.hidden),
      claims.intermediate.value_or(widths.intermediate), method, groups);
}

}  // namespace

WrittenLayer payload_layer(Format format, const layout::Payload& payload,
                           const layout::Shape& shape) {
  const float a13 = std::ldexp(1.0F, layout::a13_exponent);
  const float a2 = std::ldexp(1.0F, layout::a2_exponent);
  const layout::Widths widths = layout::stock_widths(shape);
  const experts::Scalars due = experts::payload_scalars(payload.seed, 0, shape.experts, widths);
  WrittenLayer made;
  made.format = format;
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    const float w13 = due.g1_alphas[e] / a13;
    made.experts.push_back(experts::payload_expert(payload, e, widths));
    made.scales.push_back({ProjectionScales{w13, a13}, ProjectionScales{w13, a13},
                           ProjectionScales{due.g2_alphas[e] / a2, a2}});
  }
  return made;
}

Reason write_layer(const std::string& folder, const WrittenLayer& layer) {
  const std::vector<Member> members =
      layer.format == Format::fused ? fused_members(layer) : per_expert_members(layer);
  std::string map;
  for (std::int64_t shard = 0; shard < layer.shards; ++shard) {
    const std::string file =
        fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, layer.shards);
    std::vector<const Member*> mine;
    for (std::size_t i = static_cast<std::size_t>(shard); i < members.size();
         i += static_cast<std::size_t>(layer.shards)) {
      mine.push_back(&members[i]);
      map += fmt::format(R"({}"{}": "{}")", map.empty() ? "" : ", ", members[i].entry.name, file);
    }
    Reason reason = write_shard(fmt::format("{}/{}", folder, file), mine);
    if (reason) return reason;
  }
  Reason reason = write_text(folder + "/config.json", config_text(layer));
  if (reason || layer.shards == 1) return reason;
  return write_text(folder + "/model.safetensors.index.json",
                    fmt::format(R"({{"weight_map": {{{}}}}})", map));
}

}  // namespace slicecheck::checkpoint
