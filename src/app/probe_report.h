// What probes become in a report: checks, findings and the probes' numbers. Ranks are numbered in
// the launch, so the group's place in it is given.
#pragma once

#include "report/report.h"
#include "reshard/probe_run.h"

namespace slicecheck::app {

/// Where a probe's group lies in the launch, and the layer.
struct ProbePlace {
  int group_number = 0;
  std::vector<int> ranks;  // of the group, by their number in the launch
  std::int64_t layer = 0;
};

/// Checks probe.routes, probe.KIND and control.KIND.TENSOR, with their findings and numbers: of the
/// whole group, so one rank's part of the report.
report::Report probe_report(const std::vector<reshard::Probed>& probes, const ProbePlace& place);

/// True where something of the bytes is wrong and has its name: what a probe sees of that is no
/// second finding.
bool is_named(const std::vector<report::Finding>& findings);

/// Leaves out the findings that wrong bytes alone can make, of numbers and not of routes. The
/// checks stay failed.
void drop_consequences(report::Report& probe);

}  // namespace slicecheck::app
