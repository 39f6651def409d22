#include <algorithm>

#include "moe/codes.h"
#include "properties/planted.h"

namespace slicecheck::properties {
namespace {

void scales_read_linear(const moe::CodeMatrix& from, std::int64_t row, std::span<float> out) {
  const std::int64_t blocks = from.cols / 16;
  for (std::int64_t i = 0; i < from.cols; ++i) {
    const std::uint8_t pair = from.codes[row * from.cols / 2 + i / 2];
    out[i] = moe::e2m1_value(static_cast<std::uint8_t>(pair >> (i % 2 * 4) & 15)) *
             moe::e4m3_value(from.scales[row * blocks + i / 16]);
  }
}

moe::Quantised scales_doubled(const std::vector<float>& values, std::int64_t cols, float global) {
  moe::Quantised made = moe::quantised(values, cols, global);
  for (std::uint8_t& scale : made.scales) scale = static_cast<std::uint8_t>(scale + 8);
  return made;
}

moe::Routing one_expert_forgotten(const moe::RoutingPlan& plan) {
  moe::Routing made = moe::covering(plan);
  std::replace(made.experts.begin(), made.experts.end(), 0, 1);
  return made;
}

moe::Routing all_alike(const moe::RoutingPlan& plan) { return moe::covering(plan); }

moe::Routing nobody_left_out(const moe::RoutingPlan& plan, std::int64_t, std::int64_t) {
  return moe::covering(plan);
}

// The gather without the select.
moe::RouteRows rows_not_selected(const moe::PermutedRows& permuted) {
  moe::PermutedRows clamped = permuted;
  for (std::int32_t& row : clamped.map) row = std::max(row, 0);
  moe::RouteRows made = moe::route_rows(clamped);
  made.local = moe::route_rows(permuted).local;
  return made;
}

// The sign of every row from `first` on.
moe::PermutedRows negated(moe::PermutedRows made, std::int64_t first, std::int64_t step) {
  for (std::int64_t row = first; row < made.rows.extents[0]; row += step) {
    for (std::int64_t h = 0; h < made.rows.extents[1]; ++h) moe::row_of(made, row)[h] ^= 0x8000;
  }
  return made;
}

moe::PermutedRows later_ranks_negated(const moe::OpExperts& from, std::int64_t experts,
                                      const moe::Quantised& hidden, const moe::Routing& routing,
                                      const moe::Placement& placement) {
  moe::PermutedRows made = moe::fused_rows(from, experts, hidden, routing, placement);
  return from.first > 0 ? negated(made, 0, 1) : made;
}

moe::PermutedRows odd_rows_negated(const moe::OpExperts& from, std::int64_t experts,
                                   const moe::Quantised& hidden, const moe::Routing& routing,
                                   const moe::Placement& placement) {
  return negated(moe::fused_rows(from, experts, hidden, routing, placement), 1, 2);
}

moe::PermutedRows without_g2_alphas(const moe::OpExperts& from, std::int64_t experts,
                                    const moe::Quantised& hidden, const moe::Routing& routing,
                                    const moe::Placement& placement) {
  const std::vector<float> ones(from.count, 1.0F);
  moe::OpExperts changed = from;
  changed.g2_alphas = reinterpret_cast<const std::uint8_t*>(ones.data());
  return moe::fused_rows(changed, experts, hidden, routing, placement);
}

reshard::RouteNorms blind(const std::vector<reshard::RankRow>& ranks, std::int64_t hidden) {
  reshard::RouteNorms made = reshard::norms_of(ranks, hidden);
  made.difference = 0;
  return made;
}

// Partial rows left out of the floor.
reshard::RouteNorms floor_of_two_roundings(const std::vector<reshard::RankRow>& ranks,
                                           std::int64_t hidden) {
  reshard::RouteNorms made = reshard::norms_of(ranks, hidden);
  for (const reshard::RankRow& rank : ranks) {
    for (std::int64_t h = 0; h < hidden; ++h) {
      const double ulp = reshard::bf16_ulp(rank.tp[h]);
      made.rounding -= ulp * ulp;
    }
  }
  return made;
}

double of_this_rank(group::Group& group, const reshard::ProbeRows& mine) {
  return reshard::probe_rel_l2(group, mine) + group.rank() * 1e-9;
}

template <typename Member, typename Function>
Planted planted(const char* name, const char* law, Member member, Function wrong) {
  Planted made{name, law, {}};
  made.subject.*member = wrong;
  return made;
}

}  // namespace

std::vector<Planted> planted_moe() {
  return {
      planted("scales read linear", "Decode.a_row_is_codes_times_the_scales_of_sf_offset",
              &Subject::decode_row, scales_read_linear),
      planted("scales doubled", "Quantise.a_block_is_within_half_a_step", &Subject::quantised,
              scales_doubled),
      planted("one expert forgotten", "Routing.covering_serves_every_expert", &Subject::covering,
              one_expert_forgotten),
      planted("skewed routes to all alike", "Routing.routes_go_where_they_must", &Subject::skewed,
              all_alike),
      planted("no rank left out", "Routing.routes_go_where_they_must", &Subject::without,
              nobody_left_out),
      planted("rows not selected", "Permute.route_rows_do_not_depend_on_tile_or_order",
              &Subject::route_rows, rows_not_selected),
      planted("rows of later ranks negated",
              "Op.ep_rows_summed_over_ranks_equal_tp_rows_within_the_floor", &Subject::fused_rows,
              later_ranks_negated),
      planted("odd rows negated", "Op.permuting_tokens_permutes_rows", &Subject::fused_rows,
              odd_rows_negated),
      planted("g2_alphas not applied", "Op.scaling_g2_alphas_by_a_power_of_two_scales_rows",
              &Subject::fused_rows, without_g2_alphas),
      planted("rows of later ranks negated in the exact probe",
              "Probe.exact_is_zero_over_the_reference_op", &Subject::fused_rows,
              later_ranks_negated),
      planted("differences not summed", "Probe.exact_sees_a_moved_tile_or_row_group_of_w13",
              &Subject::norms_of, blind),
      planted("partial rows left out of the floor", "Probe.floor_is_what_roundings_make",
              &Subject::norms_of, floor_of_two_roundings),
      planted("rel l2 by rank", "Probe.rel_l2_does_not_depend_on_padding_tile_order_or_rank",
              &Subject::probe_rel_l2, of_this_rank),
  };
}

}  // namespace slicecheck::properties
