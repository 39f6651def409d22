// The scalars of a layer: bits that a reshard moves, relations inside a stock, the values that
// payload or checkpoint give, and the first expert that each rank declares.
#pragma once

#include "verify/placement.h"
#include "verify/scalar_flaw.h"

namespace slicecheck::verify {

/// Findings of the scalars and of the placement that ranks declare. `orders` says which experts'
/// bytes the slots hold: their scalars belong with them.
std::vector<report::Finding> scalar_findings(const Subject& subject, const Evidence& evidence,
                                             const Orders& orders);

/// True for a cause that refuses (exit code 3) when it is found in the stock.
bool refuses(const report::Finding& finding);

}  // namespace slicecheck::verify
