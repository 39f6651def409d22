// Launches of the device kernels, as plain functions: the text above them needs no CUDA compiler.
// Pointers are device pointers, aligned to 16 bytes where the tensor's own extents are.
#pragma once

#include "layout/cut.h"
#include "memory/step.h"

struct CUstream_st;

namespace slicecheck::memory::kernels {

using Stream = CUstream_st*;

/// What a comparison writes, one an expert, zero before it starts: the first offset complemented,
/// so that the largest is the first.
struct Found {
  unsigned long long differing;
  unsigned long long last_before;
};

/// By at most `blocks_max` blocks at once.
void pack(const Packed& to, const std::uint8_t* stock, const layout::Cut& cut,
          const layout::Shape& shape, unsigned blocks_max, Stream stream);

void convert_weights(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
                     const PlainSource& from, std::int64_t experts, Stream stream);
void convert_scales(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
                    const PlainSource& from, std::int64_t experts, Stream stream);

void fill_plain(std::uint8_t* to, const PayloadPlain& plain, Stream stream);

void fill_payload(std::uint8_t* to, const PayloadTensor& tensor, Stream stream);
void compare_payload(Found* found, const std::uint8_t* got, const PayloadTensor& tensor,
                     Stream stream);

void compare(Found* found, const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes,
             Stream stream);

/// Adds to two words, zero before it starts, the sums of two keyed hashes of every 8-byte word.
void digest(unsigned long long* sums, const std::uint8_t* from, std::int64_t bytes, Stream stream);

}  // namespace slicecheck::memory::kernels
