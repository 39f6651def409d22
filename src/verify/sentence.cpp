#include "verify/sentence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "verify/other_seed.h"
#include "verify/telling_shape.h"

namespace slicecheck::verify {
namespace {

constexpr std::size_t listed_max = 12;

std::string hex_of(const std::array<std::uint8_t, 16>& bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

report::Logical logical(std::int64_t expert, const layout::PlainPlace& place) {
  const std::int64_t column = place.byte * (place.scale ? layout::sf_vec : layout::codes_per_byte);
  return {std::string(layout::name(place.projection)), expert, place.row, column, {}};
}

report::First first_of(const Subject& subject, const WrongTensor& one) {
  const Target& target = one.target;
  const layout::Matrix matrix = layout::matrix(target.kind, widths_of(subject.layer, target.side));
  const std::int64_t held = subject.layer.shape.experts_per_rank();
  const std::int64_t slot = target.side == Side::stock ? target.expert % held : target.expert;
  report::First made;
  made.rank = subject.ranks[target.rank];
  made.tensor = layout::name(target.kind);
  made.expert = target.expert;
  made.row = one.first / matrix.row_bytes;
  made.byte = one.first % matrix.row_bytes;
  made.offset = slot * matrix.bytes() + one.first;
  made.want = hex_of(one.want, one.shown);
  made.got = hex_of(one.got, one.shown);
  const auto place = source_of(subject.layer, target, healthy_map(target), one.first);
  if (place) made.logical = logical(target.expert, *place);
  made.ambiguous = one.origin.ambiguous;
  if (one.origin.found) {
    made.origin = logical(one.origin.expert, one.origin.place);
    if (one.origin.has_seed) made.origin->seed = one.origin.seed;
  }
  return made;
}

// What happened, by cause; the tensors, experts and ranks follow it.
constexpr std::array<std::pair<Cause, std::string_view>, 31> sentences{{
    {Cause::gate_up_swapped, "gate and up rows are exchanged before the interleave"},
    {Cause::gate_up_concatenated,
     "the halves stand one after the other where rows of up and gate must alternate"},
    {Cause::rows_not_shuffled, "the 32-row shuffle is missing"},
    {Cause::rows_shuffled_twice, "the shuffle or the conversion was applied twice"},
    {Cause::rows_shuffled_inverse, "the inverse of the 32-row shuffle was used"},
    {Cause::rows_shuffled_by_16, "rows are shuffled in blocks of 16, not of 32"},
    {Cause::scales_linear, "block scales are linear, without the 128x4 interleave"},
    {Cause::scales_interleaved_twice, "the 128x4 interleave was applied twice"},
    {Cause::scales_8x4, "block scales lie in 8x4 tiles where 128x4 are due"},
    {Cause::scale_rows_not_shuffled, "scale rows did not follow the shuffle of their weight rows"},
    {Cause::not_converted, "tensors are left as the checkpoint has them"},
    {Cause::nibbles_swapped, "the two FP4 codes of each byte are exchanged"},
    {Cause::flat_cut, "converted tensors are cut into equal runs of bytes"},
    {Cause::cut_before_interleave, "rows of the stacked [w3; w1] were cut before the interleave"},
    {Cause::wrong_axis_cut, "tensors are cut along the other axis"},
    {Cause::wrong_slice, "the slice is another rank's"},
    {Cause::expert_offset_drift, "the stride from expert to expert is off"},
    {Cause::padding_misplaced, "padding stands where data is due"},
    {Cause::padding_dirty, "padding that must be zero is not"},
    {Cause::permutation_of_other_shape, "rows follow the map of another shape"},
    {Cause::never_written, "bytes were never written"},
    {Cause::payload_of_other_layer, "bytes are those of another layer or seed"},
    {Cause::bit_corruption, "bytes are corrupted"},
    {Cause::unexplained, "bytes differ and no known fault explains them"},
    {Cause::placement_round_robin, "experts are placed round-robin"},
    {Cause::placement_permuted, "experts stand in another order"},
    {Cause::expert_duplicated, "an expert is held twice and another by nobody"},
    {Cause::expert_mixed, "tensors of one expert stand beside those of another"},
    {Cause::rank_order, "all tensors are another rank's"},
    {Cause::block_scale_invalid, "block scales are NaN or have a sign bit"},
    {Cause::block_scale_saturated, "many block scales are saturated (0x7E)"},
}};

std::int64_t differing_bytes(const WrongScalar& one) {
  const auto value = std::bit_cast<std::array<std::uint8_t, sizeof(float)>>(one.value);
  const auto due = std::bit_cast<std::array<std::uint8_t, sizeof(float)>>(one.due);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < value.size(); ++i) count += value[i] != due[i];
  return count;
}

std::string_view happened(Cause cause) {
  for (const auto& [each, sentence] : sentences) {
    if (each == cause) return sentence;
  }
  return "";
}

// "slot a holds b" for the first few places, each said once.
template <typename Line>
std::string lines(const std::vector<const WrongTensor*>& members, const Line& line) {
  std::vector<std::string> made;
  for (const WrongTensor* one : members) {
    std::string text = line(*one);
    if (std::find(made.begin(), made.end(), text) != made.end()) continue;
    if (made.size() == listed_max) {
      made.emplace_back("...");
      break;
    }
    made.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(made, ", "));
}

std::string about_unexplained(const std::vector<const WrongTensor*>& members) {
  const WrongTensor& front = *members.front();
  const bool histogram = std::all_of(members.begin(), members.end(),
                                     [](const auto* one) { return one->histogram_kept; });
  bool experts = true;
  bool ranks = true;
  for (const WrongTensor* one : members) {
    const bool same = one->pattern == front.pattern;
    if (one->target.kind != front.target.kind) continue;
    if (one->target.rank == front.target.rank) experts = experts && same;
    if (one->target.expert == front.target.expert) ranks = ranks && same;
  }
  std::vector<std::string> repeats;
  if (front.same_in_every_row) repeats.emplace_back("row");
  if (members.size() > 1 && experts) repeats.emplace_back("expert");
  if (members.size() > 1 && ranks) repeats.emplace_back("rank");
  return fmt::format("the histogram of these bytes is {}; the places repeat {}",
                     histogram ? "kept" : "not kept",
                     repeats.empty() ? "nowhere" : fmt::format("per {}", fmt::join(repeats, ", ")));
}

std::string about_axis(const std::vector<const WrongTensor*>& members) {
  const bool uncut = std::any_of(members.begin(), members.end(), [](const WrongTensor* one) {
    return one->map.cut != CutWay::other_axis && one->map.slice == 0 && one->target.rank > 0;
  });
  return uncut ? "each rank holds the front of what was not cut" : "";
}

// Both widths are in the number of a scale; one of them may be open in a slice of weights.
std::string about_widths(const Subject& subject, const std::vector<const WrongTensor*>& members) {
  const auto known = std::find_if(members.begin(), members.end(), [](const WrongTensor* one) {
    return one->data.hidden > 0 && layout::is_scale(one->target.kind);
  });
  if (known == members.end()) return "";
  const layout::Widths declared =
      subject.layer.data.value_or(layout::stock_widths(subject.layer.shape));
  return fmt::format(
      "before padding they had hidden {} and intermediate {}, where {} and {} are declared",
      (*known)->data.hidden, (*known)->data.intermediate, declared.hidden, declared.intermediate);
}

std::string about_drift(const WrongTensor& front) {
  return fmt::format("each expert is {} bytes further off, {} its place", std::abs(front.shift),
                     front.shift < 0 ? "behind" : "before");
}

std::int64_t beside(const std::vector<const WrongTensor*>& members) {
  std::int64_t count = 0;
  for (const WrongTensor* one : members) count += one->beside;
  return count;
}

std::string about_slice(const Subject& subject, const WrongTensor& one) {
  std::string text =
      fmt::format("rank {} holds slice {}", subject.ranks[one.target.rank], one.map.slice);
  if (one.map.gate_ahead != 0) {
    const std::int64_t gate = gate_slice(one.map, subject.layer.shape.tp);
    text += fmt::format("'s up beside slice {}'s gate", gate);
  }
  if (one.map.expert != one.target.expert) {
    text += fmt::format(" of expert {} as expert {}", one.map.expert, one.target.expert);
  }
  return text;
}

std::string details(const Subject& subject, Cause cause,
                    const std::vector<const WrongTensor*>& members) {
  const WrongTensor& front = *members.front();
  const auto rank = [&](const WrongTensor& one) { return subject.ranks[one.target.rank]; };
  switch (cause) {
    case Cause::wrong_slice:
    case Cause::rank_order:
      if (front.target.side == Side::tp) {
        return lines(members, [&](const WrongTensor& one) { return about_slice(subject, one); });
      }
      [[fallthrough]];
    case Cause::placement_round_robin:
    case Cause::placement_permuted:
    case Cause::expert_duplicated:
    case Cause::expert_mixed:
      return lines(members, [&](const WrongTensor& one) {
        return fmt::format("expert {}'s place on rank {} holds expert {}{}", one.target.expert,
                           rank(one), one.map.expert,
                           cause == Cause::expert_mixed
                               ? fmt::format("'s {}", layout::name(one.target.kind))
                               : "");
      });
    case Cause::expert_offset_drift:
      return about_drift(front);
    case Cause::payload_of_other_layer:
      return front.seed_known ? about_seed(subject, front.seed)
                              : "of a seed that their scales alone do not tell";
    case Cause::wrong_axis_cut:
      return about_axis(members);
    case Cause::padding_misplaced:
      return about_widths(subject, members);
    case Cause::never_written:
      return fmt::format("they are 0x{:02x}, in bytes [{}, {}] of expert {}'s {}", front.value,
                         front.first, front.last, front.target.expert,
                         layout::name(front.target.kind));
    case Cause::bit_corruption:
      return front.value != 0 ? fmt::format("all by the xor 0x{:02x}, first at byte {}",
                                            front.value, front.first)
                              : fmt::format("first at byte {}: xor 0x{:02x}", front.first,
                                            front.want[0] ^ front.got[0]);
    case Cause::unexplained:
      return about_unexplained(members);
    case Cause::block_scale_invalid:
    case Cause::block_scale_saturated:
      return fmt::format("{} of them, first at byte {} of expert {}'s {}", beside(members),
                         front.first, front.target.expert, layout::name(front.target.kind));
    case Cause::permutation_of_other_shape:
      return front.map.order == RowOrder::blocks
                 ? fmt::format("that of intermediate {}", front.map.block_rows / 2)
                 : "w2's through w13's";
    default:
      return "";
  }
}

// What would tell causes apart that give the same bytes on this shape; nothing where nothing does.
std::string told_apart_by(const Case& layer, Cause cause, const WrongTensor& front, Causes also) {
  Causes uncut;
  uncut.add(Cause::wrong_axis_cut);
  if (cause == Cause::flat_cut && also == uncut) {
    return "cut so, w2's rows are w2's bytes on every shape";
  }
  if (cause == Cause::placement_round_robin) return "more experts a rank would tell them apart";
  const std::string_view shape = telling_shape(layer, front, also);
  return shape.empty() ? "" : fmt::format("{} would tell them apart", shape);
}

}  // namespace

std::string listed(std::string_view one, std::string_view many, const std::vector<int>& numbers) {
  if (numbers.empty()) return fmt::format("all {}", many);
  if (numbers.size() == 1) return fmt::format("{} {}", one, numbers[0]);
  const std::size_t shown = std::min(numbers.size(), listed_max);
  std::string text = fmt::format(
      "{} {}", many,
      fmt::join(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < numbers.size()) text += fmt::format(" and {} more", numbers.size() - shown);
  return text;
}

std::string listed_experts(const std::vector<std::int64_t>& experts) {
  return listed("expert", "experts", {experts.begin(), experts.end()});
}

void say(const Subject& subject, Cause cause, const Members& members, report::Finding& made) {
  std::int64_t differing = 0;
  std::int64_t explained = 0;
  std::int64_t bytes = 0;
  Causes also = members.tensors.front()->alternatives;
  for (const WrongTensor* one : members.tensors) {
    differing += one->differing;
    explained += one->explained;
    bytes += one->bytes;
    also = also.both(one->alternatives);
  }
  for (const WrongScalar& one : members.scalars) {
    const std::int64_t count = differing_bytes(one);
    differing += count;
    explained += count;
    bytes += std::int64_t{sizeof(float)};
  }
  also.remove(cause);
  made.explained =
      differing == 0 ? 1.0 : static_cast<double>(explained) / static_cast<double>(differing);
  for (const Cause one : also.list()) made.also_possible.emplace_back(name(one));
  if (cause == Cause::expert_duplicated) made.also_possible.emplace_back("expert-missing");
  made.first = first_of(subject, *members.tensors.front());
  made.text = fmt::format("{}: {} of {} on {} ({} of {} bytes differ)", happened(cause),
                          fmt::join(made.tensors, ", "), listed_experts(made.experts),
                          listed("rank", "ranks", made.ranks), differing, bytes);
  const std::string more = details(subject, cause, members.tensors);
  if (!more.empty()) made.text += "; " + more;
  if (!made.also_possible.empty()) {
    made.text += fmt::format("; {} would give the same bytes", fmt::join(made.also_possible, ", "));
    const std::string apart = told_apart_by(subject.layer, cause, *members.tensors.front(), also);
    if (!apart.empty()) made.text += fmt::format(" ({})", apart);
  }
}

}  // namespace slicecheck::verify
