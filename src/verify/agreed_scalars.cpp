#include "verify/agreed_scalars.h"

#include <bit>
#include <map>
#include <tuple>

#include "verify/scalar_flaw.h"

namespace slicecheck::verify {
namespace {

// The value of one expert. Of equally many that are equally near, the smaller.
float agreed(const Evidence& evidence, std::size_t scalar, std::size_t expert, float due,
             std::int64_t tolerance) {
  std::map<std::uint32_t, std::int64_t> ranks_by_bits;
  for (const RankScalars& rank : evidence.scalars) {
    if (rank.tp[scalar].empty()) continue;
    const float value = rank.tp[scalar][expert];
    if (ulp_distance(value, due) > tolerance) continue;
    ++ranks_by_bits[std::bit_cast<std::uint32_t>(value)];
  }
  float best = due;
  std::tuple<std::int64_t, std::int64_t> best_weight{0, 0};
  for (const auto& [bits, ranks] : ranks_by_bits) {
    const float value = std::bit_cast<float>(bits);
    const std::tuple weight{ranks, -ulp_distance(value, due)};
    if (weight <= best_weight) continue;
    best = value;
    best_weight = weight;
  }
  return best;
}

}  // namespace

std::vector<float> agreed_scalars(const Evidence& evidence, experts::Scalar scalar,
                                  const std::vector<float>& due, std::int64_t tolerance) {
  std::vector<float> made(due.size());
  for (std::size_t e = 0; e < due.size(); ++e) {
    made[e] = agreed(evidence, static_cast<std::size_t>(scalar), e, due[e], tolerance);
  }
  return made;
}

}  // namespace slicecheck::verify
