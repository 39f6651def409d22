// Faults that are no map of rows: bytes never written, flipped, shifted, of another layer, padding
// in the wrong place, and block scales that are no scales.
#pragma once

#include "faults/layer.h"

namespace slicecheck::faults {

/// A part of an expert's tensor, in sixteenths of its bytes: [first, last).
struct Part {
  std::int64_t first = 0;
  std::int64_t last = 16;
};

/// The poison is still there: every byte of the part is `value`.
void never_written(Layer& layer, const Where& where, std::uint8_t value, const Part& part = {});

/// Flips `bits` bits in each spot, at places drawn from `seed`.
void bit_corruption(Layer& layer, const Where& where, std::int64_t bits, std::uint64_t seed);

/// What a healthy layer with `seed` has at these places. The layer must be a payload's.
void payload_of_other_layer(Layer& layer, const Where& where, std::uint64_t seed);

/// The experts of a tensor are read `drift` bytes further apart than they lie; what is read behind
/// the tensor is zero.
void expert_offset_drift(Layer& layer, const Where& where, std::int64_t drift);

/// Bytes of every expert but the first of one kind written `drift` bytes further apart than they
/// must lie, over a buffer of zeros.
void expert_write_drift(Layer& layer, const Where& where, std::int64_t drift);

/// `count` block scales of each scale spot, evenly apart, become `value` (0x7F and 0xFF are NaN).
void block_scales_set(Layer& layer, const Where& where, std::int64_t count, std::uint8_t value);

/// Rows in an order that no map gives: neighbouring pairs of rows exchanged at places from `seed`.
void rows_scrambled(Layer& layer, const Where& where, std::uint64_t seed);

/// A healthy layer of `shape` whose plain experts had the smaller widths `plain` and were padded
/// with zeros: at the end of H, and at the end of each half of w13 and of w2's columns.
Layer padded_layer(const layout::Payload& payload, const layout::Shape& shape,
                   const layout::Widths& plain);

enum class Padding { together_at_the_end, after_the_cut };

/// Pads the experts of a padded_layer() in the wrong place: both halves together at the end (of a
/// side's own rows), or each rank's slice after a cut of the unpadded expert (tp only).
void padding_misplaced(Layer& layer, const Where& where, const layout::Widths& plain,
                       Padding padding);

/// Fills the padding of a padded_layer() with `value`.
void padding_dirty(Layer& layer, const Where& where, const layout::Widths& plain,
                   std::uint8_t value);

}  // namespace slicecheck::faults
