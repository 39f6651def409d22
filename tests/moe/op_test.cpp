// The op against an independent evaluation in double precision: plain weights, no layouts, formats
// by ldexp and search, no code of moe. It models the roundings that the op documents (E4M3 and E2M1
// of hidden states and intermediate, BF16 of the rows) and sums exactly enough; what is left is
// FP32's own rounding of sums, and a BF16 tie that it tips over.
#include "moe/op.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "experts/payload.h"
#include "moe/codes.h"
#include "moe/hidden.h"

namespace slicecheck::moe {
namespace {

using Doubles = std::vector<double>;

double code_magnitude(int code) {
  return code == 0 ? 0 : code == 1 ? 0.5 : std::ldexp(1 + code % 2 / 2.0, code / 2 - 1);
}
double scale_magnitude(int byte) {
  return byte < 8 ? std::ldexp(byte, -9) : std::ldexp(1 + byte % 8 / 8.0, byte / 8 - 7);
}

// The nearest of 0 .. last by value; the even one of two equally near.
template <typename Magnitude>
double nearest(double x, int last, Magnitude magnitude) {
  int best = 0;
  for (int code = 1; code <= last; ++code) {
    const double ahead = std::abs(magnitude(code) - x);
    const double behind = std::abs(magnitude(best) - x);
    if (ahead < behind || (ahead == behind && code % 2 == 0)) best = code;
  }
  return magnitude(best);
}

Doubles requantised(const Doubles& x, double global) {
  Doubles made(x.size());
  for (std::size_t b = 0; b < x.size(); b += 16) {
    double most = 0;
    for (std::size_t i = b; i < b + 16; ++i) most = std::max(most, std::abs(x[i]));
    // The exact path's FP32 factors: BF16 values do lie on ties, which these decide.
    const auto sixth = static_cast<float>(global) * 0x1.555556p-3F;
    const double scale = nearest(static_cast<float>(most) * sixth, 0x7E, scale_magnitude);
    const float factor = 1 / (static_cast<float>(scale) / static_cast<float>(global));
    for (std::size_t i = b; i < b + 16 && scale > 0; ++i) {
      const double code = nearest(std::abs(static_cast<float>(x[i])) * factor, 7, code_magnitude);
      made[i] = std::copysign(code * scale, x[i]);
    }
  }
  return made;
}

// A plain row as numbers.
Doubles plain_row(const experts::PlainProjection& from, std::int64_t row, std::int64_t cols) {
  Doubles made(cols);
  for (std::int64_t i = 0; i < cols; ++i) {
    const int nibble = from.weight[(row * cols + i) / 2] >> (4 * (i % 2)) & 15;
    const double value =
        code_magnitude(nibble % 8) * scale_magnitude(from.scale[(row * cols + i) / 16]);
    made[i] = nibble < 8 ? value : -value;
  }
  return made;
}

double product(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct ScalarsOf {
  double g1 = 0;
  double scale_c = 0;
  double g2 = 0;
};

// One route's row, before its rounding to BF16, and the sum of the magnitudes of its terms.
struct ExactRow {
  Doubles value;
  Doubles magnitude;
};

ExactRow exact_row(const experts::PlainExpert& expert, const ScalarsOf& scalars,
                   const Doubles& hidden) {
  const std::int64_t h = expert.widths.hidden;
  const std::int64_t width = expert.widths.intermediate;
  Doubles y(width);
  for (std::int64_t i = 0; i < width; ++i) {
    const double gate = product(plain_row(expert.w1, i, h), hidden) * scalars.g1;
    const double up = product(plain_row(expert.w3, i, h), hidden);
    y[i] = scalars.scale_c * up * gate / (1 + std::exp(-gate));
  }
  y = requantised(y, 1);
  Doubles magnitudes(y);
  for (double& x : magnitudes) x = std::abs(x);
  ExactRow made{Doubles(h), Doubles(h)};
  for (std::int64_t row = 0; row < h; ++row) {
    Doubles down = plain_row(expert.w2, row, width);
    made.value[row] = product(down, y) * scalars.g2;
    for (double& x : down) x = std::abs(x);
    made.magnitude[row] = product(down, magnitudes) * scalars.g2;
  }
  return made;
}

double half_ulp(double x) { return x == 0 ? 0 : std::ldexp(1, std::ilogb(x) - 8); }

constexpr layout::Shape shape{4, 256, 384, 2};
constexpr layout::Payload payload{layout::PayloadKind::numeric, 5, 0};
constexpr std::int64_t tokens = 6;

struct Probed {
  Routing routing = covering({shape.experts, tokens, 2, 5});
  std::vector<float> states = hidden_states(5, tokens, shape.hidden);
  Quantised hidden = quantised(states, shape.hidden, 256);
};

// Every element within BF16's half ulp and the FP32 sum's own error; 2^-20 of the terms' magnitudes
// bounds the latter: 384 / 16 + 4 additions of half an ulp each, twice.
void expect_the_exact_row(const std::uint16_t* got, const ExactRow& due) {
  for (std::size_t h = 0; h < due.value.size(); ++h) {
    const double allowed = half_ulp(due.value[h]) * 1.01 + due.magnitude[h] * 0x1p-20;
    ASSERT_NEAR(bf16_value(got[h]), due.value[h], allowed) << "row " << h;
  }
}

TEST(Op, equals_an_independent_evaluation_in_double_precision) {
  const Probed probed;
  const layout::Widths widths = layout::stock_widths(shape);
  const experts::Scalars scalars = experts::payload_scalars(payload.seed, 0, shape.experts, widths);
  for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
    const experts::StockExperts stock = experts::payload_stock(payload, shape, rank);
    const RouteRows got = route_rows(
        fused_rows(op_experts(stock), shape.experts, probed.hidden, probed.routing, {8, 3}));
    for (std::int64_t route = 0; route < probed.routing.routes(); ++route) {
      const std::int32_t e = probed.routing.experts[route];
      ASSERT_EQ(got.local[route] != 0, e / shape.experts_per_rank() == rank);
      if (got.local[route] == 0) continue;
      const auto* state = &probed.states[route / 2 * shape.hidden];
      const Doubles hidden = requantised(Doubles(state, state + shape.hidden), 256);
      expect_the_exact_row(
          got.row(route),
          exact_row(experts::payload_expert(payload, e, widths),
                    {scalars.g1_alphas[e], scalars.g1_scale_c[e], scalars.g2_alphas[e]}, hidden));
    }
  }
}

TEST(Op, a_tp_ranks_intermediate_is_the_slice_of_the_whole_ones) {
  const Probed probed;
  const experts::StockExperts stock = experts::payload_stock(payload, shape, 1);
  const std::int64_t e = 3;
  const Quantised whole = intermediate_of(op_experts(stock), e, probed.hidden, {0, 4, 5});
  const std::int64_t part = shape.slice();
  for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
    const experts::TpExperts tp = experts::payload_tp(payload, shape, rank);
    const Quantised slice = intermediate_of(op_experts(tp), e, probed.hidden, {0, 4, 5});
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::vector<float> all = row_values(whole, i);
      const std::vector<float> due(&all[rank * part], &all[rank * part] + part);
      EXPECT_EQ(row_values(slice, i), due);
    }
  }
}

TEST(Op, sigmoid_is_within_one_ulp_and_saturates) {
  for (float x = -104; x < 104; x += 0.0371F) {
    const double due = 1 / (1 + std::exp(-double{x}));
    EXPECT_NEAR(sigmoid(x), due, due * 0x1p-23 + 0x1p-149) << x;
  }
  EXPECT_EQ(sigmoid(1e30F), 1);
  EXPECT_EQ(sigmoid(-1e30F), 0);
  EXPECT_EQ(sigmoid(0), 0.5F);
  EXPECT_TRUE(std::isnan(sigmoid(std::nanf(""))));
}

TEST(Op, one_qwen3_30b_layer_takes_less_than_20_seconds) {
  const layout::Shape large{128, 2048, 768, 2};
  const experts::StockExperts stock =
      experts::payload_stock({layout::PayloadKind::numeric, 1, 0}, large, 0);
  OpExperts all = op_experts(stock);  // half of the experts, read twice: as much work as all
  const Routing routing = covering({128, 16, 8, 1});
  const Quantised hidden = quantised(hidden_states(1, 16, 2048), 2048, 256);
  const auto before = std::chrono::steady_clock::now();
  for (const std::int64_t first : {0, 64}) {
    all.first = first;
    EXPECT_EQ(fused_rows(all, 128, hidden, routing, {}).map.size(), 128U);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_LT(took.count(), 20);
}

}  // namespace
}  // namespace slicecheck::moe
