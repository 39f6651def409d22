// Views of bytes, and the little-endian words that lie in them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace slicecheck {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;
using ByteVector = std::vector<std::uint8_t>;

/// The unaligned little-endian value that starts at `at`. The hosts of this project are
/// little-endian; a big-endian one does not compile.
template <typename T>
T load(const std::uint8_t* at) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Writes `value` little-endian and unaligned at `at`.
template <typename T>
void store(std::uint8_t* at, T value) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  std::memcpy(at, &value, sizeof value);
}

}  // namespace slicecheck
