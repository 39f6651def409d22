#include "moe/op.h"

#include <cmath>
#include <cstring>

#include "base/must.h"
#include "layout/rows.h"
#include "moe/codes.h"

namespace slicecheck::moe {
namespace {

template <typename Record>
OpExperts viewed(const Record& record) {
  OpExperts made;
  made.w13 = record.w13.data.get();
  made.w13_sf = record.w13_sf.data.get();
  made.w2 = record.w2.data.get();
  made.w2_sf = record.w2_sf.data.get();
  made.g1_alphas = record.g1_alphas.data.get();
  made.g1_scale_c = record.g1_scale_c.data.get();
  made.g2_alphas = record.g2_alphas.data.get();
  made.count = record.w13.extents[0];
  made.widths = {2 * record.w13.extents[2], record.w13.extents[1] / 2};
  return made;
}

CodeMatrix w13_of(const OpExperts& from, std::int64_t local) {
  return {from.w13 + local * layout::matrix(layout::Kind::w13, from.widths).bytes(),
          from.w13_sf + local * layout::matrix(layout::Kind::w13_sf, from.widths).bytes(),
          from.widths.hidden};
}

CodeMatrix w2_of(const OpExperts& from, std::int64_t local) {
  return {from.w2 + local * layout::matrix(layout::Kind::w2, from.widths).bytes(),
          from.w2_sf + local * layout::matrix(layout::Kind::w2_sf, from.widths).bytes(),
          from.widths.intermediate};
}

std::int64_t local_of(const OpExperts& from, std::int64_t expert) {
  must(expert >= from.first && expert < from.first + from.count, "an expert that is not local");
  return expert - from.first;
}

// e^x for x <= 0: 2^k e^r with |r| <= ln 2 / 2, and e^r by its series, whose 14th term is < 2^-55.
double exponential(double x) {
  constexpr double ln2 = 0.693147180559945309417;
  if (x < -700) return 0;
  const double k = std::nearbyint(x / ln2);
  const double r = x - k * ln2;
  double sum = 1;
  for (int term = 14; term > 0; --term) sum = 1 + r / term * sum;
  return std::ldexp(sum, static_cast<int>(k));
}

struct ActivationScales {
  float gate = 0;  // g1_alphas
  float up = 0;    // g1_scale_c
};

float swiglu(float up, float gate, const ActivationScales& scales) {
  const float g = gate * scales.gate;
  return scales.up * up * (g * sigmoid(g));
}

}  // namespace

OpExperts op_experts(const experts::StockExperts& stock) {
  OpExperts made = viewed(stock);
  made.first = stock.first_expert;
  return made;
}

OpExperts op_experts(const experts::TpExperts& tp) { return viewed(tp); }

float sigmoid(float x) {
  if (std::isnan(x)) return x;
  const double e = exponential(-std::abs(static_cast<double>(x)));
  return static_cast<float>((x < 0 ? e : 1.0) / (1.0 + e));
}

Quantised intermediate_of(const OpExperts& from, std::int64_t expert, const Quantised& hidden,
                          const std::vector<std::int64_t>& tokens) {
  const std::int64_t local = local_of(from, expert);
  const std::int64_t width = from.widths.intermediate;
  const CodeMatrix w13 = w13_of(from, local);
  const ActivationScales scales{load<float>(from.g1_alphas + 4 * local),
                                load<float>(from.g1_scale_c + 4 * local)};
  std::vector<std::vector<float>> inputs;
  for (const std::int64_t token : tokens) inputs.push_back(row_values(hidden, token));
  std::vector<float> up(from.widths.hidden);
  std::vector<float> gate(from.widths.hidden);
  std::vector<float> y(inputs.size() * width);
  for (std::int64_t channel = 0; channel < width; ++channel) {
    decode_row(w13, layout::w13_dest({layout::Projection::w3, channel}), up);
    decode_row(w13, layout::w13_dest({layout::Projection::w1, channel}), gate);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      y[i * width + channel] = swiglu(dot(up, inputs[i]), dot(gate, inputs[i]), scales);
    }
  }
  return quantised(y, width, 1.0F);
}

std::vector<std::uint16_t> rows_of(const OpExperts& from, std::int64_t expert, const Quantised& y) {
  const std::int64_t local = local_of(from, expert);
  const std::int64_t hidden = from.widths.hidden;
  const CodeMatrix w2 = w2_of(from, local);
  const float alpha = load<float>(from.g2_alphas + 4 * local);
  std::vector<std::vector<float>> inputs;
  for (std::int64_t i = 0; i < y.rows; ++i) inputs.push_back(row_values(y, i));
  std::vector<float> down(from.widths.intermediate);
  std::vector<std::uint16_t> rows(y.rows * hidden);
  for (std::int64_t h = 0; h < hidden; ++h) {
    decode_row(w2, layout::shuffle_dest(h), down);
    for (std::int64_t i = 0; i < y.rows; ++i) {
      rows[i * hidden + h] = bf16_bits(dot(down, inputs[i]) * alpha);
    }
  }
  return rows;
}

void write_rows(PermutedRows& rows, const OpExperts& from, std::int64_t expert,
                const Quantised& hidden, const Routing& routing) {
  const std::vector<std::int64_t> routes = routes_of(routing, expert);
  if (routes.empty()) return;
  std::vector<std::int64_t> tokens;
  for (const std::int64_t route : routes) tokens.push_back(route / routing.top_k);
  const std::vector<std::uint16_t> made =
      rows_of(from, expert, intermediate_of(from, expert, hidden, tokens));
  for (std::size_t i = 0; i < routes.size(); ++i) {
    std::memcpy(row_of(rows, rows.map[routes[i]]), &made[i * from.widths.hidden],
                2 * from.widths.hidden);
  }
}

PermutedRows fused_rows(const OpExperts& from, std::int64_t experts, const Quantised& hidden,
                        const Routing& routing, const Placement& placement) {
  const LocalExperts local{from.first, from.count, experts};
  PermutedRows made = unwritten_rows(routing, local, from.widths.hidden, placement);
  for (std::int64_t e = from.first; e < from.first + from.count; ++e) {
    write_rows(made, from, e, hidden, routing);
  }
  return made;
}

}  // namespace slicecheck::moe
