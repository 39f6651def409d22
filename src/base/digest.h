// Digests of bytes: XXH3-128, in the canonical form that golden data and reports use.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"

namespace slicecheck {

/// 16 bytes, most significant first (XXH128 canonical).
struct Digest {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const Digest&) const = default;
};

/// XXH3-128 of `bytes`, seed 0.
Digest digest(Bytes bytes);

/// 32 lower-case hex digits.
std::string hex(const Digest& digest);

/// XXH3-128 of bytes that arrive in pieces: `of()` equals digest() of the pieces joined.
class DigestStream {
 public:
  DigestStream();
  ~DigestStream();
  DigestStream(const DigestStream&) = delete;
  DigestStream& operator=(const DigestStream&) = delete;

  void add(Bytes bytes);
  Digest of() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slicecheck
