// The words of a finding: one sentence with the numbers, its first wrong place and what else fits.
#pragma once

#include "verify/wrong_scalar.h"

namespace slicecheck::verify {

/// What a finding is about: tensors, at least one, in order of rank and expert; and scalars that
/// the same mistake changed.
struct Members {
  std::vector<const WrongTensor*> tensors;
  std::vector<WrongScalar> scalars;
};

/// Fills text, explained, also_possible and first of `made`; its cause, side, tensors, ranks and
/// experts are set.
void say(const Subject& subject, Cause cause, const Members& members, report::Finding& made);

/// "all ranks", "rank 2", "ranks 0, 2": global numbers; at most a few, then "and N more".
std::string listed(std::string_view one, std::string_view many, const std::vector<int>& numbers);

/// "all experts", "expert 4", ...
std::string listed_experts(const std::vector<std::int64_t>& experts);

}  // namespace slicecheck::verify
