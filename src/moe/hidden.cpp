#include "moe/hidden.h"

#include "layout/payload.h"
#include "moe/codes.h"

namespace slicecheck::moe {
namespace {

constexpr std::uint64_t hidden_kind = 9;
constexpr std::int64_t words_each = 12;  // 48 digits

// The four 16-bit digits of a word, summed.
std::int64_t digit_sum(std::uint64_t word) {
  return static_cast<std::int64_t>((word & 0xFFFF) + (word >> 16 & 0xFFFF) + (word >> 32 & 0xFFFF) +
                                   (word >> 48));
}

float normal(std::uint64_t key, std::int64_t h) {
  std::int64_t sum = -24 * 65535;
  for (std::int64_t j = 0; j < words_each; ++j) {
    sum += digit_sum(layout::weight_word(key, words_each * h + j));
  }
  return static_cast<float>(sum) * 0x1p-17F;
}

}  // namespace

std::vector<float> hidden_states(std::uint64_t seed, std::int64_t tokens, std::int64_t hidden) {
  std::vector<float> made(tokens * hidden);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::uint64_t key = layout::word_key(seed, t, hidden_kind);
    for (std::int64_t h = 0; h < hidden; ++h) {
      made[t * hidden + h] = bf16_value(bf16_bits(normal(key, h)));
    }
  }
  return made;
}

}  // namespace slicecheck::moe
