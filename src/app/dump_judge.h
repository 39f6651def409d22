// One group of a dump, judged: each process takes some of its ranks and finds evidence; whoever
// holds all of it names what is wrong.
#pragma once

#include <functional>

#include "app/command.h"
#include "app/dump_case.h"
#include "verify/evidence.h"

namespace slicecheck::app {

/// A group of a dump, and the ranks of it that this process takes.
struct Share {
  std::size_t dump = 0;
  std::int64_t group = 0;
  std::vector<std::int64_t> ranks;  // of the group
};

/// The shares of process `rank` of `size`: the dumps' ranks are dealt out one after the other.
/// Every group of every dump has a share, an empty one where this process takes none of it.
std::vector<Share> shares_of(const std::vector<DumpCase>& dumps, int rank, int size);

/// What this process found of one share: evidence to be joined with the others', and the checks and
/// findings that stand for themselves.
struct SharePart {
  verify::Evidence evidence;
  report::Report report;
};

/// Judges a share.
/// Refuses when: a file is wrong or cannot be read (unusable).
/// Cost: the dump's files once; in memory a few experts, and one rank's block scales.
Result<SharePart> judged_share(const DumpCase& dump, const Share& share, Progress& progress);

/// The checks and findings of a group by all its evidence. `due` as due_scalars() says; `moved` is
/// called as the naming goes on.
report::Report judged_group(const DumpCase& dump, std::int64_t group,
                            const verify::Evidence& evidence,
                            const std::optional<verify::DueScalars>& due,
                            const std::function<void()>& moved = {});

}  // namespace slicecheck::app
