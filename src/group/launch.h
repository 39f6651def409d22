// Whether a launcher started this process as one of several ranks, told by what launchers put into
// the environment: asked before MPI is initialised, and in a build that has none.
#pragma once

#include <optional>
#include <string>

#include "base/reason.h"

namespace slicecheck::group {

/// Who started the ranks, and how many of them.
struct Launch {
  std::string by;  // "Open MPI", "PMI" (MPICH, Intel MPI) or "Slurm"
  int ranks = 0;
  int rank = 0;
  std::string name;  // on this host, where all its ranks are here and it has one; else empty
};

/// The launch that this process is a rank of, or nothing.
std::optional<Launch> launch();

/// Why this process is a world of its own, of `world_size` 1, though a launcher started several:
/// one of another MPI (cause world-of-one); or nothing.
Reason alone(int world_size);

/// Why a lost rank would not end this launch, or nothing: the launcher has been told to go on
/// without it, and returns 0 whatever its ranks return.
Reason forgiving();

}  // namespace slicecheck::group
