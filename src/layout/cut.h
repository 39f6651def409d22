// The cut is free: slice d of a converted tensor is, byte for byte, the converted slice d. Per
// expert it is a number of equally long runs of bytes, equally far apart.
//   w13, w13_sf  rows [2 d I', 2 (d + 1) I'): one run (shuffle and 128-row tiles stay inside)
//   w2           columns [d I'/2, (d + 1) I'/2) of every row: H runs
//   w2_sf        k-tiles [d I'/64, (d + 1) I'/64) of every m-tile: H / 128 runs
// Source: the seed, slice_views.
#pragma once

#include "layout/sf_tile.h"

namespace slicecheck::layout {

/// A strided view of one slice of one expert, without a copy. Slice d starts at d run_bytes and
/// fills runs run_bytes = matrix(kind, tp_widths).bytes() bytes when packed.
struct Cut {
  std::int64_t expert_bytes = 0;  // from one expert to the next, stock side
  std::int64_t runs = 0;
  std::int64_t run_bytes = 0;
  std::int64_t run_stride = 0;  // from one run to the next, stock side

  constexpr std::int64_t slice_bytes() const { return runs * run_bytes; }

  /// Where byte `at` of packed slice `slice` lies in its expert, stock side.
  constexpr std::int64_t whole_offset(std::int64_t slice, std::int64_t at) const {
    return at / run_bytes * run_stride + slice * run_bytes + at % run_bytes;
  }

  constexpr bool operator==(const Cut&) const = default;
};

/// The cut of one tensor kind, for every slice of every expert.
/// Checked by unsupported().
/// Law: Cut.slice_of_converted_is_converted_slice
/// Law: Cut.slices_partition_the_converted_bytes
constexpr Cut cut(Kind kind, const Shape& shape) {
  const Matrix whole = matrix(kind, stock_widths(shape));
  const std::int64_t bytes = whole.bytes();
  switch (kind) {
    case Kind::w13:
    case Kind::w13_sf:
      return {bytes, 1, bytes / shape.tp, bytes};
    case Kind::w2:
      return {bytes, whole.rows, whole.row_bytes / shape.tp, whole.row_bytes};
    case Kind::w2_sf: {
      const std::int64_t m_tile = sf_tile_rows * whole.row_bytes;
      return {bytes, whole.rows / sf_tile_rows, m_tile / shape.tp, m_tile};
    }
  }
  return {};
}

static_assert(cut(Kind::w13, {6, 640, 384, 3}) == Cut{245760, 1, 81920, 245760});
static_assert(cut(Kind::w2, {6, 640, 384, 3}) == Cut{122880, 640, 64, 192});
static_assert(cut(Kind::w2_sf, {6, 640, 384, 3}) == Cut{15360, 5, 1024, 3072});

}  // namespace slicecheck::layout
