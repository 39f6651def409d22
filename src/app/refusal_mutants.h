// Mutants of stocks that cannot be cut at all: their ranks refuse together, as in `reshard`, and
// the finding says on which rank the reason stands.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experts/experts.h"
#include "report/report.h"

namespace slicecheck::app {

/// The stocks of a group's ranks, changed, and what must be said of them.
struct RefusalMutant {
  std::string fault;    // the row of the matrix it counts for
  std::string pattern;  // what was changed, in words
  std::function<void(std::vector<experts::StockExperts>&)> plant;
  report::Finding due;
};

/// All of them.
std::vector<RefusalMutant> refusal_mutants();

/// What is said of a mutant, by ranks that are threads.
std::vector<report::Finding> said_of(const RefusalMutant& mutant);

}  // namespace slicecheck::app
