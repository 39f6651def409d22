// The payload in runs: short stretches of a converted tensor, computed at the speed of the memory.
// Filling writes them where they belong; comparing computes them beside what was got.
#pragma once

#include <array>

#include "memory/step.h"

namespace slicecheck::memory {

/// `words` weight words from word `first` on, little-endian, 8 bytes each.
void weight_words(std::uint8_t* to, std::uint64_t key, std::int64_t first, std::int64_t words);

/// Scale units of one m-tile of one expert, tile after tile. The index map is evaluated when made.
class TileRun {
 public:
  TileRun(const PayloadTensor& tensor, std::int64_t expert, std::int64_t m_tile);

  /// Writes the tile of the next k-tile, 512 bytes.
  void next(std::uint8_t* to);

 private:
  bool numeric_;
  std::array<std::uint32_t, tile_units> state_;
};

/// Row `row` of converted w13 or w2 of expert `expert`, [row_bytes].
void weight_row(std::uint8_t* to, const PayloadTensor& tensor, std::int64_t expert,
                std::int64_t row);

/// Bytes of one run of a tensor: a row of weights, a tile of scales.
constexpr std::int64_t run_bytes(const PayloadTensor& tensor) {
  if (layout::is_scale(tensor.kind)) return layout::sf_tile_bytes;
  return layout::matrix(tensor.kind, tensor.widths()).row_bytes;
}

/// Calls visit(offset, write) for each run of an expert, in order: write(to) writes its bytes.
template <typename Visit>
void each_run(const PayloadTensor& tensor, std::int64_t expert, const Visit& visit) {
  const layout::Matrix matrix = layout::matrix(tensor.kind, tensor.widths());
  if (!layout::is_scale(tensor.kind)) {
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      visit(row * matrix.row_bytes, [&](std::uint8_t* to) { weight_row(to, tensor, expert, row); });
    }
    return;
  }
  const std::int64_t k_tiles = matrix.row_bytes / layout::sf_tile_cols;
  for (std::int64_t tile = 0; tile < matrix.rows / layout::sf_tile_rows * k_tiles;) {
    TileRun run(tensor, expert, tile / k_tiles);
    for (std::int64_t k = 0; k < k_tiles; ++k, ++tile) {
      visit(tile * layout::sf_tile_bytes, [&](std::uint8_t* to) { run.next(to); });
    }
  }
}

}  // namespace slicecheck::memory
