// Kernels over bytes without a layout: the comparison of two buffers, and a digest.
#include <algorithm>

#include "memory/cuda/vectors.cuh"

namespace slicecheck::memory::kernels {
namespace {

constexpr std::int64_t in_flight = 4;
constexpr std::int64_t span = threads * in_flight;
constexpr unsigned digest_blocks = 2048;

// Aligned vectors [0, vectors) of both, then their last bytes.
__global__ void compare_kernel(Found* found, const std::uint8_t* a, const std::uint8_t* b,
                               std::int64_t bytes) {
  const std::int64_t vectors = bytes / vector_bytes;
  const auto* const va = reinterpret_cast<const uint4*>(a);
  const auto* const vb = reinterpret_cast<const uint4*>(b);
  const std::int64_t begin = blockIdx.x * span + threadIdx.x;
  uint4 left[in_flight];
  uint4 right[in_flight];
#pragma unroll
  for (int i = 0; i < in_flight; ++i) {
    const std::int64_t v = begin + i * threads;
    if (v >= vectors) continue;
    left[i] = read_once(va + v);
    right[i] = read_once(vb + v);
  }
  Tally tally;
#pragma unroll
  for (int i = 0; i < in_flight; ++i) {
    const std::int64_t v = begin + i * threads;
    if (v < vectors) tally.look(left[i], right[i], v * vector_bytes);
  }
  const std::int64_t last = vectors * vector_bytes + threadIdx.x;
  if (blockIdx.x == 0 && last < bytes && a[last] != b[last]) {
    tally.differing += 1;
    tally.first = min(tally.first, static_cast<unsigned long long>(last));
  }
  tally.add_to(found);
}

// Any alignment, byte by byte.
__global__ void compare_bytes_kernel(Found* found, const std::uint8_t* a, const std::uint8_t* b,
                                     std::int64_t bytes) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= bytes || a[at] == b[at]) return;
  const Tally tally{1, static_cast<unsigned long long>(at)};
  tally.add_to(found);
}

__device__ std::uint64_t word_at(const std::uint8_t* from, std::int64_t j, std::int64_t bytes) {
  const std::uint8_t* at = from + 8 * j;
  if (8 * j + 8 <= bytes && reinterpret_cast<std::uintptr_t>(at) % 8 == 0) {
    return __ldcs(reinterpret_cast<const unsigned long long*>(at));
  }
  std::uint64_t word = 0;
  for (std::int64_t i = 0; i < 8 && 8 * j + i < bytes; ++i) word |= std::uint64_t{at[i]} << 8 * i;
  return word;
}

// Each word is mixed with its own number under two keys, so that the sums tell places apart and
// need no order.
__global__ void digest_kernel(unsigned long long* sums, const std::uint8_t* from,
                              std::int64_t bytes) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  for (std::int64_t j = std::int64_t{blockIdx.x} * threads + threadIdx.x; 8 * j < bytes;
       j += stride) {
    const std::uint64_t key = layout::mix64((j + 1) * layout::golden_gamma);
    const std::uint64_t mixed = layout::mix64(word_at(from, j, bytes) ^ key);
    low += mixed;
    high += layout::mix64(mixed + key);
  }
  for (int away = 16; away > 0; away /= 2) {
    low += __shfl_xor_sync(~0U, low, away);
    high += __shfl_xor_sync(~0U, high, away);
  }
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(sums, static_cast<unsigned long long>(low));
  atomicAdd(sums + 1, static_cast<unsigned long long>(high));
}

bool aligned(const std::uint8_t* at) {
  return reinterpret_cast<std::uintptr_t>(at) % vector_bytes == 0;
}

}  // namespace

void compare(Found* found, const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes,
             Stream stream) {
  if (bytes == 0) return;
  if (aligned(a) && aligned(b)) {
    const unsigned blocks = std::max(1U, blocks_for(bytes / vector_bytes, span));
    compare_kernel<<<blocks, threads, 0, stream>>>(found, a, b, bytes);
  } else {
    compare_bytes_kernel<<<blocks_for(bytes, threads), threads, 0, stream>>>(found, a, b, bytes);
  }
}

void digest(unsigned long long* sums, const std::uint8_t* from, std::int64_t bytes, Stream stream) {
  if (bytes == 0) return;
  const unsigned blocks = std::min(digest_blocks, blocks_for(bytes, 8 * threads));
  digest_kernel<<<blocks, threads, 0, stream>>>(sums, from, bytes);
}

}  // namespace slicecheck::memory::kernels
