// What the ranks' tp scalars must be where no stock says it: all of them are the moved bits of one
// stock, so a rank that has other bits than most is wrong, however near to the checkpoint it is.
#pragma once

#include "verify/evidence.h"

namespace slicecheck::verify {

/// The values of a scalar [E] that the ranks' tp values must have, bit for bit. Per expert: what
/// most ranks have of what is within `tolerance` ulp of `due`, of equally many the nearest to it;
/// `due` where no rank has such a value.
std::vector<float> agreed_scalars(const Evidence& evidence, experts::Scalar scalar,
                                  const std::vector<float>& due, std::int64_t tolerance);

}  // namespace slicecheck::verify
