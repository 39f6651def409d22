// This rank's tp experts against what they must be: bytes by the payload rule or by a slice read
// from the checkpoint and converted, scalars by their bits. A difference is placed and named.
#pragma once

#include "app/source.h"
#include "experts/experts.h"
#include "report/report.h"

namespace slicecheck::app {

/// The tp experts of one rank.
struct JudgedTp {
  const experts::TpExperts& tp;
  int rank = 0;         // of the group: the slice
  int global_rank = 0;  // in the launch
  int group_number = 0;
};

/// The checks bytes.* and scalars.* of this rank, and its findings.
/// Refuses when: the checkpoint's slices cannot be read, memory is out.
/// Cost: one expert's slice beside the tensors; where bytes differ, the tensors on the host.
Result<report::Report> judged(const JudgedTp& judged, const Source& source, memory::Space& space,
                              Progress& progress);

}  // namespace slicecheck::app
