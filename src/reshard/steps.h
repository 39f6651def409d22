// What every way of the exchange is made of: the ranks' agreement on what is to be cut, the memory
// of a rank's result, the pack of a kind, the exchange of one or more, and the scalars of all
// experts.
#pragma once

#include <vector>

#include "experts/experts.h"
#include "group/group.h"

namespace slicecheck::reshard {

/// The shape of the experts that the ranks hold together, E of them. Collective over `group`.
/// Refuses together when: a rank's experts are unsupported, misplaced or without data; H, I or the
/// number of experts differ across ranks; a scale is not a finite positive normal number; a global
/// input scale differs across ranks in any bit; memory is out.
layout::Shape agreed_shape(const experts::StockExperts& stock, group::Group& group,
                           std::int64_t num_experts);

/// The scales of a rank's experts, brought to the host in one transfer: a1_gscale, a2_gscale, then
/// each derived scalar, [2 + 3 Er]. Refuses when: memory is out.
Result<std::vector<float>> scales_in_a_row(const experts::StockExperts& stock,
                                           memory::Space& space);

/// not_finite_positive() and check_global_scales() of scales_in_a_row(). The second is collective
/// over `group`.
Reason not_finite_positive(const experts::StockExperts& stock, const std::vector<float>& row);
Reason check_global_scales(const std::vector<float>& row, group::Group& group);

/// Room for one rank's tp experts in `space`, bytes not set.
/// Refuses when: memory is out.
Result<experts::TpExperts> allocated_tp(const layout::Shape& shape, memory::Space& space);

/// One kind on its way between the ranks: what a rank sends lies in `packed`, the own slice and
/// what others send in `received`.
struct Travel {
  layout::Kind kind = layout::Kind::w13;
  std::uint8_t* packed = nullptr;
  std::uint8_t* received = nullptr;
  std::int64_t block = 0;  // bytes of one rank's experts
};
Travel travel_of(const experts::TpExperts& tp, layout::Kind kind, std::uint8_t* packed,
                 const group::Group& group);

/// Packs a kind in `lane`, group.space() or the lane beside it. The rank's own slice goes straight
/// to its place: only what others hold travels.
void pack(const Travel& travel, const experts::StockExperts& stock, const group::Group& group,
          memory::Space& lane);

/// Brings each rank its slice of every expert, of these kinds by one call of `group`. Collective
/// over it.
void exchange(const std::vector<Travel>& travels, group::Group& group);

/// Every expert's scalars, in expert order, into `tp`. Collective over `group`.
void gather_scalars(experts::TpExperts& tp, const experts::StockExperts& stock,
                    group::Group& group);

}  // namespace slicecheck::reshard
