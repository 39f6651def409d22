// One scalar that is wrong, and the findings that say so: values that are wrong at the same places
// in the same way are said together.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "verify/placement.h"
#include "verify/places.h"
#include "verify/scalar_flaw.h"
#include "verify/wrong_items.h"

namespace slicecheck::verify {

/// The scalars by name: the global ones, then the per-expert ones in the order of experts::Scalar.
enum class ScalarName : std::uint8_t { a1_gscale, a2_gscale, g1_alphas, g1_scale_c, g2_alphas };

/// One wrong value.
struct WrongScalar {
  Side side = Side::stock;
  Flaw flaw = Flaw::none;
  ScalarName name = ScalarName::a1_gscale;
  std::int64_t rank = 0;
  std::int64_t expert = -1;  // -1: of the rank as a whole
  float value = 0;
  float due = 0;
  Found found;
  std::uint64_t seed = 0;  // of another payload
};

/// The items that these scalars are; no blocks.
WrongItems counted(const std::vector<WrongScalar>& wrong);

/// "g1_alphas".
std::string_view name(ScalarName name);

/// Takes out of `scalars` those that were moved with the experts of a side at these places.
std::vector<WrongScalar> taken_along(std::vector<WrongScalar>& scalars, Side side,
                                     const std::set<Place>& places);

/// Adds the findings of `wrong` to `made`.
void add_wrong_scalars(const Subject& subject, const std::vector<WrongScalar>& wrong,
                       std::vector<report::Finding>& made);

}  // namespace slicecheck::verify
