// Faults of placement: whole experts, with their scalars, in the wrong slots or on the wrong rank.
#pragma once

#include "faults/layer.h"

namespace slicecheck::faults {

/// Which expert each of the E global slots holds; E entries.
using Order = std::vector<std::int64_t>;

/// Rank r holds experts r, r + n, ...
Order round_robin(const layout::Shape& shape);

/// Slot `at` holds `expert` too, whose own slot stays: one is held twice, one by nobody.
Order duplicated(const layout::Shape& shape, std::int64_t expert, std::int64_t at);

/// The experts of two ranks exchanged.
Order ranks_exchanged(const layout::Shape& shape, std::int64_t a, std::int64_t b);

/// Experts in reverse.
Order reversed(const layout::Shape& shape);

/// Every slot of a side holds the expert that `order` gives: bytes and scalars.
void placed(Layer& layer, Side side, const Order& order);

/// Rank `rank` declares another first expert; its bytes stay.
void first_expert_declared(Layer& layer, std::int64_t rank, std::int64_t first);

/// The spots of `where` hold the tensors of `other`: with a part of the kinds, weights of one
/// expert stand beside block scales of another.
void expert_mixed(Layer& layer, const Where& where, std::int64_t other);

/// The tp tensors of two ranks exchanged, scalars too.
void rank_order(Layer& layer, std::int64_t a, std::int64_t b);

}  // namespace slicecheck::faults
