// What each rank has, on all of them.
#pragma once

#include <vector>

#include "group/group.h"

namespace slicecheck::group {

/// Every rank's values, [size, values]; all ranks give equally many. Collective.
template <typename T>
std::vector<T> shared(Group& group, const std::vector<T>& mine) {
  std::vector<T> all(group.size() * mine.size());
  group.share({reinterpret_cast<const std::uint8_t*>(mine.data()), mine.size() * sizeof(T)},
              {reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof(T)});
  return all;
}

/// Every rank's value, in rank order. Collective.
template <typename T>
std::vector<T> shared(Group& group, const T& mine) {
  return shared(group, std::vector<T>{mine});
}

}  // namespace slicecheck::group
