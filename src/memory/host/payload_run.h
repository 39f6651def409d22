// The payload in runs: stretches of a converted tensor that fit the L1 cache, computed at the speed
// of the memory. Filling writes them where they belong; comparing computes them beside what was
// got.
#pragma once

#include <algorithm>
#include <array>

#include "memory/step.h"

namespace slicecheck::memory {

/// `words` weight words from word `first` on, little-endian, 8 bytes each.
void weight_words(std::uint8_t* to, std::uint64_t key, std::int64_t first, std::int64_t words);

/// A stretch of one expert: `count` rows of weights from row `at` on, or `count` tiles of scales
/// from tile `at` on, all of one m-tile.
struct Run {
  std::int64_t expert = 0;
  std::int64_t at = 0;
  std::int64_t count = 0;
};

/// What a tensor holds, run by run. The index maps are evaluated when it is made and once a row.
class PayloadRuns {
 public:
  explicit PayloadRuns(const PayloadTensor& tensor);

  /// Bytes of a row or a tile.
  std::int64_t unit_bytes() const { return unit_bytes_; }

  /// The longest run of each_run, in bytes.
  std::int64_t run_bytes() const { return run_units_ * unit_bytes_; }

  /// Writes the bytes of a run.
  void write(std::uint8_t* to, const Run& run) const;

  /// Calls visit(run) for each run of an expert, in order, without a gap.
  template <typename Visit>
  void each_run(std::int64_t expert, const Visit& visit) const {
    for (std::int64_t group = 0; group < groups_; ++group) {
      for (std::int64_t at = 0; at < group_units_; at += run_units_) {
        visit(Run{expert, group * group_units_ + at, std::min(run_units_, group_units_ - at)});
      }
    }
  }

 private:
  void write_rows(std::uint8_t* to, const Run& run) const;
  void write_exact_rows(std::uint8_t* to, const Run& run) const;
  void write_tiles(std::uint8_t* to, const Run& run) const;

  PayloadTensor tensor_;
  RowSteps rows_;
  UnitSteps units_;
  std::int64_t unit_bytes_;
  std::int64_t groups_;       // m-tiles; one for weights
  std::int64_t group_units_;  // tiles of an m-tile; rows
  std::int64_t run_units_;
  std::array<std::uint32_t, tile_units> first_{};  // values behind the units of the first tile
};

}  // namespace slicecheck::memory
