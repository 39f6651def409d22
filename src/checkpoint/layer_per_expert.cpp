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
};

Reason misfit(const Located& tensor, Element due, const Extents& extents) {
  return Reason(unexpected(tensor, due, extents).text(), "scale-extent-mismatch");
}

// Finds one projection after another, and keeps what is absent or does not fit as flaws.
class PlaceReader {
 public:
  PlaceReader(Shards& shards, Format format)
      : shards_(shards),
        format_(format),
        suffixes_(format == Format::modelopt ? modelopt_suffixes : compressed_suffixes) {}

  // The projection whose tensors begin with `stem`, ROOT.{e}.{projection}.
  Result<ProjectionPlace> place(const std::string& stem, std::int64_t e, Projection projection) {
    expert_ = e;
    projection_ = projection;
    ProjectionPlace made;
    Reason reason = read_weight(stem + std::string(suffixes_.weight), made);
    if (!reason) reason = read_blocks(stem + std::string(suffixes_.scale), made);
    if (reason) return reason;
    Result<std::optional<float>> value =
        scalar(stem + std::string(suffixes_.scale_2), ScalePart::weight);
    if (value.reason) return value.reason;
    made.scales.weight = *value;
    value = scalar(stem + std::string(suffixes_.input_scale), ScalePart::input);
    if (value.reason) return value.reason;
    made.scales.input = *value;
    return made;
  }

  std::vector<Flaw> take() { return std::move(flaws_); }

 private:
  void add(const Reason& reason, ScalePart part) {
    flaws_.push_back({reason, expert_, projection_, part});
  }

  Reason read_weight(const std::string& name, ProjectionPlace& made) {
    Result<Located> weight = shards_.find(name);
    if (weight.reason) return weight.reason;
    Reason reason = not_packed(*weight);
    if (reason) return reason;
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
      add(Reason(scale.reason.text(), "scale-missing"), ScalePart::blocks);
      return {};
    }
    const Extents due{weight.rows, weight.row_bytes / 8};
    if (scale->entry->extents == Extents{weight.rows, weight.row_bytes / 16}) {
      return refusal(*scale, "a scale for each 32 elements: the experts are MXFP4, not NVFP4");
    }
    if (scale->entry->element != Element::f8_e4m3) return unexpected(*scale, Element::f8_e4m3, due);
    if (scale->entry->extents != due) {
      add(misfit(*scale, Element::f8_e4m3, due), ScalePart::blocks);
      return {};
    }
    made.scale = {*scale, 0, {due[0], due[1]}};
    return {};
  }

  // The optional scalar `name`: F32 [] or [1]. Reciprocal formats hold its divisor.
  Result<std::optional<float>> scalar(const std::string& name, ScalePart part) {
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
  const std::set<std::int64_t> held = experts_of(layer.tails);
  LayerPlaces made;
  made.flaws = miscounted(config, layer, held);
  made.experts.resize(static_cast<std::size_t>(extent_of(config, held)));
  PlaceReader reader(shards, names->format);
  std::vector<std::string> modules{layer.root};
  layout::Widths widths;
  for (const std::int64_t e : held) {
    if (e >= std::ssize(made.experts)) break;
    ExpertPlace& expert = made.experts[e];
    for (const Projection projection : layout::projections) {
      const auto p = static_cast<std::size_t>(projection);
      modules.push_back(fmt::format("{}.{}.{}", layer.root, e, names->projections[p]));
      Result<ProjectionPlace> place = reader.place(modules.back(), e, projection);
      if (place.reason) return place.reason;
      expert[p] = std::move(*place);
    }
    const layout::Matrix& w1 = expert.front().weight.matrix;
    if (widths.hidden == 0) widths = {w1.row_bytes * layout::codes_per_byte, w1.rows};
    Reason reason = uneven(expert, widths);
    if (reason) return reason;
  }
  if (widths.hidden == 0) return Reason(fmt::format("{}: no expert is numbered", layer.where));
  const std::vector<Flaw> flaws = reader.take();
  made.flaws.insert(made.flaws.end(), flaws.begin(), flaws.end());
  Layer whole(names->format, layer.root, widths, std::move(made));
  Reason reason = contradicted(config, whole, modules);
  if (reason) return reason;
  return whole;
}

}  // namespace slicecheck::checkpoint
