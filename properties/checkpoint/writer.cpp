#include "properties/checkpoint/writer.h"

#include <algorithm>
#include <bit>

#include "base/must.h"
#include "checkpoint/names.h"
#include "checkpoint/write.h"

namespace slicecheck::properties {
namespace {

using layout::Projection;

// 1 / (1 / g) of a float g is not always g, but of what that gives it is: a multiplier that a
// compressed-tensors checkpoint, which holds the divisor, gives back.
float multiplier_of(const Case& given, std::int64_t expert, std::int64_t j, int order) {
  const float drawn =
      std::bit_cast<float>(layout::scalar_bits(given.payload.seed ^ 0x5CA1E5U, expert, j, -order));
  const float made = 1.0F / (1.0F / drawn);
  must(1.0F / (1.0F / made) == made, "a multiplier that its divisor does not give back");
  return made;
}

constexpr int weight_order = 11;
constexpr int input_order = 7;

// Word 0 and 1: weight scales of w13 and w2. Words 2 to 4: input scales.
checkpoint::ProjectionScales scales_of(const Case& given, std::int64_t e, Projection projection) {
  const std::int64_t weight = projection == Projection::w2 ? 1 : 0;
  const std::int64_t input = 2 + static_cast<std::int64_t>(projection);
  return {multiplier_of(given, e, weight, weight_order),
          multiplier_of(given, e, input, input_order)};
}

}  // namespace

CheckpointScales checkpoint_scales(const Case& given) {
  CheckpointScales made;
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    made.w13.push_back(*scales_of(given, e, Projection::w1).weight);
    made.w2.push_back(*scales_of(given, e, Projection::w2).weight);
    for (const Projection each : layout::projections) {
      made.inputs[static_cast<std::size_t>(each)].push_back(*scales_of(given, e, each).input);
    }
  }
  return made;
}

experts::Scalars due_scalars(const CheckpointScales& scales, std::int64_t first,
                             std::int64_t count) {
  const auto largest = [&](Projection projection) {
    const std::vector<float>& all = scales.inputs[static_cast<std::size_t>(projection)];
    return *std::max_element(all.begin(), all.end());
  };
  const float a13 = std::max(largest(Projection::w1), largest(Projection::w3));
  const float a2 = largest(Projection::w2);
  experts::Scalars made;
  made.a1_gscale = 1.0F / a13;
  made.a2_gscale = 1.0F / a2;
  for (std::int64_t e = first; e < first + count; ++e) {
    made.g1_alphas.push_back(a13 * scales.w13[e]);
    made.g1_scale_c.push_back(made.g1_alphas.back() * made.a2_gscale);
    made.g2_alphas.push_back(a2 * scales.w2[e]);
  }
  return made;
}

std::int64_t layer_number(const Case& given) {
  return static_cast<std::int64_t>(given.payload.seed % 64);
}

Reason write_checkpoint(const std::string& folder, const Case& given) {
  checkpoint::WrittenLayer made = checkpoint::payload_layer(
      static_cast<checkpoint::Format>(given.format), given.payload, given.shape);
  made.number = layer_number(given);
  made.names = given.payload.seed % checkpoint::projection_names.size();
  made.shards = static_cast<std::int64_t>(1 + given.payload.seed / 64 % 3);
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    made.scales[e] = {scales_of(given, e, Projection::w1), scales_of(given, e, Projection::w3),
                      scales_of(given, e, Projection::w2)};
  }
  return checkpoint::write_layer(folder, made);
}

}  // namespace slicecheck::properties
