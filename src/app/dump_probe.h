// The probe of a dump: the rows that a real kernel left on every rank of a group, judged by the
// seed's rel L2 and the floor of these very rows. No op of this program and no control enters.
#pragma once

#include "checkpoint/manifest.h"
#include "report/report.h"
#include "reshard/judge.h"

namespace slicecheck::app {

/// One group of a dump folder with probe files.
struct DumpProbe {
  std::string folder;
  const checkpoint::Manifest& manifest;
  std::int64_t group = 0;
  std::int64_t layer = 0;
  std::int64_t first_group = 0;  // in the report
};

/// Checks probe.routes and probe.KIND of the group with findings and numbers; KIND is exact where
/// the manifest's payload is, and the floor rule holds there too: the op is the engine's own.
/// Verdicts per expert need topk_ids. Refuses when: a file cannot be read, lacks a tensor or holds
/// another than the format says, the ranks' routes or topk_ids differ (all unusable); the Reason
/// names file and field. Cost: the rows of all ranks of the group in memory.
Result<report::Report> dump_probe_report(const DumpProbe& dump,
                                         const std::optional<double>& rel_l2_max);

}  // namespace slicecheck::app
