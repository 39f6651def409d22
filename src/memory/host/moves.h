// The byte moves of host memory, one expert or one tensor at a time: the conversion, the cut and
// the comparison of two buffers.
#pragma once

#include "layout/cut.h"
#include "memory/space.h"

namespace slicecheck::memory {

/// Expert `expert` of a source, converted into one tensor of extents `matrix`.
PlainSource plain_expert(const PlainSource& from, layout::Kind kind, const layout::Matrix& matrix,
                         std::int64_t expert);

/// Rows of one expert into converted w13 or w2 [rows, row_bytes]: one memcpy a row.
void convert_weights(std::uint8_t* to, layout::Kind kind, const layout::Matrix& matrix,
                     const PlainSource& from);

/// Scales of one expert into converted w13_sf or w2_sf, tile by tile in units of 4 bytes.
void convert_scales(std::uint8_t* to, layout::Kind kind, const layout::Matrix& matrix,
                    const PlainSource& from);

/// A stock tensor [Er, ...] into [tp, Er, slice bytes]. Reads in order, writes tp streams.
void pack_slices(const Packed& to, const std::uint8_t* stock, const layout::Cut& cut,
                 const layout::Shape& shape);

/// Plain matrices by the payload rule.
void fill_plain_matrices(std::uint8_t* to, const PayloadPlain& plain);

/// How two runs of bytes differ.
Difference difference(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes);

/// Adds what a run that starts at `offset` differs to the sum of the runs before it.
void add(Difference& sum, const Difference& run, std::int64_t offset);

}  // namespace slicecheck::memory
