#include "layout/shape.h"

#include <fmt/format.h>

namespace slicecheck::layout {

Reason unsupported(const Shape& shape) {
  if (shape.tp < 2 || shape.intermediate % shape.tp != 0) {
    return Reason(
        fmt::format("intermediate {} does not split {} ways", shape.intermediate, shape.tp),
        "shape-unsupported");
  }
  if (shape.slice() % slice_multiple != 0 || shape.hidden % hidden_multiple != 0) {
    return Reason(fmt::format("intermediate slice {} and hidden {} must be multiples of {} and {}",
                              shape.slice(), shape.hidden, slice_multiple, hidden_multiple),
                  "shape-unsupported");
  }
  return {};
}

}  // namespace slicecheck::layout
