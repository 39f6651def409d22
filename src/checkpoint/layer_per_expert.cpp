// One tensor a projection and expert: ModelOpt and compressed-tensors.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/in_quotes.h"
#include "checkpoint/layer_places.h"
#include "checkpoint/names.h"

namespace slicecheck::checkpoint {
namespace {

using layout::Projection;

// The optional scalar `name`: F32 [] or [1]. `reciprocal` formats hold its divisor.
Result<std::optional<float>> scalar_of(Shards& shards, const std::string& name, Format format) {
  if (!shards.names().contains(name)) return std::optional<float>();
  const Result<Located> tensor = shards.find(name);
  if (tensor.reason) return tensor.reason;
  if (tensor->entry->element != Element::f32 || count(tensor->entry->extents) != 1) {
    return unexpected(*tensor, Element::f32, {});
  }
  const Result<float> value = value_at(*tensor, 0);
  if (value.reason) return value.reason;
  return std::optional<float>(format == Format::compressed_tensors ? 1.0F / *value : *value);
}

// The weights' tensor and the block scales' under these names, of one projection of one expert.
struct Named {
  std::string stem;  // ROOT.{e}.{projection}
  Suffixes suffixes;
  Format format = Format::modelopt;
};

Result<ProjectionPlace> projection_place(Shards& shards, const Named& named) {
  Result<Located> weight = shards.find(named.stem + std::string(named.suffixes.weight));
  if (weight.reason) return weight.reason;
  Reason reason = not_packed(*weight);
  if (reason) return reason;
  const Extents& extents = weight->entry->extents;
  if (extents.size() != 2 || extents[0] == 0 || extents[1] == 0 || extents[1] % 8 != 0) {
    return Reason(fmt::format("{}: {}: is {}, expected U8 [out, in/2] with in a multiple of 16",
                              weight->file->name(), in_quotes(weight->entry->name),
                              text(*weight->entry)));
  }
  Result<Located> scale = shards.find(named.stem + std::string(named.suffixes.scale));
  if (scale.reason) return scale.reason;
  const Extents due{extents[0], extents[1] / 8};
  if (scale->entry->extents == Extents{extents[0], extents[1] / 16}) {
    return refusal(*scale, "a scale for each 32 elements: the experts are MXFP4, not NVFP4");
  }
  if (scale->entry->element != Element::f8_e4m3 || scale->entry->extents != due) {
    return unexpected(*scale, Element::f8_e4m3, due);
  }
  ProjectionPlace made;
  made.weight = {*weight, 0, {extents[0], extents[1]}};
  made.scale = {*scale, 0, {due[0], due[1]}};
  Result<std::optional<float>> value =
      scalar_of(shards, named.stem + std::string(named.suffixes.scale_2), named.format);
  if (value.reason) return value.reason;
  made.scales.weight = *value;
  value = scalar_of(shards, named.stem + std::string(named.suffixes.input_scale), named.format);
  if (value.reason) return value.reason;
  made.scales.input = *value;
  return made;
}

// The numbers of experts in a per-expert layer's tails: 0 to E - 1 without a hole.
Result<std::int64_t> experts_of(const std::vector<std::string_view>& tails,
                                const std::string& where) {
  std::set<std::int64_t> numbers;
  for (const std::string_view tail : tails) {
    std::int64_t e = -1;
    const auto [end, failed] = std::from_chars(tail.data(), tail.data() + tail.size(), e);
    if (failed == std::errc() && end != tail.data() + tail.size() && *end == '.' && e >= 0) {
      numbers.insert(e);
    }
  }
  std::int64_t due = 0;
  for (const std::int64_t e : numbers) {
    if (e != due) {
      return Reason(fmt::format("{}: expert {} is missing", where, due), "expert-missing");
    }
    ++due;
  }
  return due;
}

bool any_ends_with(const std::vector<std::string_view>& tails, std::string_view end) {
  return std::any_of(tails.begin(), tails.end(),
                     [end](std::string_view tail) { return tail.ends_with(end); });
}

// What one layer's tensors say of themselves by their names alone.
struct Names {
  Format format = Format::modelopt;
  ProjectionNames projections;
};

Result<Names> names_of(const std::vector<std::string_view>& tails, const std::string& where) {
  for (const ProjectionNames& names : projection_names) {
    const std::string gate = fmt::format(".{}.", names[0]);
    const std::string down = fmt::format(".{}.", names[2]);
    if (!any_contains(tails, down)) continue;
    if (!any_contains(tails, gate)) {
      return Reason(fmt::format("{}: the experts are not gated: no {}", where, names[0]),
                    refused_cause);
    }
    if (any_ends_with(tails, ".weight_packed")) return Names{Format::compressed_tensors, names};
    if (any_ends_with(tails, ".weight")) return Names{Format::modelopt, names};
  }
  return Reason(fmt::format("{}: the experts are not NVFP4: no tensor is named as one", where),
                refused_cause);
}

// w1 and w3 are [I, H/2] alike, w2 is [H, I/2]: as expert 0 has them.
Reason uneven(const ExpertPlace& expert, const layout::Widths& widths) {
  for (const Projection projection : layout::projections) {
    const MatrixPlace& weight = expert[static_cast<std::size_t>(projection)].weight;
    const layout::Matrix due = layout::plain_matrix(projection, false, widths);
    if (weight.matrix == due) continue;
    return unexpected(weight.tensor, Element::u8, {due.rows, due.row_bytes});
  }
  return {};
}

}  // namespace

Result<Layer> per_expert_layer(Shards& shards, const LayerNames& layer, const Config& config) {
  const Result<Names> names = names_of(layer.tails, layer.where);
  if (names.reason) return names.reason;
  const Result<std::int64_t> total = experts_of(layer.tails, layer.where);
  if (total.reason) return total.reason;
  const Suffixes& suffixes =
      names->format == Format::modelopt ? modelopt_suffixes : compressed_suffixes;
  std::vector<ExpertPlace> experts(static_cast<std::size_t>(*total));
  std::vector<std::string> modules{layer.root};
  layout::Widths widths;
  for (std::size_t e = 0; e < experts.size(); ++e) {
    for (std::size_t p = 0; p < experts[e].size(); ++p) {
      modules.push_back(fmt::format("{}.{}.{}", layer.root, e, names->projections[p]));
      const Named named{modules.back(), suffixes, names->format};
      Result<ProjectionPlace> place = projection_place(shards, named);
      if (place.reason) return place.reason;
      experts[e][p] = std::move(*place);
    }
    const layout::Matrix& w1 = experts[e].front().weight.matrix;
    if (e == 0) widths = {w1.row_bytes * layout::codes_per_byte, w1.rows};
    Reason reason = uneven(experts[e], widths);
    if (reason) return reason;
  }
  Layer made(names->format, layer.root, widths, std::move(experts));
  Reason reason = contradicted(config, made, modules);
  if (reason) return reason;
  return made;
}

}  // namespace slicecheck::checkpoint
