// Where the matrices of a layer lie: one tensor a projection and expert (ModelOpt,
// compressed-tensors), or one for all experts (fused).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/in_quotes.h"
#include "checkpoint/names.h"

namespace slicecheck::checkpoint {
namespace {

using layout::Projection;

// What stands behind the root's dot, in order: "0.gate_proj.weight", "gate_up_proj".
std::vector<std::string_view> tails_of(const Shards& shards, const std::string& root) {
  std::vector<std::string_view> tails;
  const std::string from = root + ".";
  for (auto at = shards.names().lower_bound(from);
       at != shards.names().end() && at->first.starts_with(from); ++at) {
    tails.push_back(std::string_view(at->first).substr(from.size()));
  }
  return tails;
}

Reason refusal(const Located& tensor, std::string_view why) {
  return Reason(fmt::format("{}: {}: {}", tensor.file->name(), in_quotes(tensor.entry->name), why),
                refused_cause);
}

Reason unexpected(const Located& tensor, Element due, const Extents& extents) {
  return Reason(fmt::format("{}: {}: is {}, expected {} {}", tensor.file->name(),
                            in_quotes(tensor.entry->name), text(*tensor.entry), name(due),
                            text(extents)));
}

// Weights of another kind than packed FP4 are named; nothing where they are bytes.
Reason not_nvfp4(const Located& weight) {
  if (weight.entry->element == Element::u8) return {};
  return refusal(weight, fmt::format("the experts are {}, not NVFP4", name(weight.entry->element)));
}

// The F32 value at `index` of a scale tensor, which holds one value or more.
Result<float> value_at(const Located& tensor, std::int64_t index) {
  std::uint8_t word[sizeof(float)];
  Reason reason = tensor.file->read(*tensor.entry, index * std::int64_t{sizeof word}, word);
  if (reason) return reason;
  return load<float>(word);
}

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
  Reason reason = not_nvfp4(*weight);
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
    if (e != due) return Reason(fmt::format("{}: expert {} is missing", where, due));
    ++due;
  }
  return due;
}

bool any_contains(const std::vector<std::string_view>& tails, std::string_view part) {
  return std::any_of(tails.begin(), tails.end(), [part](std::string_view tail) {
    return tail.find(part) != std::string_view::npos;
  });
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

Result<Layer> per_expert_layer(Shards& shards, const std::string& root,
                               const std::vector<std::string_view>& tails) {
  const std::string where = fmt::format("{}: {}", shown(shards.folder()), in_quotes(root));
  const Result<Names> names = names_of(tails, where);
  if (names.reason) return names.reason;
  const Result<std::int64_t> total = experts_of(tails, where);
  if (total.reason) return total.reason;
  const Suffixes& suffixes =
      names->format == Format::modelopt ? modelopt_suffixes : compressed_suffixes;
  std::vector<ExpertPlace> experts(static_cast<std::size_t>(*total));
  layout::Widths widths;
  for (std::size_t e = 0; e < experts.size(); ++e) {
    for (std::size_t p = 0; p < experts[e].size(); ++p) {
      const Named named{fmt::format("{}.{}.{}", root, e, names->projections[p]), suffixes,
                        names->format};
      Result<ProjectionPlace> place = projection_place(shards, named);
      if (place.reason) return place.reason;
      experts[e][p] = std::move(*place);
    }
    const layout::Matrix& w1 = experts[e].front().weight.matrix;
    if (e == 0) widths = {w1.row_bytes * layout::codes_per_byte, w1.rows};
    Reason reason = uneven(experts[e], widths);
    if (reason) return reason;
  }
  return Layer(names->format, root, widths, std::move(experts));
}

}  // namespace

Result<Layer> layer_of(Shards& shards, const std::string& root) {
  const std::vector<std::string_view> tails = tails_of(shards, root);
  for (const std::string_view tail : tails) {
    if (!tail.ends_with("bias")) continue;
    const Result<Located> bias = shards.find(fmt::format("{}.{}", root, tail));
    if (bias.reason) return bias.reason;
    return refusal(*bias, "experts with biases are not supported");
  }
  return per_expert_layer(shards, root, tails);
}

}  // namespace slicecheck::checkpoint
