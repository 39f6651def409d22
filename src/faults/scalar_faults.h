// Faults of the scalars: values that are not those of their expert, their factors or their rank.
#pragma once

#include <string_view>

#include "faults/layer.h"

namespace slicecheck::faults {

/// Where a scalar fault is planted: a per-expert scalar on ranks of a side. Empty lists mean all.
struct ScalarWhere {
  Side side = Side::tp;
  experts::Scalar scalar = experts::Scalar::g1_alphas;
  std::vector<std::int64_t> experts;  // global
  std::vector<std::int64_t> ranks;
};

/// Each value becomes what `made` gives for it.
void scalars_changed(Layer& layer, const ScalarWhere& where,
                     const std::function<float(float value, std::int64_t expert)>& made);

/// 1 / value.
void reciprocal_scale(Layer& layer, const ScalarWhere& where);

/// All exactly 1.0.
void scale_dropped(Layer& layer, const ScalarWhere& where);

/// A derived scalar without one factor: g1_alphas without a13, g2_alphas without a2, g1_scale_c
/// without a2_gscale.
void factor_dropped(Layer& layer, const ScalarWhere& where);

/// Every value becomes that of expert `other`.
void stale_derived_scalar(Layer& layer, const ScalarWhere& where, std::int64_t other);

/// Every value moves up by `ulp` units in the last place.
void scalar_rounding(Layer& layer, const ScalarWhere& where, int ulp);

/// Every value becomes `value`: zero, negative, NaN, infinite, denormal.
void scale_not_finite_positive(Layer& layer, const ScalarWhere& where, float value);

/// tp only: the rank's own Er values repeated over all E places.
void scalars_not_gathered(Layer& layer, const ScalarWhere& where);

/// tp only: the values of the ranks in reverse order of experts.
void scalars_misordered(Layer& layer, const ScalarWhere& where);

/// What a healthy layer with `seed` has in these experts' scalars, all three of them, and tensors.
/// The layer must be a payload's.
void whole_payload_of_other_layer(Layer& layer, const Where& where, std::uint64_t seed);

/// a1_gscale (or a2_gscale) of these ranks is multiplied; the derived scalars stay.
void input_scale_differs(Layer& layer, std::string_view name,
                         const std::vector<std::int64_t>& ranks, float factor);

}  // namespace slicecheck::faults
