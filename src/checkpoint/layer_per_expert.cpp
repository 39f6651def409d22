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

// What one layer's tensors say of themselves by their names alone.
struct Names {
  Format format = Format::modelopt;
  ProjectionNames projections;
  Reason unsupported;  // why experts of these names are not read
};

// Finds one projection after another, and keeps what is absent or does not fit as flaws.
class PlaceReader {
 public:
  PlaceReader(Shards& shards, Format format)
      : shards_(shards),
        format_(format),
        suffixes_(format == Format::modelopt ? modelopt_suffixes : compressed_suffixes) {}

  // The projection whose tensors begin with `stem`, ROOT.{e}.{projection}; nothing of it where its
  // weights are of another kind.
  Result<ProjectionPlace> place(const std::string& stem, std::int64_t e, Projection projection) {
    expert_ = e;
    projection_ = projection;
    ProjectionPlace made;
    Reason reason = read_bias(stem + ".bias");
    if (!reason) reason = read_weight(stem + std::string(suffixes_.weight), made);
    if (reason) return reason;
    if (made.weight.tensor.file == nullptr) return made;
    reason = read_blocks(stem + std::string(suffixes_.scale), made);
    if (reason) return reason;
    Result<std::optional<float>> value =
        scalar(stem + std::string(suffixes_.scale_2), ProjectionPart::weight_scale);
    if (value.reason) return value.reason;
    made.scales.weight = *value;
    value = scalar(stem + std::string(suffixes_.input_scale), ProjectionPart::input_scale);
    if (value.reason) return value.reason;
    made.scales.input = *value;
    return made;
  }

  // Why the layer is not NVFP4 at all, as far as it was read: no weights are packed, or all block
  // scales are MXFP4's; or nothing.
  Reason other_format() const {
    if (packed_ == 0) return unpacked_;
    return blocks_ == 0 ? wide_ : Reason();
  }

  std::vector<Flaw> take() { return std::move(flaws_); }

 private:
  void add(const Reason& reason, ProjectionPart part) {
    flaws_.push_back({reason, expert_, projection_, part});
  }

  Reason read_bias(const std::string& name) {
    if (!shards_.names().contains(name)) return {};
    const Result<Located> bias = shards_.find(name);
    if (bias.reason) return bias.reason;
    add(biased(*bias), ProjectionPart::bias);
    return {};
  }

  Reason read_weight(const std::string& name, ProjectionPlace& made) {
    Result<Located> weight = shards_.find(name);
    if (weight.reason) return weight.reason;
    if (!packed(*weight)) {
      if (!unpacked_) unpacked_ = not_nvfp4(*weight);
      add(not_as_others(*weight), ProjectionPart::weights);
      return {};
    }
    ++packed_;
    const Extents& extents = weight->entry->extents;
    if (extents.size() != 2 || extents[0] == 0 || extents[1] == 0 || extents[1] % 8 != 0) {
      return Reason(fmt::format("{}: {}: is {}, expected U8 [out, in/2] with in a multiple of 16",
                                weight->file->name(), in_quotes(weight->entry->name),
                                text(*weight->entry)));
    }
    made.weight = {*weight, 0, {extents[0], extents[1]}};
    return {};
  }

  Reason read_blocks(const std::string& name, ProjectionPlace& made) {
    const layout::Matrix& weight = made.weight.matrix;
    Result<Located> scale = shards_.find(name);
    if (scale.reason && shards_.names().contains(name)) return scale.reason;
    if (scale.reason) {
      add(Reason(scale.reason.text(), "scale-missing"), ProjectionPart::blocks);
      return {};
    }
    const Extents due{weight.rows, weight.row_bytes / 8};
    if (scale->entry->extents == Extents{weight.rows, weight.row_bytes / 16}) {
      if (!wide_) wide_ = mxfp4(*scale);
      add(misfit(*scale, Element::f8_e4m3, due), ProjectionPart::blocks);
      return {};
    }
    ++blocks_;
    if (scale->entry->element != Element::f8_e4m3) return unexpected(*scale, Element::f8_e4m3, due);
    if (scale->entry->extents != due) {
      add(misfit(*scale, Element::f8_e4m3, due), ProjectionPart::blocks);
      return {};
    }
    made.scale = {*scale, 0, {due[0], due[1]}};
    return {};
  }

  // The optional scalar `name`: F32 [] or [1]. Reciprocal formats hold its divisor.
  Result<std::optional<float>> scalar(const std::string& name, ProjectionPart part) {
    if (!shards_.names().contains(name)) return std::optional<float>();
    const Result<Located> tensor = shards_.find(name);
    if (tensor.reason) return tensor.reason;
    if (tensor->entry->element != Element::f32) return unexpected(*tensor, Element::f32, {});
    if (count(tensor->entry->extents) != 1) {
      add(misfit(*tensor, Element::f32, {}), part);
      return std::optional<float>();
    }
    const Result<float> value = value_at(*tensor, 0);
    if (value.reason) return value.reason;
    return std::optional<float>(format_ == Format::compressed_tensors ? 1.0F / *value : *value);
  }

  Shards& shards_;
  Format format_;
  const Suffixes& suffixes_;
  std::int64_t expert_ = 0;
  Projection projection_ = Projection::w1;
  std::int64_t packed_ = 0;  // weights, and scales of blocks of 16 or of what no reader knows
  std::int64_t blocks_ = 0;
  Reason unpacked_;  // of the first weights that are not packed
  Reason wide_;      // of the first scales of blocks of 32
  std::vector<Flaw> flaws_;
};

// The numbers of experts in a per-expert layer's tails.
std::set<std::int64_t> experts_of(const std::vector<std::string_view>& tails) {
  std::set<std::int64_t> numbers;
  for (const std::string_view tail : tails) {
    std::int64_t e = -1;
    const auto [end, failed] = std::from_chars(tail.data(), tail.data() + tail.size(), e);
    if (failed == std::errc() && end != tail.data() + tail.size() && *end == '.' && e >= 0) {
      numbers.insert(e);
    }
  }
  return numbers;
}

// E: as many as the config counts, or the highest number has; no more than a few beyond those held.
std::int64_t extent_of(const Config& config, const std::set<std::int64_t>& held) {
  const std::int64_t due = config.experts.value_or(held.empty() ? 0 : *held.rbegin() + 1);
  return std::min(due, static_cast<std::int64_t>(held.size()) + miscounted_max);
}

bool any_ends_with(const std::vector<std::string_view>& tails, std::string_view end) {
  return std::any_of(tails.begin(), tails.end(),
                     [end](std::string_view tail) { return tail.ends_with(end); });
}

Result<Names> names_of(const std::vector<std::string_view>& tails, const std::string& where) {
  for (const ProjectionNames& names : projection_names) {
    const std::string gate = fmt::format(".{}.", names[0]);
    const std::string down = fmt::format(".{}.", names[2]);
    if (!any_contains(tails, down)) continue;
    Reason ungated;
    if (!any_contains(tails, gate)) {
      ungated = Reason(fmt::format("{}: the experts are not gated: no {}", where, names[0]),
                       refused_cause);
      // Experts that are not NVFP4 either have no second scales.
      if (!any_ends_with(tails, modelopt_suffixes.scale_2) &&
          !any_ends_with(tails, compressed_suffixes.scale_2)) {
        return ungated;
      }
    }
    if (any_ends_with(tails, ".weight_packed")) {
      return Names{Format::compressed_tensors, names, ungated};
    }
    if (any_ends_with(tails, ".weight")) return Names{Format::modelopt, names, ungated};
  }
  return Reason(fmt::format("{}: the experts are not NVFP4: no tensor is named as one", where),
                refused_cause);
}

// H and I by the first weights that are read; nothing where none are.
layout::Widths widths_of(const std::vector<ExpertPlace>& experts) {
  for (const ExpertPlace& expert : experts) {
    for (const Projection projection : layout::projections) {
      const layout::Matrix& weight = expert[static_cast<std::size_t>(projection)].weight.matrix;
      if (weight.rows == 0) continue;
      const std::int64_t in = weight.row_bytes * layout::codes_per_byte;
      return projection == Projection::w2 ? layout::Widths{weight.rows, in}
                                          : layout::Widths{in, weight.rows};
    }
  }
  return {};
}

// w1 and w3 are [I, H/2] alike, w2 is [H, I/2]: as the first expert has them.
Reason uneven(const std::vector<ExpertPlace>& experts, const layout::Widths& widths) {
  for (const ExpertPlace& expert : experts) {
    for (const Projection projection : layout::projections) {
      const MatrixPlace& weight = expert[static_cast<std::size_t>(projection)].weight;
      const layout::Matrix due = layout::plain_matrix(projection, false, widths);
      if (weight.tensor.file == nullptr || weight.matrix == due) continue;
      return unexpected(weight.tensor, Element::u8, {due.rows, due.row_bytes});
    }
  }
  return {};
}

std::string module_of(const LayerNames& layer, const Names& names, std::int64_t e, std::size_t p) {
  return fmt::format("{}.{}.{}", layer.root, e, names.projections[p]);
}

// All projections of the experts held, as far as the layer's extent goes.
Reason read_places(PlaceReader& reader, const LayerNames& layer, const Names& names,
                   const std::set<std::int64_t>& held, std::vector<ExpertPlace>& experts) {
  for (const std::int64_t e : held) {
    if (e >= std::ssize(experts)) break;
    for (const Projection projection : layout::projections) {
      const auto p = static_cast<std::size_t>(projection);
      Result<ProjectionPlace> place = reader.place(module_of(layer, names, e, p), e, projection);
      const Reason other = reader.other_format();
      if (place.reason) return other ? other : place.reason;
      experts[e][p] = std::move(*place);
    }
  }
  return reader.other_format();
}

// The modules of the experts held, as far as the layer's extent goes.
std::vector<LayerModule> modules_of(const LayerNames& layer, const Names& names,
                                    const std::set<std::int64_t>& held, std::int64_t extent) {
  std::vector<LayerModule> made;
  for (const std::int64_t e : held) {
    if (e >= extent) break;
    for (const Projection projection : layout::projections) {
      made.push_back(
          {module_of(layer, names, e, static_cast<std::size_t>(projection)), {{e, projection}}});
    }
  }
  return made;
}

// The projections that the config leaves out though others of the layer are NVFP4.
Result<std::vector<Flaw>> left_out_flaws(const Config& config, const LayerNames& layer,
                                         const std::vector<LayerModule>& modules) {
  std::vector<std::string> asked{layer.root};
  for (const LayerModule& module : modules) asked.push_back(module.name);
  const Result<std::vector<LeftOut>> out = left_out(config, asked);
  if (out.reason) return out.reason;
  std::vector<Flaw> made;
  for (const LeftOut& one : *out) {
    const auto& [e, projection] = modules[one.module - 1].projections.front();
    made.push_back({one.reason, e, projection, ProjectionPart::weights});
  }
  return made;
}

}  // namespace

Result<Layer> per_expert_layer(Shards& shards, const LayerNames& layer, const Config& config) {
  const Result<Names> names = names_of(layer.tails, layer.where);
  if (names.reason) return names.reason;
  if (names->unsupported) return unread(names->format, layer, config, names->unsupported);
  const std::set<std::int64_t> held = experts_of(layer.tails);
  LayerPlaces made;
  made.flaws = miscounted(config, layer, held);
  made.experts.resize(static_cast<std::size_t>(extent_of(config, held)));
  PlaceReader reader(shards, names->format);
  Reason reason = read_places(reader, layer, *names, held, made.experts);
  if (reason) return reason;
  reason = interleaved(layer, config);
  if (reason) return unread(names->format, layer, config, reason);
  const layout::Widths widths = widths_of(made.experts);
  if (widths.hidden == 0) return Reason(fmt::format("{}: no expert is numbered", layer.where));
  reason = uneven(made.experts, widths);
  if (!reason) reason = contradicted(config, layer, names->format);
  if (reason) return reason;
  const std::vector<LayerModule> modules =
      modules_of(layer, *names, held, std::ssize(made.experts));
  const Result<std::vector<Flaw>> out = left_out_flaws(config, layer, modules);
  if (out.reason) return out.reason;
  for (const std::vector<Flaw>& flaws : {reader.take(), *out}) {
    made.flaws.insert(made.flaws.end(), flaws.begin(), flaws.end());
  }
  add_claims(config, layer, modules, widths, made);
  return Layer(names->format, layer.root, widths, std::move(made));
}

}  // namespace slicecheck::checkpoint
