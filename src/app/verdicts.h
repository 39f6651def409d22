// What refusals and a run's surroundings become in the report.
#pragma once

#include "app/world.h"
#include "group/agree.h"
#include "report/report.h"

namespace slicecheck::app {

/// A rank of the world, and its place in a tp group.
struct RankPlace {
  int rank = 0;
  int group_number = 0;
  int rank_in_group = 0;
  int world_size = 0;
};

/// The part of a rank whose group, or the world, refused: verdict refused or unusable; where this
/// rank has a reason of its own, a finding of its cause, or a failed check `input` where the cause
/// has no name in the catalogue of faults.
report::Report refused(const group::Refusal& refusal, const RankPlace& rank);

/// The lines that stderr gets for this report: exactly one where it is refused or unusable.
std::vector<std::string> error_lines(const report::Report& report);

/// Versions of the program and of what it runs on.
report::Fields versions(const Place& place);

/// The environment by allow-list.
report::Fields environment();

/// One line on standard error, the program's name before it. Whatever file or option is in it, it
/// stays one line and harmless; that nobody takes it is no reason to end.
void complain(std::string_view line);

/// A stream that is closed must not become the report's file, nor may a reader that has gone end
/// the program unheard: what is written to standard output then fails, and is told.
void guard_streams();

/// Why standard output does not take this text, or nothing.
Reason printed(const std::string& text);

/// The same for a command without ranks: `code`, or 5 and a line on stderr.
int said(const std::string& text, int code);

/// The id of the check that a finding about `tensor` fails.
std::string check_failed_by(const report::Finding& finding, const std::string& tensor);

}  // namespace slicecheck::app
