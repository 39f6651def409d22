// Mutants of a dump's files: scales that are absent or of other experts, tensors that nobody cut.
// Written to a folder and judged as `verify` judges them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experts/experts.h"
#include "report/report.h"

namespace slicecheck::app {

/// What the ranks of a group hand over.
struct DumpedGroup {
  std::vector<experts::StockExperts> stocks;
  std::vector<experts::TpExperts> tps;
};

/// One changed dump, and what must be said of it.
struct DumpMutant {
  std::string fault;                         // the row of the matrix it counts for
  std::string pattern;                       // side, tensor and rank in words
  std::function<void(DumpedGroup&)> change;  // before the files are written, or nothing
  std::string removed;                       // a tensor that the file then lacks, or ""
  report::Finding due;
};

/// All of them.
std::vector<DumpMutant> dump_mutants();

/// What is said of a mutant.
std::vector<report::Finding> said_of(const DumpMutant& mutant);

}  // namespace slicecheck::app
