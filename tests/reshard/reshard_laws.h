// What the reshard must do over any group: one list of laws, run over threads and over mpirun.
#pragma once

#include <string>
#include <vector>

#include "group/group.h"

namespace slicecheck::reshard {

/// A law by its name; all ranks run it together. Holds for every group of two ranks or more.
struct Law {
  std::string name;
  void (*run)(group::Group&);
};

std::vector<Law> laws();

}  // namespace slicecheck::reshard
