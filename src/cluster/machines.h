// The ranks' machines held against each other and against what a run of so many ranks needs: what
// differs where all must be alike, and which limits end a run. What only slows a run is a warning.
#pragma once

#include <vector>

#include "cluster/machine.h"
#include "cluster/said.h"

namespace slicecheck::cluster {

/// launch.hosts, launch.versions, limits.files, limits.locked, limits.shared, limits.processors, in
/// this order. `machines` by rank; `moved_bytes` is what a rank sends and receives at once, all of
/// which an RDMA device locks; on one host it need not be used. Threads of one process need none of
/// what a process does: no file, no lock, no shared memory.
std::vector<Said> of_machines(const std::vector<Machine>& machines, std::int64_t moved_bytes,
                              bool threads = false);

/// devices.near: whether each rank runs near its GPU. Skipped where no rank has one, or where the
/// system does not say where they are.
Said near_devices(const std::vector<Machine>& machines);

}  // namespace slicecheck::cluster
