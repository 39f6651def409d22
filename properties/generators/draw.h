// Random cases from RapidCheck, with the smaller cases that each shrinks to. Shapes are built from
// tiles and counts, so they shrink towards one tile, one expert a rank, two ranks. RapidCheck stays
// behind this header: the loop that judges is ours, because every rank must take the same step.
#pragma once

#include <functional>
#include <memory>

#include "properties/generators/case.h"

namespace slicecheck::properties {

/// Which generator a law draws from. Valid cases: plain ones, with slices that are cut again, with
/// routes, with equal scales or not, with a checkpoint. Invalid ones: of an input that must be
/// refused, with experts elsewhere, with a fault planted in a sound layer.
enum class Draw { valid, cut_again, routed, scaled, checkpoint, invalid, misplaced, planted };

/// A case and its way to smaller ones: each call of `next_smaller` gives the next candidate, null
/// at the end. Candidates depend on the case alone, so every rank meets the same ones.
struct Drawn {
  Case value;
  std::function<std::shared_ptr<Drawn>()> next_smaller;
};

/// A case that was not drawn, and its way to smaller ones.
Drawn undrawn(const Case& given);

/// Case number `number` of a seed: a function of its arguments.
Drawn drawn(Draw draw, const Limits& limits, std::uint64_t seed, std::int64_t number);

}  // namespace slicecheck::properties
