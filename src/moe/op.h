// The fused NVFP4 expert op on converted weights, on the host, written to be read:
//   x0, x1 = up and gate row . hidden         codes times block scales, no global factor
//   y      = g1_scale_c x0 g sigmoid(g), g = g1_alphas x1      (a2_gscale up silu(gate))
//   y'     = y quantised every 16 channels; the global factor a2_gscale is inside y already
//   row    = bf16(g2_alphas (w2 row . y'))    one row a route, not weighted by its route
// Sums are FP32 in the one order of dot(); sigmoid is computed without libm. So a rank's slice of
// y' is, bit for bit, that slice of the whole expert's y', and EP and TP differ by GEMM2's rounding
// only. Source: FlashInfer fb28d72, csrc/trtllm_fused_moe_runner.cu and its reference tests.
#pragma once

#include "experts/experts.h"
#include "moe/decode.h"
#include "moe/permute.h"
#include "moe/quantise.h"

namespace slicecheck::moe {

/// Converted experts in host memory, of a stock (Er experts from `first`, I) or of tp (all E, I').
/// Views the record's tensors, which have to outlive it.
struct OpExperts {
  layout::Widths widths;
  std::int64_t first = 0;
  std::int64_t count = 0;
  const std::uint8_t* w13 = nullptr;
  const std::uint8_t* w13_sf = nullptr;
  const std::uint8_t* w2 = nullptr;
  const std::uint8_t* w2_sf = nullptr;
  const std::uint8_t* g1_alphas = nullptr;   // f32 [count]
  const std::uint8_t* g1_scale_c = nullptr;  // f32 [count]
  const std::uint8_t* g2_alphas = nullptr;   // f32 [count]
};

/// Checked by experts::unsupported().
OpExperts op_experts(const experts::StockExperts& stock);
OpExperts op_experts(const experts::TpExperts& tp);

/// 1 / (1 + exp(-x)), from IEEE additions, multiplications and divisions alone: the same bits on
/// every machine, within 1 FP32 ulp of the exact value.
float sigmoid(float x);

/// GEMM1, SwiGLU and requantisation of one expert (a global number) for the tokens of `routes`:
/// [routes, I] of these widths.
Quantised intermediate_of(const OpExperts& from, std::int64_t expert, const Quantised& hidden,
                          const std::vector<std::int64_t>& tokens);

/// GEMM2 of one expert: BF16 rows [y.rows, H].
std::vector<std::uint16_t> rows_of(const OpExperts& from, std::int64_t expert, const Quantised& y);

/// Writes the op's rows of one expert's routes to their places among `rows`.
void write_rows(PermutedRows& rows, const OpExperts& from, std::int64_t expert,
                const Quantised& hidden, const Routing& routing);

/// The op's rows of every route whose expert is among `from`, in permuted order, of `experts` in
/// all. Only experts with routes are read. Checked by unroutable(). Law:
/// Op.ep_rows_summed_over_ranks_equal_tp_rows_within_the_floor
PermutedRows fused_rows(const OpExperts& from, std::int64_t experts, const Quantised& hidden,
                        const Routing& routing, const Placement& placement);

}  // namespace slicecheck::moe
