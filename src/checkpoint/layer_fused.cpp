// One tensor for all experts: [E, 2I, H/2] with gate rows first, and [E, H, I/2].
#include <fmt/format.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/in_quotes.h"
#include "checkpoint/layer_places.h"
#include "checkpoint/names.h"

namespace slicecheck::checkpoint {
namespace {

using layout::Projection;

// A weight tensor [E, rows, row_bytes] of all experts, its block scales and its global scales
// [projections of it][E]. What is wrong with its scales is wrong for all of its experts.
struct Stacked {
  Located weight;
  Located scale;  // no file: absent, or of other extents
  std::int64_t experts = 0;
  layout::Matrix matrix;  // of one expert's weights
  std::vector<std::vector<ProjectionScales>> scales;
  std::vector<std::pair<ScalePart, Reason>> flaws;
};

// Packed along the reduction axis, which is the axis before the last: Llama 4's.
bool transposed(const Extents& weight, const Extents& scale) {
  return weight[2] == scale[2] && weight[1] == 8 * scale[1];
}

Reason unstacked(const Located& weight) {
  const Extents& extents = weight.entry->extents;
  if (extents.size() == 3 && count(extents) != 0) return {};
  return Reason(fmt::format("{}: {}: is {}, expected U8 [E, rows, columns]", weight.file->name(),
                            in_quotes(weight.entry->name), text(*weight.entry)));
}

// The block scales beside a weight tensor of three axes.
Reason read_blocks(Shards& shards, const std::string& name, Stacked& made) {
  const Extents& extents = made.weight.entry->extents;
  Result<Located> scale = shards.find(name);
  if (scale.reason && shards.names().contains(name)) return scale.reason;
  if (scale.reason) {
    made.flaws.emplace_back(ScalePart::blocks, Reason(scale.reason.text(), "scale-missing"));
    return {};
  }
  const TensorEntry& entry = *scale->entry;
  if (entry.element == Element::f8_e4m3 && entry.extents.size() == 3 &&
      transposed(extents, entry.extents)) {
    return refusal(made.weight, "transposed fused experts (as Llama 4 has them) are not supported");
  }
  if (entry.extents == Extents{extents[0], extents[1], extents[2] / 16}) {
    return refusal(*scale, "a scale for each 32 elements: the experts are MXFP4, not NVFP4");
  }
  const Extents due{extents[0], extents[1], extents[2] / 8};
  Reason unlike = unexpected(*scale, Element::f8_e4m3, due);
  if (extents[2] % 8 != 0 || entry.element != Element::f8_e4m3) return unlike;
  if (entry.extents == due) {
    made.scale = std::move(*scale);
  } else {
    made.flaws.emplace_back(ScalePart::blocks, Reason(unlike.text(), "scale-extent-mismatch"));
  }
  return {};
}

// The value of expert e and projection p in a scale tensor [], [1], [E], [E, 1] or [E,
// projections].
std::int64_t scale_index(const Located& tensor, std::int64_t e, std::int64_t p) {
  const std::int64_t values = count(tensor.entry->extents);
  const Extents& extents = tensor.entry->extents;
  const std::int64_t columns = extents.size() == 2 ? extents[1] : 1;
  return values == 1 ? 0 : e * columns + (columns == 1 ? 0 : p);
}

// Whether a global scale's tensor is one value for all, or one an expert or projection.
bool fits(const Extents& extents, const Stacked& stacked) {
  const std::int64_t experts = stacked.experts;
  return extents.empty() || extents == Extents{1} || extents == Extents{experts} ||
         extents == Extents{experts, 1} ||
         extents == Extents{experts, static_cast<std::int64_t>(stacked.scales.size())};
}

// A global scale's tensor that is there.
Result<Located> scales_tensor(Shards& shards, const std::string& name, const Stacked& stacked) {
  Result<Located> tensor = shards.find(name);
  if (tensor.reason) return tensor.reason;
  const bool fit = fits(tensor->entry->extents, stacked);
  if (tensor->entry->element == Element::f32 && fit) return tensor;
  return Reason(fmt::format("{}: {}: is {}, expected F32 [], [{}] or [{}, {}]",
                            tensor->file->name(), in_quotes(name), text(*tensor->entry),
                            stacked.experts, stacked.experts, stacked.scales.size()),
                tensor->entry->element == Element::f32 ? "scale-extent-mismatch" : "");
}

Reason read_scales(Stacked& stacked, const Located& tensor,
                   std::optional<float> ProjectionScales::*member) {
  for (std::size_t p = 0; p < stacked.scales.size(); ++p) {
    for (std::int64_t e = 0; e < stacked.experts; ++e) {
      const Result<float> value =
          value_at(tensor, scale_index(tensor, e, static_cast<std::int64_t>(p)));
      if (value.reason) return value.reason;
      stacked.scales[p].at(e).*member = *value;
    }
  }
  return {};
}

Result<Stacked> stacked_of(Shards& shards, const std::string& stem, std::int64_t projections) {
  Result<Located> weight = shards.find(stem + std::string(fused_suffixes.weight));
  if (weight.reason) return weight.reason;
  Reason reason = not_packed(*weight);
  if (!reason) reason = unstacked(*weight);
  if (reason) return reason;
  const Extents& extents = weight->entry->extents;
  Stacked made{*weight, {}, extents[0], {extents[1], extents[2]}, {}, {}};
  reason = read_blocks(shards, stem + std::string(fused_suffixes.scale), made);
  if (reason) return reason;
  made.scales.assign(projections, std::vector<ProjectionScales>(extents[0]));
  const std::string names[] = {stem + std::string(fused_suffixes.scale_2),
                               stem + std::string(fused_suffixes.input_scale)};
  constexpr std::pair<ScalePart, std::optional<float> ProjectionScales::*> members[] = {
      {ScalePart::weight, &ProjectionScales::weight}, {ScalePart::input, &ProjectionScales::input}};
  for (std::size_t which = 0; which < 2; ++which) {
    if (!shards.names().contains(names[which])) continue;
    const auto& [part, member] = members[which];
    const Result<Located> tensor = scales_tensor(shards, names[which], made);
    if (!tensor.reason.cause().empty()) {
      made.flaws.emplace_back(part, tensor.reason);
      continue;
    }
    if (tensor.reason) return tensor.reason;
    reason = read_scales(made, *tensor, member);
    if (reason) return reason;
  }
  return made;
}

// Rows [row, row + rows) of expert e.
ProjectionPlace place_of(const Stacked& stacked, std::int64_t e, std::int64_t row,
                         std::int64_t rows) {
  const std::int64_t row_bytes = stacked.matrix.row_bytes;
  const std::int64_t first = e * stacked.matrix.rows + row;
  ProjectionPlace made;
  made.weight = {stacked.weight, first * row_bytes, {rows, row_bytes}};
  made.scale = {stacked.scale, first * (row_bytes / 8), {rows, row_bytes / 8}};
  return made;
}

Reason uneven(const Stacked& gate_up, const Stacked& down) {
  const layout::Matrix& up = gate_up.matrix;
  if (up.rows % 2 != 0) {
    return Reason(fmt::format("{}: {}: is {}, expected an even number of rows, gate and up",
                              gate_up.weight.file->name(), in_quotes(gate_up.weight.entry->name),
                              text(*gate_up.weight.entry)));
  }
  const layout::Widths widths{up.row_bytes * layout::codes_per_byte, up.rows / 2};
  const layout::Matrix due = layout::plain_matrix(Projection::w2, false, widths);
  if (down.experts == gate_up.experts && down.matrix == due) return {};
  return unexpected(down.weight, Element::u8, {gate_up.experts, due.rows, due.row_bytes});
}

// Each flaw of a stacked tensor for every expert, of these projections.
void add_flaws(const Stacked& stacked, const std::vector<Projection>& projections,
               std::vector<Flaw>& made) {
  for (const auto& [part, reason] : stacked.flaws) {
    for (std::int64_t e = 0; e < stacked.experts; ++e) {
      for (const Projection projection : projections) made.push_back({reason, e, projection, part});
    }
  }
}

LayerPlaces places_of(const Stacked& gate_up, const Stacked& down) {
  const std::int64_t intermediate = gate_up.matrix.rows / 2;
  LayerPlaces made;
  for (std::int64_t e = 0; e < gate_up.experts; ++e) {
    ExpertPlace& place = made.experts.emplace_back();
    place[0] = place_of(gate_up, e, 0, intermediate);
    place[1] = place_of(gate_up, e, intermediate, intermediate);
    place[2] = place_of(down, e, 0, down.matrix.rows);
    place[0].scales = gate_up.scales[0].at(e);
    place[1].scales = gate_up.scales[1].at(e);
    place[2].scales = down.scales[0].at(e);
  }
  add_flaws(gate_up, {Projection::w1, Projection::w3}, made.flaws);
  add_flaws(down, {Projection::w2}, made.flaws);
  return made;
}

}  // namespace

Result<Layer> fused_layer(Shards& shards, const LayerNames& names, const Config& config) {
  const std::vector<std::string> modules{names.root, names.root + ".gate_up_proj",
                                         names.root + ".down_proj"};
  const Result<Stacked> gate_up = stacked_of(shards, modules[1], 2);
  if (gate_up.reason) return gate_up.reason;
  const Result<Stacked> down = stacked_of(shards, modules[2], 1);
  if (down.reason) return down.reason;
  Reason reason = uneven(*gate_up, *down);
  if (reason) return reason;
  LayerPlaces places = places_of(*gate_up, *down);
  std::set<std::int64_t> held;
  for (std::int64_t e = 0; e < gate_up->experts; ++e) held.insert(held.end(), e);
  const std::vector<Flaw> flaws = miscounted(config, names, held);
  places.flaws.insert(places.flaws.begin(), flaws.begin(), flaws.end());
  const layout::Widths widths{gate_up->matrix.row_bytes * layout::codes_per_byte,
                              gate_up->matrix.rows / 2};
  Layer made(Format::fused, names.root, widths, std::move(places));
  reason = contradicted(config, made, modules);
  if (reason) return reason;
  return made;
}

}  // namespace slicecheck::checkpoint
