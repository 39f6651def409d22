#include "verify/wrong_tensor.h"

namespace slicecheck::verify {
namespace {

constexpr std::array<std::string_view, 31> names{"gate-up-swapped",
                                                 "gate-up-concatenated",
                                                 "rows-not-shuffled",
                                                 "rows-shuffled-twice",
                                                 "rows-shuffled-inverse",
                                                 "rows-shuffled-by-16",
                                                 "scales-linear",
                                                 "scales-interleaved-twice",
                                                 "scales-8x4",
                                                 "scale-rows-not-shuffled",
                                                 "not-converted",
                                                 "nibbles-swapped",
                                                 "flat-cut",
                                                 "cut-before-interleave",
                                                 "wrong-axis-cut",
                                                 "wrong-slice",
                                                 "expert-offset-drift",
                                                 "padding-misplaced",
                                                 "padding-dirty",
                                                 "permutation-of-other-shape",
                                                 "never-written",
                                                 "payload-of-other-layer",
                                                 "bit-corruption",
                                                 "unexplained",
                                                 "placement-round-robin",
                                                 "placement-permuted",
                                                 "expert-duplicated",
                                                 "expert-mixed",
                                                 "rank-order",
                                                 "block-scale-invalid",
                                                 "block-scale-saturated"};

// No interleave and no shuffle (and no tiles): as the checkpoint has it, whatever half is first.
// w2's weights have no other step than the shuffle, so they alone are rows-not-shuffled.
bool is_plain(layout::Kind kind, const Map& map) {
  if (map.shuffle != Shuffle::none || map.converted_twice) return false;
  if (layout::is_scale(kind) && map.tiles != Tiles::linear) return false;
  if (layout::is_w13(kind)) return map.order == RowOrder::other;
  return layout::is_scale(kind) && map.order == RowOrder::due;
}

void add_order(Causes& causes, layout::Kind kind, const Map& map) {
  if (map.order == RowOrder::blocks || (map.order == RowOrder::other && !layout::is_w13(kind))) {
    causes.add(Cause::permutation_of_other_shape);
  } else if (map.order == RowOrder::other) {
    causes.add(Cause::gate_up_concatenated);
  }
  if (map.halves_swapped) causes.add(Cause::gate_up_swapped);
}

void add_shuffle(Causes& causes, const Map& map) {
  switch (map.shuffle) {
    case Shuffle::due:
      return;
    case Shuffle::none:
      causes.add(Cause::rows_not_shuffled);
      return;
    case Shuffle::twice:
      causes.add(Cause::rows_shuffled_twice);
      return;
    case Shuffle::inverse:
      causes.add(Cause::rows_shuffled_inverse);
      return;
    case Shuffle::by_16:
      causes.add(Cause::rows_shuffled_by_16);
      return;
  }
}

void add_tiles(Causes& causes, const Map& map) {
  switch (map.tiles) {
    case Tiles::due:
      return;
    case Tiles::linear:
      causes.add(Cause::scales_linear);
      return;
    case Tiles::twice:
      causes.add(Cause::scales_interleaved_twice);
      return;
    case Tiles::eight_by_four:
      causes.add(Cause::scales_8x4);
      return;
  }
}

void add_cut(Causes& causes, const Map& map) {
  switch (map.cut) {
    case CutWay::due:
      return;
    case CutWay::before_interleave:
      causes.add(Cause::cut_before_interleave);
      return;
    case CutWay::flat:
      causes.add(Cause::flat_cut);
      return;
    case CutWay::other_axis:
      causes.add(Cause::wrong_axis_cut);
      return;
  }
}

}  // namespace

std::string_view name(Cause cause) { return names[static_cast<std::size_t>(cause)]; }

std::vector<Cause> Causes::list() const {
  std::vector<Cause> made;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (has(static_cast<Cause>(i))) made.push_back(static_cast<Cause>(i));
  }
  return made;
}

Causes causes_of(const Target& target, const Map& map) {
  Causes causes;
  if (is_plain(target.kind, map)) {
    causes.add(Cause::not_converted);
  } else {
    add_order(causes, target.kind, map);
    add_shuffle(causes, map);
    add_tiles(causes, map);
  }
  if (map.converted_twice) causes.add(Cause::rows_shuffled_twice);
  add_cut(causes, map);
  if (map.padding != Padding::due) causes.add(Cause::padding_misplaced);
  if (map.nibbles_swapped) causes.add(Cause::nibbles_swapped);
  const Map healthy = healthy_map(target);
  if (map.slice != healthy.slice || map.gate_ahead != 0) causes.add(Cause::wrong_slice);
  if (map.expert != healthy.expert) causes.add(Cause::placement_permuted);
  return causes;
}

}  // namespace slicecheck::verify
