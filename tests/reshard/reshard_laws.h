// What the reshard must do over any group: one list of laws, run over threads and over mpirun.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "group/group.h"

namespace slicecheck::reshard {

/// A law by its name; all ranks run it together. Holds for every group of two ranks or more.
struct Law {
  std::string name;
  std::function<void(group::Group&)> run;
};

std::vector<Law> laws();

}  // namespace slicecheck::reshard
