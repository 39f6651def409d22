// The scalars of a layer: bits that a reshard moves, relations inside a stock, the values that
// payload or checkpoint give.
#pragma once

#include "verify/placement.h"
#include "verify/wrong_scalar.h"

namespace slicecheck::verify {

/// The scalars that are not what they must be. `orders` says which experts' bytes the slots hold:
/// their scalars belong with them.
std::vector<WrongScalar> wrong_scalars(const Subject& subject, const Evidence& evidence,
                                       const Orders& orders);

/// True for a cause that refuses (exit code 3) when it is found in the stock.
bool refuses(const report::Finding& finding);

}  // namespace slicecheck::verify
