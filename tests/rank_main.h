// What the rank tests share: a main that runs one GoogleTest program as every rank of a launch. All
// ranks run the same tests in the same order, and leave with one verdict: failed when any has
// failed.
#pragma once

#include "group/mpi/mpi_group.h"

namespace slicecheck {

/// The session of this test program.
group::Session& rank_session();

/// All ranks of the launch.
group::Group& rank_group();

}  // namespace slicecheck
