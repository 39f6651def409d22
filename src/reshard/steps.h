// What every way of the exchange begins and ends with: the ranks' agreement on what is to be cut,
// the memory of a rank's result, and the scalars of all experts.
#pragma once

#include "experts/experts.h"
#include "group/group.h"

namespace slicecheck::reshard {

/// The shape of the experts that the ranks hold together, E of them. Collective over `group`.
/// Refuses together when: a rank's experts are unsupported, misplaced or without data; H, I or the
/// number of experts differ across ranks; a scale is not a finite positive normal number; a global
/// input scale differs across ranks in any bit; memory is out.
layout::Shape agreed_shape(const experts::StockExperts& stock, group::Group& group,
                           std::int64_t num_experts);

/// Room for one rank's tp experts in `space`, bytes not set.
/// Refuses when: memory is out.
Result<experts::TpExperts> allocated_tp(const layout::Shape& shape, memory::Space& space);

/// Every expert's scalars, in expert order, into `tp`. Collective over `group`.
void gather_scalars(experts::TpExperts& tp, const experts::StockExperts& stock,
                    group::Group& group);

}  // namespace slicecheck::reshard
