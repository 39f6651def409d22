// The number formats against their definitions: every code of E2M1 and E4M3, every tie, every BF16.
// The values here come from exponent and mantissa by ldexp, the roundings from a search.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "moe/codes.h"
#include "moe/hidden.h"
#include "moe/quantise.h"

namespace slicecheck::moe {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

double e4m3_by_definition(int byte) {
  const int exponent = byte / 8 % 16;
  const double mantissa = byte % 8 / 8.0;
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
  return byte < 128 ? value : -value;
}

// Between neighbours the middle goes to the even code, a step to either side to that side.
template <typename Code>
void expect_nearest_even(float low, float high, int low_code, Code code) {
  const float middle = (low + high) / 2;
  const int even = low_code % 2 == 0 ? low_code : low_code + 1;
  EXPECT_EQ(code(middle), even) << middle;
  EXPECT_EQ(code(std::nextafter(middle, -infinity)), low_code) << middle;
  EXPECT_EQ(code(std::nextafter(middle, infinity)), low_code + 1) << middle;
}

TEST(E2m1, all_16_codes_are_their_values_and_come_back) {
  const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 16; ++code) {
    const double due = code < 8 ? magnitudes[code] : -magnitudes[code - 8];
    const float got = e2m1_value(static_cast<std::uint8_t>(code));
    EXPECT_EQ(got, due);
    EXPECT_EQ(std::signbit(got), code >= 8);
    EXPECT_EQ(e2m1_code(got), code);
  }
}

TEST(E2m1, ties_go_to_the_even_code_and_beyond_the_range_is_six) {
  for (std::uint8_t low = 0; low < 7; ++low) {
    expect_nearest_even(e2m1_value(low), e2m1_value(low + 1), low,
                        [](float x) { return int{e2m1_code(x)}; });
  }
  EXPECT_EQ(e2m1_code(1e30F), 7);
  EXPECT_EQ(e2m1_code(-infinity), 15);
  EXPECT_EQ(e2m1_code(-0.25F), 8);
  EXPECT_EQ(e2m1_code(-0.0F), 8);
  EXPECT_EQ(e2m1_code(std::nanf("")), 7);
}

TEST(E4m3, all_256_codes_are_their_values_and_come_back) {
  for (int byte = 0; byte < 256; ++byte) {
    const float got = e4m3_value(static_cast<std::uint8_t>(byte));
    if (byte % 128 == 127) {
      EXPECT_TRUE(std::isnan(got));
    } else {
      EXPECT_EQ(got, e4m3_by_definition(byte)) << byte;
    }
    EXPECT_EQ(e4m3_code(got), byte);
  }
}

TEST(E4m3, ties_go_to_the_even_code_and_beyond_the_range_is_448) {
  for (int low = 0; low < 0x7E; ++low) {
    expect_nearest_even(e4m3_value(static_cast<std::uint8_t>(low)),
                        e4m3_value(static_cast<std::uint8_t>(low + 1)), low,
                        [](float x) { return int{e4m3_code(x)}; });
  }
  EXPECT_EQ(e4m3_code(449), 0x7E);
  EXPECT_EQ(e4m3_code(464), 0x7E);
  EXPECT_EQ(e4m3_code(465), 0x7E);
  EXPECT_EQ(e4m3_code(infinity), 0x7E);
  EXPECT_EQ(e4m3_code(-1e30F), 0xFE);
}

TEST(Bf16, every_value_comes_back_and_every_tie_goes_to_the_even_one) {
  for (std::uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const float low = bf16_value(static_cast<std::uint16_t>(bits));
    EXPECT_EQ(bf16_bits(low), bits);
    EXPECT_EQ(bf16_bits(-low), bits + 0x8000);
    if (bits == 0x7F7F) continue;
    const float high = bf16_value(static_cast<std::uint16_t>(bits + 1));
    const float middle = static_cast<float>((double{low} + double{high}) / 2);
    ASSERT_EQ(bf16_bits(middle), bits + bits % 2);
    ASSERT_EQ(bf16_bits(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(bf16_bits(std::nextafter(middle, infinity)), bits + 1);
  }
  EXPECT_EQ(bf16_bits(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(bf16_value(bf16_bits(std::nanf("")))));
}

TEST(Quantise, a_block_has_the_scale_of_its_largest_value) {
  std::vector<float> values(32, 0);
  values[3] = -6;
  values[4] = 2.5F;
  values[31] = 0.75F;
  const Quantised made = quantised(values, 32, 256);
  EXPECT_EQ(made.scales[0], e4m3_code(256));
  EXPECT_EQ(made.scales[1], e4m3_code(32));
  EXPECT_EQ(made.codes[1], 0xF0);  // element 3: the high nibble of byte 1
  EXPECT_EQ(made.codes[2], 0x04);  // 2.5 is a tie: 2
  EXPECT_EQ(made.codes[15], 0x70);
  EXPECT_EQ(row_values(made, 0)[3], -6 * 256);
  EXPECT_EQ(row_values(made, 0)[31], 0.75F * 256);
}

TEST(Quantise, zeros_have_scale_zero_and_tiny_values_vanish) {
  std::vector<float> values(48, 0);
  values[1] = -0.0F;
  values[16] = 1e-30F;  // the scale underflows: whatever the code, the value is 0
  values[32] = std::nanf("");
  const Quantised made = quantised(values, 48, 256);
  EXPECT_EQ(made.scales[0], 0);
  EXPECT_EQ(made.codes[0], 0x80);
  EXPECT_EQ(made.scales[1], 0);
  EXPECT_EQ(row_values(made, 0)[16], 0);
  EXPECT_EQ(made.scales[2], 0x7F);
  EXPECT_TRUE(std::isnan(row_values(made, 0)[33]));
}

TEST(Quantise, large_values_saturate) {
  const Quantised made = quantised(std::vector<float>(16, 100), 16, 256);
  EXPECT_EQ(made.scales[0], 0x7E);
  EXPECT_EQ(row_values(made, 0)[0], 6 * 448);
}

// Values of an independent script: a change of the rule is a change of every recorded probe.
TEST(Hidden, states_are_those_of_an_independent_script) {
  const std::vector<float> made = hidden_states(7, 4, 2048);
  const std::uint16_t first[] = {0xBF9D, 0xBF45, 0xBF24, 0x4021};
  for (int h = 0; h < 4; ++h) EXPECT_EQ(bf16_bits(made[h]), first[h]);
  EXPECT_EQ(bf16_bits(made[3 * 2048]), 0xBEE2);
  EXPECT_EQ(bf16_bits(made[3 * 2048 + 1]), 0xBE35);
  EXPECT_EQ(bf16_bits(made[3 * 2048 + 2047]), 0xBFA7);
}

TEST(Hidden, states_are_standard_normals_of_the_documented_rule) {
  const std::int64_t tokens = 64;
  const std::int64_t hidden = 2048;
  const std::vector<float> made = hidden_states(7, tokens, hidden);
  double sum = 0;
  double square = 0;
  double fourth = 0;
  for (const float x : made) {
    EXPECT_EQ(bf16_value(bf16_bits(x)), x);
    sum += x;
    square += double{x} * x;
    fourth += std::pow(double{x}, 4);
  }
  const auto count = static_cast<double>(made.size());
  EXPECT_LT(std::abs(sum / count), 4 / std::sqrt(count));
  EXPECT_NEAR(square / count, 1, 4 * std::sqrt(2 / count));
  EXPECT_NEAR(fourth / count, 3 - 1.2 / 48, 4 * std::sqrt(96 / count));
  EXPECT_NE(made[0], hidden_states(8, 1, hidden)[0]);
  EXPECT_EQ(hidden_states(7, 2, 16)[16 + 3], hidden_states(7, 2, 32)[32 + 3]);
}

}  // namespace
}  // namespace slicecheck::moe
