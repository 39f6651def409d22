// Converted weights as numbers. A row of codes times its block scales is exact in FP32 (at most 2
// and 4 significant bits), so one decoded row serves every token of its expert; only sums round.
#pragma once

#include <span>

#include "base/bytes.h"
#include "layout/sf_tile.h"

namespace slicecheck::moe {

/// One expert's converted tensor: codes [rows, cols/2] and scales [rows, cols/16], 128x4.
struct CodeMatrix {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
  std::int64_t cols = 0;  // elements
};

/// Row `row` (as stored) as code times scale, into out [cols].
/// Law: Decode.a_row_is_codes_times_the_scales_of_sf_offset
void decode_row(const CodeMatrix& from, std::int64_t row, std::span<float> out);

/// The sum of a[i] b[i] in FP32, in one order on every machine: 16 lanes, lane l adds i = l, l +
/// 16,
/// ... in turn; then lane l takes l + 8, l + 4, l + 2, l + 1. Both [16 n].
float dot(std::span<const float> a, std::span<const float> b);

}  // namespace slicecheck::moe
