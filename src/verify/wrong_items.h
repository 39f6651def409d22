// How much of what is no weight and no byte differs: the counts of the checks on scalars and
// scales.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace slicecheck::verify {

/// How many items differ, of those that the checks on scalars and scales compare.
struct WrongItems {
  std::array<std::int64_t, 3> tp{};  // values of every rank, by experts::Scalar
  std::int64_t globals = 0;          // a1_gscale and a2_gscale of every rank
  std::int64_t relations = 0;        // experts of the stock
  std::int64_t blocks = 0;           // block scales

  /// Of the check scalars.* or scales.* with this id; 0 for any other.
  std::int64_t of(std::string_view check) const;
};

}  // namespace slicecheck::verify
