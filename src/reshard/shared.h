// One value of each rank, on all of them.
#pragma once

#include <vector>

#include "group/group.h"

namespace slicecheck::reshard {

/// Every rank's value, in rank order. Collective.
template <typename T>
std::vector<T> shared(group::Group& group, const T& mine) {
  std::vector<T> all(group.size());
  group.share({reinterpret_cast<const std::uint8_t*>(&mine), sizeof mine},
              {reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof mine});
  return all;
}

}  // namespace slicecheck::reshard
