// The numeric probe: the route rows of expert-parallel experts against the tensor-parallel ones'
// summed over the ranks, as the seed compares them, and judged more strictly. Every rank sums and
// compares a share of the routes in FP64; the norms of all routes meet on every rank, so that each
// takes the same verdict from the same bits.
// Source: the seed, probe_rel_l2.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "group/group.h"
#include "moe/permute.h"

namespace slicecheck::reshard {

/// One rank's rows of a layer: of its own experts (EP) and of its slice of all experts (TP).
struct ProbeRows {
  moe::PermutedRows ep;
  moe::PermutedRows tp;
};

/// What is known of one route once all ranks' rows met. want: its EP row. got: the TP rows summed
/// in FP32 in rank order, rounded once to BF16. Ranks are -1 where there is none.
struct RouteNorms {
  double difference = 0;  // sum of (got - want)^2
  double want = 0;        // sum of want^2
  double rounding = 0;    // sum of ulp^2 over want, every rank's TP row, and got
  std::int32_t ep_ranks = 0;
  std::int32_t ep_first = -1;   // the lowest rank that serves it
  std::int32_t ep_second = -1;  // and the next
  std::int32_t tp_ranks = 0;
  std::int32_t tp_missing = -1;     // the lowest rank whose TP rows lack it
  std::int32_t not_finite_ep = -1;  // the lowest rank with a NaN or infinity in its served row
  std::int32_t not_finite_tp = -1;
  std::int32_t sum_not_finite = 0;  // 1: finite rows whose sum is not
};

/// The spacing of BF16 at a rounded value: 2^(floor(log2 |x|) - 7), 0 at 0, infinite
/// where the value is no finite number.
double bf16_ulp(std::uint16_t bits);

/// One route's rows on every rank [size], each BF16 [H]; null where a rank does not serve it.
struct RankRow {
  const std::uint16_t* ep = nullptr;
  const std::uint16_t* tp = nullptr;
};
RouteNorms norms_of(const std::vector<RankRow>& ranks, std::int64_t hidden);

/// Why the ranks' rows are not of one probe: unreadable rows, or other routes or widths than rank
/// 0's. Nothing is trusted.
Reason unequal(const std::vector<ProbeRows>& ranks);

/// Every route's norms from all ranks' rows in one process. Checked by unequal().
std::vector<RouteNorms> route_norms(const std::vector<ProbeRows>& ranks);

/// The same from each rank's own rows; the same bits on every rank. Collective over `group`.
/// Checked by unequal(), for any two ranks.
/// Refuses when: memory is out.
/// Cost: one all-to-all of 4 H bytes a route and rank; one share of the norms.
std::vector<RouteNorms> route_norms(group::Group& group, const moe::RouteRows& ep,
                                    const moe::RouteRows& tp);

/// The seed's probe: rel L2 over all routes of EP rows against TP rows summed over the ranks (FP32
/// sum in rank order, one BF16 rounding, FP64 norms). NaN where rows are, or nothing is compared.
/// Collective over `group`; the same value on every rank.
/// Refuses when: the ranks' rows are not of one probe; a rank's TP rows lack a route.
/// Law: Probe.rel_l2_does_not_depend_on_padding_tile_order_or_rank
double probe_rel_l2(group::Group& group, const ProbeRows& mine);

/// The same from norms at hand.
double rel_l2_of(const std::vector<RouteNorms>& routes);

}  // namespace slicecheck::reshard
