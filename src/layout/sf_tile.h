// Block scales lie in tiles of 128 rows x 4 scales, 512 bytes each, tiles row-major; inside a tile
// the order is (row % 32, row / 32, col), slowest first. The interleave maps bytes to bytes of a
// matrix of the same extents, so a tensor keeps the extents of its linear form.
#pragma once

#include "layout/shape.h"

namespace slicecheck::layout {

inline constexpr std::int64_t sf_tile_rows = 128;
inline constexpr std::int64_t sf_tile_cols = 4;  // scales, so 64 elements of k
inline constexpr std::int64_t sf_tile_bytes = sf_tile_rows * sf_tile_cols;

/// The byte at which scale (row, col) of a [rows, cols] matrix of E4M3 block scales lies in the
/// 128x4 interleave. `rows` does not enter.
///
/// Checked by unsupported(): rows % 128 == 0 and cols % 4 == 0.
/// Law: SfTile.offset_is_one_to_one_and_onto
/// Law: Cut.slice_of_converted_is_converted_slice
/// Source: FlashInfer fb28d72, csrc/nv_internal/tensorrt_llm/kernels/quantization_utils.cuh.
constexpr std::int64_t sf_offset(std::int64_t row, std::int64_t col, std::int64_t cols) {
  const std::int64_t tile = row / sf_tile_rows * (cols / sf_tile_cols) + col / sf_tile_cols;
  const std::int64_t r = row % sf_tile_rows;
  return tile * sf_tile_bytes + r % 32 * 16 + r / 32 * 4 + col % sf_tile_cols;
}

static_assert(sf_offset(0, 3, 8) == 3);
static_assert(sf_offset(1, 0, 8) == 16);                   // the next row: 16 on
static_assert(sf_offset(32, 0, 8) == 4);                   // row 32 lies beside row 0
static_assert(sf_offset(0, 4, 8) == sf_tile_bytes);        // the next k-tile
static_assert(sf_offset(128, 0, 8) == 2 * sf_tile_bytes);  // the next m-tile
static_assert(sf_offset(130, 5, 8) == 1569);

/// A scale of a linear [rows, cols] matrix.
struct SfPlace {
  std::int64_t row = 0;
  std::int64_t col = 0;
  constexpr bool operator==(const SfPlace&) const = default;
};

/// The scale that lies at byte `offset` of the interleave: the inverse of sf_offset.
/// Law: SfTile.source_undoes_offset
constexpr SfPlace sf_source(std::int64_t offset, std::int64_t cols) {
  const std::int64_t tile = offset / sf_tile_bytes;
  const std::int64_t k_tiles = cols / sf_tile_cols;
  const std::int64_t in = offset % sf_tile_bytes;
  return {tile / k_tiles * sf_tile_rows + in % 16 / 4 * 32 + in / 16,
          tile % k_tiles * sf_tile_cols + in % sf_tile_cols};
}

static_assert(sf_source(1569, 8) == SfPlace{130, 5});
static_assert(sf_source(511, 8) == SfPlace{127, 3});

}  // namespace slicecheck::layout
