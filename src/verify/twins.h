// A stock that is taken as true and yet cannot be: two of its experts have the same bytes, and the
// tp experts, cut from something better, have not.
#pragma once

#include "verify/name.h"

namespace slicecheck::verify {

/// Replaces the tp tensors that nothing explains on any rank, where the stock that they should be
/// cut from is byte for byte one other expert's, by what is wrong: the stock's tensor, which holds
/// that other expert.
void name_twins(const Subject& subject, std::vector<WrongTensor>& wrong);

}  // namespace slicecheck::verify
