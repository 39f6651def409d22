// The value that most ranks hold, so that a disagreement names the few and not the many.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

namespace slicecheck {

/// The value that most ranks hold; of those held equally often, the lowest rank's.
template <typename T>
T majority(const std::vector<T>& values) {
  const auto held = [&](const T& value) { return std::count(values.begin(), values.end(), value); };
  return *std::max_element(values.begin(), values.end(),
                           [&](const T& a, const T& b) { return held(a) < held(b); });
}

/// The ranks that hold another value than `most`.
template <typename T>
std::vector<int> minority(const std::vector<T>& values, const T& most) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (!(values[rank] == most)) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// The other values than `most`, each with the ranks that hold it.
template <typename T>
std::map<T, std::vector<int>> others(const std::vector<T>& values, const T& most) {
  std::map<T, std::vector<int>> made;
  for (const int rank : minority(values, most)) made[values[rank]].push_back(rank);
  return made;
}

}  // namespace slicecheck
