// One scalar against the value that it must have: is it none at all, rounded, upside down, without
// a factor, another expert's, or simply another value.
#pragma once

#include <optional>
#include <vector>

#include "experts/payload.h"

namespace slicecheck::verify {

/// "scale-not-finite-positive", "scalar-rounding", ... in the order in which they are tried.
enum class Flaw : std::uint8_t {
  none,
  not_finite_positive,
  rounding,
  reciprocal,
  dropped,
  stale,
  mixed,
  not_gathered,
  misordered,
  input_differs,
  other_payload,
  moved  // with its expert: the experts' finding says it
};
std::string_view name(Flaw flaw);

/// The global scales that per-expert scalars are built from.
struct Globals {
  float a1_gscale = 0;
  float a2_gscale = 0;
};

/// What a value is found to be; `other` is the expert whose value it is.
struct Found {
  Flaw flaw = Flaw::none;
  std::int64_t ulp = 0;
  std::optional<std::int64_t> other;
};

/// True for a finite, positive, normal number.
bool finite_positive(float value);

bool same_bits(float a, float b);

/// The distance of two finite positive floats in units in the last place; a large number for
/// others.
std::int64_t ulp_distance(float a, float b);

/// True when a / b is 1 within `ulp` units.
bool near(double a, double b, double ulp);

/// A value that is not the due one, by what it is. `all` are the due values of all experts.
Found flaw_of(experts::Scalar scalar, float value, float due, const std::vector<float>& all,
              const Globals& globals);

/// A relation g1_scale_c = g1_alphas a2_gscale that does not hold, with no due values at hand:
/// which of the two is wrong, and how. `alphas` and `scale_cs` are those of all experts, `at` the
/// broken one's.
struct BrokenRelation {
  experts::Scalar scalar = experts::Scalar::g1_scale_c;
  Found found;
};
BrokenRelation broken_relation(const std::vector<float>& alphas, const std::vector<float>& scale_cs,
                               std::int64_t at, float a2_gscale);

}  // namespace slicecheck::verify
