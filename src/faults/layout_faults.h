// The layout faults of the catalogue, each by moves of rows and bytes of a healthy expert, exactly
// as golden/faults.json has them. A planter touches the tensor kinds that its fault can show in.
#pragma once

#include <string_view>

#include "faults/layer.h"

namespace slicecheck::faults {

/// The fault's plant in one tensor: the bytes of `spot`, out of the healthy layer.
using LayoutFault = ByteVector (*)(const Layer& healthy, const Spot& spot);

/// A row of the table of layout faults. `name` is the golden data's (a cause, or cause/variant),
/// `kinds` where it shows, `tp_only` a fault of the cut.
struct LayoutEntry {
  std::string_view name;
  std::string_view cause;
  std::vector<layout::Kind> kinds;
  LayoutFault fault;
  bool tp_only = false;
};

/// Every layout fault, in the order of the catalogue.
const std::vector<LayoutEntry>& layout_faults();

/// Plants a layout fault in the spots of `where` that it can show in.
void plant(Layer& layer, const LayoutEntry& entry, const Where& where);

/// Gate rows at even interleaved rows, up at odd.
ByteVector gate_up_swapped(const Layer& healthy, const Spot& spot);
/// [w3; w1] without the interleave, then the shuffle.
ByteVector gate_up_concatenated(const Layer& healthy, const Spot& spot);
/// No 32-row shuffle; the scale interleave is right.
ByteVector rows_not_shuffled(const Layer& healthy, const Spot& spot);
/// The 32-row shuffle two times.
ByteVector rows_shuffled_twice(const Layer& healthy, const Spot& spot);
/// The inverse of the 32-row shuffle.
ByteVector rows_shuffled_inverse(const Layer& healthy, const Spot& spot);
/// The 16-row shuffle of another epilogue tile.
ByteVector rows_shuffled_by_16(const Layer& healthy, const Spot& spot);
/// The whole conversion of the converted, its first half of rows taken as up.
ByteVector converted_twice(const Layer& healthy, const Spot& spot);
/// As the checkpoint has it, [w1; w3], scales linear.
ByteVector not_converted(const Layer& healthy, const Spot& spot);
/// Rows shuffled, scales without the 128x4 interleave.
ByteVector scales_linear(const Layer& healthy, const Spot& spot);
/// The 128x4 interleave of its own output.
ByteVector scales_interleaved_twice(const Layer& healthy, const Spot& spot);
/// Tiles of 8 rows x 4 columns, row-major inside.
ByteVector scales_8x4(const Layer& healthy, const Spot& spot);
/// The two codes of every byte exchanged.
ByteVector nibbles_swapped(const Layer& healthy, const Spot& spot);
/// The whole converted tensor cut into equal runs of bytes.
ByteVector flat_cut(const Layer& healthy, const Spot& spot);
/// Rows of the stacked [w3; w1] cut contiguously.
ByteVector cut_before_interleave(const Layer& healthy, const Spot& spot);
/// w13 cut along its bytes, w2 along its rows.
ByteVector wrong_axis_cut(const Layer& healthy, const Spot& spot);
/// Slice r + 1.
ByteVector wrong_slice_shifted(const Layer& healthy, const Spot& spot);
/// Slice tp - 1 - r.
ByteVector wrong_slice_reversed(const Layer& healthy, const Spot& spot);
/// The expert axis and the slice axis exchanged in the receive buffer of each source.
ByteVector wrong_slice_transposed(const Layer& healthy, const Spot& spot);
/// w2's rows through w13's map; w13's through the map of half the intermediate width.
ByteVector permutation_of_other_shape(const Layer& healthy, const Spot& spot);

}  // namespace slicecheck::faults
