// The conversion and the cut by index formula, byte by byte: what must lie at each offset of a tp
// or stock tensor, computed from layout::plain_place alone. Held against `convert.h` by a law.
#pragma once

#include "experts/convert.h"
#include "layout/payload.h"

namespace slicecheck::experts {

/// The converted slice d of tp of a whole plain expert, every byte fetched by formula.
/// Law: Convert.both_derivations_agree
ConvertedExpert placed_slice(const PlainExpert& plain, std::int64_t tp, std::int64_t d);

/// The byte of a plain expert at a place.
std::uint8_t byte_at(const PlainExpert& plain, const layout::PlainPlace& place);

}  // namespace slicecheck::experts
