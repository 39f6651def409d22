// One tensor for all experts: [E, 2I, H/2] with gate rows first, and [E, H, I/2].
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "checkpoint/checkpoint.h"
#include "checkpoint/in_quotes.h"
#include "checkpoint/layer_places.h"
#include "checkpoint/names.h"

namespace slicecheck::checkpoint {
namespace {

using layout::Projection;

// The projections that each of the two tensors holds.
constexpr std::array<Projection, 2> of_gate_up{Projection::w1, Projection::w3};
constexpr std::array<Projection, 1> of_down{Projection::w2};

// A weight tensor [E, rows, row_bytes] of all experts, its block scales and its global scales
// [projections of it][E]. What is wrong with it or its scales is wrong for all of its experts. One
// that is not packed has no more than its weight.
struct Stacked {
  Located weight;
  Located scale;  // no file: absent, or of other extents
  std::int64_t experts = 0;
  layout::Matrix matrix;  // of one expert's weights
  std::vector<std::vector<ProjectionScales>> scales;
  std::vector<std::pair<ProjectionPart, Reason>> flaws;
  Reason unread;        // why a tensor of this kind is not read
  Reason other_format;  // why it is not NVFP4
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
    made.flaws.emplace_back(ProjectionPart::blocks, Reason(scale.reason.text(), "scale-missing"));
    return {};
  }
  const TensorEntry& entry = *scale->entry;
  if (entry.element == Element::f8_e4m3 && entry.extents.size() == 3 &&
      transposed(extents, entry.extents)) {
    made.unread =
        refusal(made.weight, "transposed fused experts (as Llama 4 has them) are not supported");
    return {};
  }
  const Extents due{extents[0], extents[1], extents[2] / 8};
  if (entry.extents == Extents{extents[0], extents[1], extents[2] / 16}) {
    made.other_format = mxfp4(*scale);
    made.flaws.emplace_back(ProjectionPart::blocks, misfit(*scale, Element::f8_e4m3, due));
    return {};
  }
  Reason unlike = unexpected(*scale, Element::f8_e4m3, due);
  if (extents[2] % 8 != 0 || entry.element != Element::f8_e4m3) return unlike;
  if (entry.extents == due) {
    made.scale = std::move(*scale);
  } else {
    made.flaws.emplace_back(ProjectionPart::blocks, misfit(*scale, Element::f8_e4m3, due));
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

// The biases beside a weight tensor.
Reason read_biases(Shards& shards, const std::string& stem, Stacked& made) {
  for (const std::string_view suffix : {"_bias", ".bias"}) {
    const std::string name = stem + std::string(suffix);
    if (!shards.names().contains(name)) continue;
    const Result<Located> bias = shards.find(name);
    if (bias.reason) return bias.reason;
    made.flaws.emplace_back(ProjectionPart::bias, biased(*bias));
  }
  return {};
}

// The weight tensor of this name and its biases; one that is not packed is a flaw.
Result<Stacked> weights_of(Shards& shards, const std::string& stem) {
  Result<Located> weight = shards.find(stem + std::string(fused_suffixes.weight));
  if (weight.reason) return weight.reason;
  Stacked made;
  made.weight = *weight;
  Reason reason = read_biases(shards, stem, made);
  if (reason) return reason;
  if (!packed(*weight)) {
    made.other_format = not_nvfp4(*weight);
    made.flaws.emplace_back(ProjectionPart::weights, not_as_others(*weight));
    return made;
  }
  reason = unstacked(*weight);
  if (reason) return reason;
  const Extents& extents = weight->entry->extents;
  made.experts = extents[0];
  made.matrix = {extents[1], extents[2]};
  return made;
}

Result<Stacked> stacked_of(Shards& shards, const std::string& stem, std::int64_t projections) {
  Result<Stacked> read = weights_of(shards, stem);
  if (read.reason || read->experts == 0) return read;
  Stacked& made = *read;
  Reason reason = read_blocks(shards, stem + std::string(fused_suffixes.scale), made);
  if (reason) return reason;
  if (made.unread) return read;
  made.scales.assign(projections, std::vector<ProjectionScales>(made.experts));
  const std::string names[] = {stem + std::string(fused_suffixes.scale_2),
                               stem + std::string(fused_suffixes.input_scale)};
  constexpr std::pair<ProjectionPart, std::optional<float> ProjectionScales::*> members[] = {
      {ProjectionPart::weight_scale, &ProjectionScales::weight},
      {ProjectionPart::input_scale, &ProjectionScales::input}};
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
  return read;
}

// Rows [row, row + rows) of expert e, the tensor's projection p; nothing of weights that are not
// packed.
ProjectionPlace place_of(const Stacked& stacked, std::int64_t e, std::size_t p, std::int64_t row,
                         std::int64_t rows) {
  if (stacked.experts == 0) return {};
  const std::int64_t row_bytes = stacked.matrix.row_bytes;
  const std::int64_t first = e * stacked.matrix.rows + row;
  ProjectionPlace made;
  made.weight = {stacked.weight, first * row_bytes, {rows, row_bytes}};
  made.scale = {stacked.scale, first * (row_bytes / 8), {rows, row_bytes / 8}};
  made.scales = stacked.scales[p].at(e);
  return made;
}

// H and I by whichever tensor is packed.
layout::Widths widths_of(const Stacked& gate_up, const Stacked& down) {
  if (gate_up.experts == 0) {
    return {down.matrix.rows, down.matrix.row_bytes * layout::codes_per_byte};
  }
  return {gate_up.matrix.row_bytes * layout::codes_per_byte, gate_up.matrix.rows / 2};
}

Reason uneven(const Stacked& gate_up, const Stacked& down) {
  const layout::Matrix& up = gate_up.matrix;
  if (up.rows % 2 != 0) {
    return Reason(fmt::format("{}: {}: is {}, expected an even number of rows, gate and up",
                              gate_up.weight.file->name(), in_quotes(gate_up.weight.entry->name),
                              text(*gate_up.weight.entry)));
  }
  if (gate_up.experts == 0 || down.experts == 0) return {};
  const layout::Matrix due = layout::plain_matrix(Projection::w2, false, widths_of(gate_up, down));
  if (down.experts == gate_up.experts && down.matrix == due) return {};
  return unexpected(down.weight, Element::u8, {gate_up.experts, due.rows, due.row_bytes});
}

// Why neither of the tensors is NVFP4.
Reason other_format(const Stacked& gate_up, const Stacked& down) {
  return gate_up.other_format && down.other_format ? gate_up.other_format : Reason();
}

// A reason for every expert, of these projections.
void add_flaws(std::int64_t experts, std::span<const Projection> projections, const Flaw& flaw,
               std::vector<Flaw>& made) {
  for (std::int64_t e = 0; e < experts; ++e) {
    for (const Projection projection : projections) {
      made.push_back({flaw.reason, e, projection, flaw.part});
    }
  }
}

LayerPlaces places_of(const Stacked& gate_up, const Stacked& down) {
  const std::int64_t experts = std::max(gate_up.experts, down.experts);
  const std::int64_t intermediate = widths_of(gate_up, down).intermediate;
  LayerPlaces made;
  for (std::int64_t e = 0; e < experts; ++e) {
    made.experts.push_back({place_of(gate_up, e, 0, 0, intermediate),
                            place_of(gate_up, e, 1, intermediate, intermediate),
                            place_of(down, e, 0, 0, down.matrix.rows)});
  }
  for (const auto& [part, reason] : gate_up.flaws) {
    add_flaws(experts, of_gate_up, {reason, 0, {}, part}, made.flaws);
  }
  for (const auto& [part, reason] : down.flaws) {
    add_flaws(experts, of_down, {reason, 0, {}, part}, made.flaws);
  }
  return made;
}

// All experts' projections of one of the two tensors.
LayerModule module_of(const std::string& name, std::span<const Projection> projections,
                      std::int64_t experts) {
  LayerModule made{name, {}};
  for (std::int64_t e = 0; e < experts; ++e) {
    for (const Projection projection : projections) made.projections.emplace_back(e, projection);
  }
  return made;
}

// What the config leaves out of the two tensors, what it says of them, and how many experts it
// counts.
Reason add_config_flaws(const Config& config, const LayerNames& names,
                        const std::vector<std::string>& modules, const layout::Widths& widths,
                        LayerPlaces& places) {
  const auto experts = std::ssize(places.experts);
  const Result<std::vector<LeftOut>> out = left_out(config, modules);
  if (out.reason) return out.reason;
  for (const LeftOut& one : *out) {
    add_flaws(experts, one.module == 2 ? std::span<const Projection>(of_down) : of_gate_up,
              {one.reason, 0, {}, ProjectionPart::weights}, places.flaws);
  }
  std::set<std::int64_t> held;
  for (std::int64_t e = 0; e < experts; ++e) held.insert(held.end(), e);
  const std::vector<Flaw> flaws = miscounted(config, names, held);
  places.flaws.insert(places.flaws.begin(), flaws.begin(), flaws.end());
  add_claims(config, names,
             {module_of(modules[1], of_gate_up, experts), module_of(modules[2], of_down, experts)},
             widths, places);
  return {};
}

}  // namespace

Result<Layer> fused_layer(Shards& shards, const LayerNames& names, const Config& config) {
  const std::vector<std::string> modules{names.root, names.root + ".gate_up_proj",
                                         names.root + ".down_proj"};
  const Result<Stacked> gate_up = stacked_of(shards, modules[1], 2);
  if (gate_up.reason) return gate_up.reason;
  const Result<Stacked> down = stacked_of(shards, modules[2], 1);
  if (down.reason) return down.reason;
  Reason reason = other_format(*gate_up, *down);
  if (reason) return reason;
  for (const Reason& kind : {gate_up->unread, down->unread, interleaved(names, config)}) {
    if (kind) return unread(Format::fused, names, config, kind);
  }
  reason = uneven(*gate_up, *down);
  if (!reason) reason = contradicted(config, names, Format::fused);
  if (reason) return reason;
  LayerPlaces places = places_of(*gate_up, *down);
  const layout::Widths widths = widths_of(*gate_up, *down);
  reason = add_config_flaws(config, names, modules, widths, places);
  if (reason) return reason;
  return Layer(Format::fused, names.root, widths, std::move(places));
}

}  // namespace slicecheck::checkpoint
