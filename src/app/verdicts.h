// What refusals and a run's surroundings become in the report.
#pragma once

#include "app/world.h"
#include "group/agree.h"
#include "report/report.h"

namespace slicecheck::app {

/// The part of a rank whose group refused: verdict refused or unusable, one finding a cause (each
/// refusing rank's sentence stands in it), or a failed check `input` where no cause has a name.
/// `first_rank` and `group_number` place the group in the world.
report::Report refused(const group::Refusal& refusal, int first_rank, int group_number);

/// The lines that stderr gets for this report: exactly one where it is refused or unusable.
std::vector<std::string> error_lines(const report::Report& report);

/// Versions of the program and of what it runs on.
report::Fields versions(const Place& place);

/// The environment by allow-list.
report::Fields environment();

}  // namespace slicecheck::app
