// Wrong copies of what the laws are about, for the tests of the laws alone: the program never links
// them. Each is one mistake of one function.
#pragma once

#include <string>
#include <vector>

#include "properties/law.h"

namespace slicecheck::properties {

/// A mistake and the law that must catch it.
struct Planted {
  std::string name;
  std::string law;
  Subject subject;
};

/// Mistakes of the maps, the moves and the cut; of what ranks do together; of op and probe; of what
/// lies in files and is said of faults.
std::vector<Planted> planted_maps();
std::vector<Planted> planted_groups();
std::vector<Planted> planted_moe();
std::vector<Planted> planted_files();

}  // namespace slicecheck::properties
