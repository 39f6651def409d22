// Ranks as threads of one process, over host memory: the group of a run without mpirun, and the
// simulator in which the laws of groups are tried.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "group/group.h"

namespace slicecheck::group {

/// How many ranks, and how long one waits for the others in a collective (default: for ever).
struct LocalRun {
  int ranks = 1;
  std::optional<std::chrono::milliseconds> wait_limit = {};
};

/// What each rank does.
using RankBody = std::function<void(Group&)>;

/// Runs `body` once a rank, each on its own thread with its own Group, and waits for all of them.
///
/// A rank that ends by an exception breaks the group, as does one that returns while others wait
/// for it, or for which others wait longer than the limit: whoever waits is woken and gets Lost.
/// Ends as: returns when every rank did; the Refusal, once, when the ranks refused together; Lost
/// with the rank and its text when a rank failed on its own.
void run_local(const LocalRun& run, const RankBody& body);

}  // namespace slicecheck::group
