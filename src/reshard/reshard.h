// The reshard: each rank's tp experts out of the whole experts that the ranks hold. The cut is
// free: slice d of a converted tensor is the converted slice d, so a rank packs slice d of its
// experts for rank d, one all-to-all a tensor kind brings each rank its slice of every expert, and
// what arrives is the final tensor, experts in global order. Source: the seed, reshard_nvfp4 and
// check_global_scales.
#pragma once

#include <string_view>

#include "experts/experts.h"
#include "group/group.h"

namespace slicecheck::reshard {

/// What stands before the sentence of every refusal.
inline constexpr std::string_view refusal = "Expert TP cannot reshard the stock experts";

/// This rank's tp experts of one layer, from every rank's stock (EP over `group`, linear
/// placement). Collective over `group`; stock and result lie in group.space(), the stock stays as
/// it is.
///
///   stock.w13     u8    [Er, 2I, H/2]          ->  w13     [E, 2I', H/2]
///   stock.w13_sf  e4m3  [Er, 2I, H/16], 128x4  ->  w13_sf  [E, 2I', H/16], 128x4
///   stock.w2      u8    [Er, H, I/2]           ->  w2      [E, H, I'/2]
///   stock.w2_sf   e4m3  [Er, H, I/16], 128x4   ->  w2_sf   [E, H, I'/16], 128x4
///
/// Refuses when: a rank's experts are unsupported, misplaced or without data; H, I or the number of
/// experts differ across ranks; a scale is not a finite positive normal number; a global input
/// scale differs across ranks in any bit; memory is out. All ranks refuse together, whatever is
/// wrong. Cost: one all-to-all a kind (of what others hold), three all-gathers; one packed tensor,
/// of the largest kind, beside stock and result.
experts::TpExperts reshard_nvfp4(const experts::StockExperts& stock, group::Group& group,
                                 std::int64_t num_experts);

/// The same result and refusals. The scales travel first, both kinds by one call of the group;
/// while one call's bytes travel, the next one's are packed in the second lane of group.space().
/// Collective over `group`. Cost: what reshard_nvfp4() moves, by three calls for its four; a packed
/// tensor of each kind beside stock and result. Where the space has one lane, no time is won.
experts::TpExperts streamed_nvfp4(const experts::StockExperts& stock, group::Group& group,
                                  std::int64_t num_experts);

/// Why this rank's global input scales (a1_gscale, a2_gscale) are not the finite positive number,
/// bit for bit, that the ranks share; or nothing. A rank whose own scale is no such number says so;
/// where all are, those of the minority do, and where two values are held equally often, those that
/// do not hold the lowest rank's. To be agreed. Collective over `group`. Checked by
/// experts::unsupported(): each is F32 [1].
Reason check_global_scales(const experts::StockExperts& stock, group::Group& group);

/// Why a scale of the experts, global or derived, is not a finite positive normal number; or
/// nothing. Checked by experts::unsupported(): types and extents.
Reason not_finite_positive(const experts::StockExperts& stock, memory::Space& space);

}  // namespace slicecheck::reshard
