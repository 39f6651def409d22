// This rank's tp experts against what they must be: bytes by the payload rule or by a slice read
// from the checkpoint and converted, scalars by their bits. What differs is evidence, and whoever
// holds the evidence of all ranks of a group names it.
#pragma once

#include "app/source.h"
#include "experts/experts.h"
#include "report/report.h"
#include "verify/name.h"

namespace slicecheck::app {

/// The experts of one rank, as an engine was given them and as it made them.
struct JudgedRank {
  const experts::StockExperts& stock;
  const experts::TpExperts& tp;
  int rank = 0;  // of the group: the slice
  int group_number = 0;
};

/// What one rank's comparison gave.
struct Compared {
  std::vector<report::Check> checks;
  verify::Evidence evidence;
};

/// The checks bytes.* and scalars.* of this rank, and the evidence of what differs.
/// Refuses when: the checkpoint's slices cannot be read, memory is out.
/// Cost: one expert's slice beside the tensors.
Result<Compared> compared(const JudgedRank& judged, const Source& source, memory::Space& space,
                          Progress& progress);

/// The ids of those checks.
std::string bytes_check(layout::Kind kind);
std::string scalars_check(experts::Scalar scalar);

/// What is said of a group's evidence on its first rank, nothing on the others. Collective over the
/// group.
verify::Judgement named(const Context& context, const Source& source, const verify::Evidence& mine);

}  // namespace slicecheck::app
