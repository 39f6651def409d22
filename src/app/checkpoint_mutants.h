// Mutants of checkpoints: scales and experts that are absent, do not fit or are none, and configs
// that say other than the tensors, written as files of each format, read back and judged as `audit`
// judges them; those that a cut meets too, as `reshard` and `verify` do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/write.h"
#include "report/report.h"

namespace slicecheck::app {

/// One changed layer of a checkpoint, and what must be said of it.
struct CheckpointMutant {
  std::string fault;    // the row of the matrix it counts for
  std::string pattern;  // format, tensor, experts in words
  checkpoint::Format format = checkpoint::Format::modelopt;
  std::function<void(checkpoint::WrittenLayer&)> plant;
  report::Finding due;
  bool cut = false;  // judged where its experts are cut, not by an audit
};

/// All of them.
std::vector<CheckpointMutant> checkpoint_mutants();

/// What is said of a mutant.
std::vector<report::Finding> said_of(const CheckpointMutant& mutant);

}  // namespace slicecheck::app
