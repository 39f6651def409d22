#include "moe/decode.h"

#include <array>

#include "moe/codes.h"

namespace slicecheck::moe {
namespace {

struct CodePair {
  float low = 0;
  float high = 0;
};

constexpr std::array<CodePair, 256> pair_table() {
  std::array<CodePair, 256> table{};
  for (int byte = 0; byte < 256; ++byte) {
    table[byte] = {e2m1_value(static_cast<std::uint8_t>(byte & 15)),
                   e2m1_value(static_cast<std::uint8_t>(byte >> 4))};
  }
  return table;
}

constexpr std::array<float, 256> scale_table() {
  std::array<float, 256> table{};
  for (int byte = 0; byte < 256; ++byte) table[byte] = e4m3_value(static_cast<std::uint8_t>(byte));
  return table;
}

constexpr std::array<CodePair, 256> pairs = pair_table();
constexpr std::array<float, 256> scale_values = scale_table();
constexpr std::int64_t lanes = 16;

}  // namespace

void decode_row(const CodeMatrix& from, std::int64_t row, std::span<float> out) {
  const std::int64_t blocks = from.cols / layout::sf_vec;
  const std::uint8_t* codes = from.codes + row * from.cols / layout::codes_per_byte;
  // Along a row of the 128x4 interleave four scales lie together, the next four a tile on.
  const std::uint8_t* tile = from.scales + layout::sf_offset(row, 0, blocks);
  for (std::int64_t k = 0; k < blocks; ++k) {
    const float scale = scale_values[tile[k % layout::sf_tile_cols]];
    if (k % layout::sf_tile_cols == layout::sf_tile_cols - 1) tile += layout::sf_tile_bytes;
    float* block = out.data() + k * layout::sf_vec;
    for (std::int64_t i = 0; i < layout::sf_vec / layout::codes_per_byte; ++i) {
      const CodePair pair = pairs[*codes++];
      block[2 * i] = pair.low * scale;
      block[2 * i + 1] = pair.high * scale;
    }
  }
}

float dot(std::span<const float> a, std::span<const float> b) {
  std::array<float, lanes> sums{};
  for (std::size_t i = 0; i + lanes <= a.size(); i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += a[i + l] * b[i + l];
  }
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

}  // namespace slicecheck::moe
