// Quantisation of activations to NVFP4 on the exact path (IEEE division, no fast reciprocals): one
// E4M3 scale every 16 channels, linear order, E2M1 codes under it.
//   b = max |x| of the block     SF = e4m3(b (G / 6))
//   code = e2m1(x min(1 / (SF (1 / G)), FLT_MAX))     value = code SF / G
// with G the global scale, 1 / 6 as FP32 0x3E2AAAAB, every operation rounded to FP32. A block of
// zeros has SF 0 and codes 0 (8 for -0). A NaN in a block makes its SF NaN, so that it is not lost.
// Source: FlashInfer fb28d72, csrc/nv_internal/tensorrt_llm/kernels/quantization_utils.cuh, with
//   FLASHINFER_DISABLE_FP4_QUANT_FAST_MATH=1.
#pragma once

#include <vector>

#include "base/bytes.h"

namespace slicecheck::moe {

/// Rows of FP4 codes [rows, cols/2], low nibble first, and their scales E4M3 [rows, cols/16],
/// linear. A value is code times scale; the global factor is not in it.
struct Quantised {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  ByteVector codes;
  ByteVector scales;
};

/// `values` [rows, cols] quantised with global scale `global`; cols is a multiple of 16.
/// Law: Quantise.a_block_is_within_half_a_step
Quantised quantised(const std::vector<float>& values, std::int64_t cols, float global);

/// Row `row` as code times scale [cols], exact in FP32.
std::vector<float> row_values(const Quantised& from, std::int64_t row);

}  // namespace slicecheck::moe
