// Mutants of a probe: rows of routes that are absent, doubled, broken or wrong, on layers that are
// healthy, judged as `reshard` and `verify` judge theirs.
#pragma once

#include "app/mutant_probe.h"
#include "report/report.h"

namespace slicecheck::app {

/// One probe whose rows are changed, and what must be said of it.
struct ProbeMutant {
  std::string fault;    // the row of the matrix it counts for
  std::string pattern;  // rows in words
  layout::Payload payload;
  RowsFault plant;
  report::Finding due;
};

/// All of them, for the random and the exact probe.
std::vector<ProbeMutant> probe_mutants();

/// What is said of a mutant's rows.
std::vector<report::Finding> said_of(const ProbeMutant& mutant, MutantProbe& probe);

}  // namespace slicecheck::app
