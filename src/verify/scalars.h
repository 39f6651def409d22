// The scalars of a layer: bits that a reshard moves, relations inside a stock, the values that
// payload or checkpoint give, and the first expert that each rank declares.
#pragma once

#include "verify/placement.h"
#include "verify/wrong_scalar.h"

namespace slicecheck::verify {

/// The scalars that are not what they must be. `orders` says which experts' bytes the slots hold:
/// their scalars belong with them.
std::vector<WrongScalar> wrong_scalars(const Subject& subject, const Evidence& evidence,
                                       const Orders& orders);

/// Adds the finding of ranks that declare another first expert than linear placement has.
void add_declared(const Subject& subject, const Evidence& evidence,
                  std::vector<report::Finding>& made);

/// True for a cause that refuses (exit code 3) when it is found in the stock.
bool refuses(const report::Finding& finding);

}  // namespace slicecheck::verify
