// What every group must do, whatever carries its bytes: one list of laws, run over each backend.
#pragma once

#include <string>
#include <vector>

#include "group/group.h"

namespace slicecheck::group {

/// A law by its name; all ranks run it together.
struct Conformance {
  std::string name;
  void (*run)(Group&);
};

std::vector<Conformance> conformances();

}  // namespace slicecheck::group
