#include "verify/scalar_flaw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace slicecheck::verify {
namespace {

using experts::Scalar;

constexpr double few_ulp = 4;

// Upside down itself, or built from a global scale or a weight scale that was.
bool is_reciprocal(Scalar scalar, double value, double due, const Globals& globals) {
  const double a1 = globals.a1_gscale;
  const double a2 = globals.a2_gscale;
  const double ratio = value / due;
  const double product = value * due;
  if (near(product, 1, few_ulp)) return true;
  switch (scalar) {
    case Scalar::g1_alphas:
      return near(ratio, a1 * a1, 8) || near(product, 1 / (a1 * a1), 8);
    case Scalar::g1_scale_c:
      return near(ratio, a1 * a1, 8) || near(ratio, 1 / (a2 * a2), 8) ||
             near(product, a2 * a2 / (a1 * a1), 8);
    case Scalar::g2_alphas:
      break;
  }
  return near(ratio, a2 * a2, 8) || near(product, 1 / (a2 * a2), 8);
}

bool is_dropped(Scalar scalar, double value, double due, const Globals& globals) {
  const double a1 = globals.a1_gscale;
  const double a2 = globals.a2_gscale;
  const double ratio = value / due;
  if (value == 1) return true;
  switch (scalar) {
    case Scalar::g1_alphas:
      return near(ratio, a1, 8) || near(value, 1 / a1, few_ulp);
    case Scalar::g1_scale_c:
      return near(ratio, 1 / a2, 8) || near(ratio, a1, 8) || near(value, a2, few_ulp) ||
             near(value, a2 / a1, 8);
    case Scalar::g2_alphas:
      break;
  }
  return near(ratio, a2, 8) || near(value, 1 / a2, few_ulp);
}

std::optional<std::int64_t> owner_of(float value, const std::vector<float>& all) {
  for (std::size_t e = 0; e < all.size(); ++e) {
    if (same_bits(value, all[e])) return static_cast<std::int64_t>(e);
  }
  return {};
}

}  // namespace

std::string_view name(Flaw flaw) {
  constexpr std::array<std::string_view, 12> names{"",
                                                   "scale-not-finite-positive",
                                                   "scalar-rounding",
                                                   "reciprocal-scale",
                                                   "scale-dropped",
                                                   "stale-derived-scalar",
                                                   "expert-mixed",
                                                   "scalars-not-gathered",
                                                   "scalars-misordered",
                                                   "input-scale-differs-across-ranks",
                                                   "payload-of-other-layer",
                                                   "placement-permuted"};
  return names[static_cast<std::size_t>(flaw)];
}

bool finite_positive(float value) { return std::isnormal(value) && value > 0; }

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

std::int64_t ulp_distance(float a, float b) {
  if (!finite_positive(a) || !finite_positive(b)) return std::numeric_limits<std::int64_t>::max();
  return std::abs(static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(a)) -
                  static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(b)));
}

bool near(double a, double b, double ulp) {
  return std::abs(a / b - 1) <= ulp * std::numeric_limits<float>::epsilon();
}

Found flaw_of(Scalar scalar, float value, float due, const std::vector<float>& all,
              const Globals& globals) {
  if (same_bits(value, due)) return {};
  if (!finite_positive(value)) return {Flaw::not_finite_positive, 0, {}};
  const std::int64_t ulp = ulp_distance(value, due);
  if (ulp <= 4) return {Flaw::rounding, ulp, {}};
  if (const auto other = owner_of(value, all)) return {Flaw::stale, ulp, other};
  if (is_reciprocal(scalar, value, due, globals)) return {Flaw::reciprocal, ulp, {}};
  if (is_dropped(scalar, value, due, globals)) return {Flaw::dropped, ulp, {}};
  return {Flaw::stale, ulp, {}};
}

BrokenRelation broken_relation(const std::vector<float>& alphas, const std::vector<float>& scale_cs,
                               std::int64_t at, float a2_gscale) {
  const float alpha = alphas[at];
  const float scale_c = scale_cs[at];
  const double a2 = a2_gscale;
  const std::int64_t ulp = ulp_distance(scale_c, alpha * a2_gscale);
  const auto made = [&](Scalar scalar, Flaw flaw, std::optional<std::int64_t> other = {}) {
    return BrokenRelation{scalar, {flaw, ulp, other}};
  };
  if (ulp <= 4) return made(Scalar::g1_scale_c, Flaw::rounding);
  if (scale_c == 1) return made(Scalar::g1_scale_c, Flaw::dropped);
  if (alpha == 1) return made(Scalar::g1_alphas, Flaw::dropped);
  for (std::int64_t e = 0; e < static_cast<std::int64_t>(alphas.size()); ++e) {
    if (e == at) continue;
    if (same_bits(scale_c, scale_cs[e])) return made(Scalar::g1_scale_c, Flaw::stale, e);
    if (same_bits(alpha, alphas[e])) return made(Scalar::g1_alphas, Flaw::stale, e);
  }
  if (near(scale_c, alpha, few_ulp) || near(scale_c, a2, few_ulp)) {
    return made(Scalar::g1_scale_c, Flaw::dropped);
  }
  if (near(scale_c * (alpha * a2), 1, few_ulp) || near(scale_c, alpha / a2, 8)) {
    return made(Scalar::g1_scale_c, Flaw::reciprocal);
  }
  if (near(alpha * (scale_c / a2), 1, 8)) return made(Scalar::g1_alphas, Flaw::reciprocal);
  return made(Scalar::g1_scale_c, Flaw::stale);
}

}  // namespace slicecheck::verify
