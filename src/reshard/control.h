// Controls: a numeric check counts only if planted damage was seen in the same run. Each changes
// the tp weights of one expert that the probe reads, and is judged by the probe's own rule:
//   scale_tiles  k-tiles (64 channels, numbered over all of I, so also across ranks) a + 2i and
//                a + 2i + 1 of w2_sf exchanged, i < p
//   gate_rows    gate and up rows of the channels of tiles a + i exchanged in w13 and w13_sf, i < p
// with a the first tile, numbers modulo I / 64, and p = 1, 2, 4, ... until the damage predicted
// from the weights is at least 4 bounds of the expert's healthy rows:
//   sqrt(sum over routes, h, c of (d(w2[h, c] y[c]))^2 g2_alphas^2 / sum want^2)
#pragma once

#include "moe/op.h"
#include "reshard/judge.h"

namespace slicecheck::reshard {

enum class Damage { scale_tiles, gate_rows };

/// "control.*": "w2_sf" and "w13", after the tensors that are changed.
std::string_view name(Damage damage);

/// What a control is planted in: this rank's tp experts and the healthy probe around it. `expert`
/// is the first with routes, `healthy` its norms, `ep` this rank's EP rows by route.
struct ControlInput {
  const moe::OpExperts& tp;
  const moe::Quantised& hidden;
  const moe::Routing& routing;
  const moe::RouteRows& ep;
  ProbeRule rule;
  std::int64_t expert = 0;
  Norms healthy;
  std::int64_t first_tile = 0;  // a
};

/// What came of one control.
struct Control {
  Damage damage = Damage::scale_tiles;
  std::int64_t expert = 0;
  std::int64_t tiles = 0;  // p
  double predicted = 0;
  double needed = 0;  // 4 bounds of the healthy rows; above 0 for an exact probe
  double rel_l2 = 0;  // of the damaged rows
  double bound = 0;
  bool seen = false;  // predicted well above the bound, and judged wrong
};

/// Plants one control and judges it. The tp experts stay as they are. Collective over `group`; the
/// same on every rank.
/// Cost: one expert's tensors beside the rank's; 2 p broadcasts of a tile, one probe of its routes.
Control control(group::Group& group, const ControlInput& input, Damage damage);

/// One expert's tp tensors of this rank, to be changed.
struct TpExpert {
  std::int64_t expert = 0;
  layout::Widths widths;
  ByteVector w13;
  ByteVector w13_sf;
  ByteVector w2;
  ByteVector w2_sf;
  ByteVector scalars;  // f32: g1_alphas, g1_scale_c, g2_alphas
};

TpExpert tp_expert(const moe::OpExperts& from, std::int64_t expert);

/// The op's view of it.
moe::OpExperts op_experts(const TpExpert& from);

/// Exchanges k-tiles `a` and `b` of w2_sf, numbered over all ranks' slices. Collective over
/// `group`.
void exchange_scale_tiles(group::Group& group, TpExpert& expert, std::int64_t a, std::int64_t b);

/// Exchanges the gate and up rows of the 64 channels of a tile of this rank's slice, weights and
/// block scales: 128 rows of w13, one m-tile of w13_sf.
void exchange_gate_rows(TpExpert& expert, std::int64_t tile);

}  // namespace slicecheck::reshard
