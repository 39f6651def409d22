#include "moe/quantise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/must.h"
#include "layout/shape.h"
#include "moe/codes.h"

namespace slicecheck::moe {
namespace {

constexpr std::int64_t block = layout::sf_vec;
constexpr float one_sixth = std::bit_cast<float>(0x3E2AAAABU);

// max |x|, or NaN where one is in the block.
float largest(const float* x) {
  float most = 0;
  for (std::int64_t i = 0; i < block; ++i) {
    if (std::isnan(x[i])) return x[i];
    most = std::max(most, std::abs(x[i]));
  }
  return most;
}

void quantise_block(const float* x, float global, std::uint8_t* codes, std::uint8_t* scale) {
  const float most = largest(x);
  *scale = e4m3_code(most * (global * one_sixth));
  const float divisor = e4m3_value(*scale) * (1.0F / global);
  const float factor = most == 0 ? 0 : std::min(1.0F / divisor, std::numeric_limits<float>::max());
  for (std::int64_t i = 0; i < block / 2; ++i) {
    const unsigned low = e2m1_code(x[2 * i] * factor);
    const unsigned high = e2m1_code(x[2 * i + 1] * factor);
    codes[i] = static_cast<std::uint8_t>(low | high << 4);
  }
}

}  // namespace

Quantised quantised(const std::vector<float>& values, std::int64_t cols, float global) {
  must(cols > 0 && cols % block == 0, "a row to quantise is whole blocks of 16");
  Quantised made;
  made.rows = static_cast<std::int64_t>(values.size()) / cols;
  made.cols = cols;
  made.codes.resize(values.size() / 2);
  made.scales.resize(values.size() / block);
  for (std::int64_t b = 0; b < static_cast<std::int64_t>(made.scales.size()); ++b) {
    quantise_block(&values[b * block], global, &made.codes[b * block / 2], &made.scales[b]);
  }
  return made;
}

std::vector<float> row_values(const Quantised& from, std::int64_t row) {
  std::vector<float> made(from.cols);
  const std::uint8_t* codes = from.codes.data() + row * from.cols / 2;
  const std::uint8_t* scales = from.scales.data() + row * from.cols / block;
  for (std::int64_t i = 0; i < from.cols; ++i) {
    const std::uint8_t code = static_cast<std::uint8_t>(codes[i / 2] >> (i % 2 * 4) & 15U);
    made[i] = e2m1_value(code) * e4m3_value(scales[i / block]);
  }
  return made;
}

}  // namespace slicecheck::moe
