// What the kernels share: 16-byte vectors, their differences, and launches.
#pragma once

#include <cuda_runtime.h>

#include "memory/cuda/kernels.h"

namespace slicecheck::memory::kernels {

inline constexpr std::int64_t vector_bytes = 16;
inline constexpr int threads = 256;

/// What one thread found; added to an expert's Found when it is done.
struct Tally {
  unsigned long long differing = 0;
  unsigned long long first = ~0ULL;

  /// Bytes of two 4-byte words, the first of which lies at `offset`.
  __device__ void look(std::uint32_t got, std::uint32_t want, unsigned long long offset) {
    if (got == want) return;
    const unsigned int unequal = __vcmpne4(got, want);
    if (first == ~0ULL) first = offset + (__ffs(static_cast<int>(unequal)) - 1) / 8;
    differing += __popc(unequal) / 8;
  }

  /// A vector at `offset`; equal ones cost one branch.
  __device__ void look(uint4 got, uint4 want, unsigned long long offset) {
    const std::uint32_t any =
        (got.x ^ want.x) | (got.y ^ want.y) | (got.z ^ want.z) | (got.w ^ want.w);
    if (any == 0) return;
    look(got.x, want.x, offset);
    look(got.y, want.y, offset + 4);
    look(got.z, want.z, offset + 8);
    look(got.w, want.w, offset + 12);
  }

  __device__ void add_to(Found* found) const {
    if (differing == 0) return;
    atomicAdd(&found->differing, differing);
    atomicMax(&found->last_before, ~first);
  }
};

/// Read once and written once: neither is kept where something else could be.
__device__ inline uint4 read_once(const uint4* at) { return __ldcs(at); }
__device__ inline void write_once(uint4* at, uint4 value) { __stcs(at, value); }

__device__ inline uint4 vector_of(std::uint64_t low, std::uint64_t high) {
  return make_uint4(static_cast<unsigned>(low), static_cast<unsigned>(low >> 32),
                    static_cast<unsigned>(high), static_cast<unsigned>(high >> 32));
}

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

/// x / divisor for x < 2^31: by one multiplication where both are small, else 0 or 1.
/// Checked by the caller: x < divisor + span_max.
struct SmallQuotient {
  std::uint32_t divisor = 1;
  std::uint32_t magic = 0;  // 0: the quotient is 0 or 1

  static SmallQuotient by(std::int64_t divisor, std::int64_t span) {
    if (divisor > span) return {static_cast<std::uint32_t>(divisor), 0};
    return {static_cast<std::uint32_t>(divisor),
            static_cast<std::uint32_t>((std::int64_t{1} << 32) / divisor + 1)};
  }

  // Exact while x divisor < 2^32: x < 2 span and divisor <= span <= 32768. A divisor of 1 has no
  // magic of 32 bits; no run is that short.
  __device__ std::uint32_t of(std::uint32_t x) const {
    return magic == 0 ? (x >= divisor ? 1U : 0U) : __umulhi(x, magic);
  }
};

}  // namespace slicecheck::memory::kernels
