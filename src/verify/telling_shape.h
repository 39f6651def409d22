// Causes that give the same bytes on one shape, and another shape on which they do not.
#pragma once

#include <string_view>

#include "verify/wrong_tensor.h"

namespace slicecheck::verify {

/// "T1 (E 6, H 640, I 384, tp 3)" or "T2 (E 6, H 384, I 640, tp 2)": the first of them, other than
/// the case's own, on which what `wrong` did gives other bytes than every map of each cause of
/// `also`. Empty where neither does, and where a cause is no map of rows: no shape tells these.
std::string_view telling_shape(const Case& layer, const WrongTensor& wrong, Causes also);

}  // namespace slicecheck::verify
