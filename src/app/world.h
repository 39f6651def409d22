// The ranks of this run: threads of this process, or the processes of the launch. Built twice, with
// MPI and without; the build picks the file.
#pragma once

#include <functional>
#include <string>

#include "app/options.h"
#include "group/group.h"

namespace slicecheck::app {

/// What a rank knows of its launch beside its group.
struct Place {
  std::string host;
  std::string mpi_version;  // empty without MPI
  int host_rank = 0;        // among the ranks of its host
  int host_ranks = 1;
};

/// What each rank does: the exit code, the same on all ranks.
using RankMain = std::function<int(group::Group& world, const Place& place)>;

/// Runs `body` on every rank of the launch over MPI and returns its exit code.
/// Refuses when: MPI is not built in.
Result<int> run_over_mpi(const RankMain& body);

/// Runs `body` on `ranks` threads of this process and returns rank 0's exit code.
int run_local_ranks(int ranks, const RankMain& body);

/// The name of this host.
std::string host_name();

}  // namespace slicecheck::app
