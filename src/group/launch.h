// Whether a launcher started this process as one of several ranks, told by what launchers put into
// the environment: asked before MPI is initialised, and in a build that has none.
#pragma once

#include <optional>
#include <string>

namespace slicecheck::group {

/// Who started the ranks, and how many of them.
struct Launch {
  std::string by;  // "Open MPI", "PMI" (MPICH, Intel MPI) or "Slurm"
  int ranks = 0;
  int rank = 0;
};

/// The launch that this process is a rank of, or nothing.
std::optional<Launch> launch();

}  // namespace slicecheck::group
