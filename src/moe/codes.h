// The number formats of the op, bit for bit: E2M1 codes (FP4), E4M3 block scales (fn: no
// infinities, one NaN a sign) and BF16 rows. Every conversion from FP32 is to nearest, ties to
// even; E2M1 and E4M3 saturate. Bits only, so each value is the same on every machine. Source: OCP
// MX specification 1.0 (E2M1), OCP 8-bit floating point 1.0 (E4M3 fn).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace slicecheck::moe {

/// The value of an E2M1 code 0 to 15: sign, then 0, 0.5, 1, 1.5, 2, 3, 4, 6.
constexpr float e2m1_value(std::uint8_t code) {
  constexpr std::array<float, 8> magnitudes{0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const float magnitude = magnitudes[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

/// The E2M1 code nearest to `x`. Ties go to the even code, beyond 5 is 6; the sign is x's sign bit,
/// so -0 and small negatives are code 8; NaN is +6, as the device's conversion has it.
constexpr std::uint8_t e2m1_code(float x) {
  if (x != x) return 7;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const float a = std::bit_cast<float>(bits & 0x7FFFFFFFU);
  const int magnitude = (a > 0.25F) + (a >= 0.75F) + (a > 1.25F) + (a >= 1.75F) + (a > 2.5F) +
                        (a >= 3.5F) + (a > 5.0F);
  return static_cast<std::uint8_t>(magnitude | (bits >> 31 << 3));
}

/// The value of an E4M3 byte; NaN for 0x7F and 0xFF.
constexpr float e4m3_value(std::uint8_t byte) {
  const std::uint32_t sign = static_cast<std::uint32_t>(byte >> 7) << 31;
  const std::uint32_t magnitude = byte & 0x7FU;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000U);
  if (magnitude < 8) {
    const float value = static_cast<float>(magnitude) * 0x1p-9F;  // subnormal
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (std::uint32_t{127 - 7} << 23)));
}

/// The E4M3 byte nearest to `x`, saturating at +-448; NaN keeps its sign.
constexpr std::uint8_t e4m3_code(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint8_t>(bits >> 31 << 7);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const float a = std::bit_cast<float>(magnitude);
  std::uint32_t code = 0x7E;
  if (x != x) {
    code = 0x7F;
  } else if (a < 0x1p-6F) {
    // 2^14 has an ulp of 2^-9, the step of the subnormals: the addition rounds to it.
    code = std::bit_cast<std::uint32_t>(a + 0x1p14F) - std::bit_cast<std::uint32_t>(0x1p14F);
  } else if (a < 448) {
    const std::uint32_t rounded = magnitude + 0x7FFFFU + (magnitude >> 20 & 1U);
    code = (rounded >> 20) - (std::uint32_t{127 - 7} << 3);
  }
  return static_cast<std::uint8_t>(sign | code);
}

/// The FP32 value of a BF16.
constexpr float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The BF16 nearest to `x`, ties to even; NaN stays a (quiet) NaN, beyond the range is infinity.
constexpr std::uint16_t bf16_bits(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

static_assert(e2m1_code(2.5F) == 4 && e2m1_code(3.5F) == 6);  // ties go to the even code
static_assert(e2m1_code(-0.1F) == 8);                         // a small negative keeps its sign
static_assert(e4m3_code(0x1p-10F) == 0 && e4m3_code(0x3p-10F) == 2);  // ties of the subnormals
static_assert(e4m3_code(1e9F) == 0x7E && e4m3_value(0x7E) == 448);    // saturates
static_assert(e4m3_value(0x38) == 1 && e4m3_value(0x07) == 0x7p-9F);
static_assert(bf16_bits(1 + 0x1p-8F) == 0x3F80 && bf16_bits(1 + 0x3p-8F) == 0x3F82);

}  // namespace slicecheck::moe
