// A command is one function that runs on every rank. It returns what this rank found; the program
// gathers the parts, takes the verdict, writes the report and ends every rank with the same code.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/options.h"
#include "app/world.h"
#include "engine/engine.h"
#include "group/group.h"
#include "group/watch/notes.h"
#include "report/report.h"

namespace slicecheck::properties {
struct Subject;
}  // namespace slicecheck::properties

namespace slicecheck::app {

/// Where a run is, for whoever waits: a status line on rank 0's terminal after a few seconds, and
/// the time that each phase took.
class Progress {
 public:
  Progress(bool shown, group::Notes& notes);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The run enters a phase; the one before ends.
  void phase(const std::string& name);

  /// A step that is not worth a line: a tensor read, an expert made.
  void moved() { notes_.step(); }

  /// `done` of `all` steps of the phase have been made.
  void step(std::int64_t done, std::int64_t all);

  /// The last phase ends; seconds by phase, in order.
  std::vector<std::pair<std::string, double>> timings();

  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  void show(const std::string& line);

  bool shown_ = false;
  group::Notes& notes_;
  bool visible_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point phase_start_ = start_;
  Clock::time_point last_shown_ = start_;
  std::string phase_;
  std::vector<std::pair<std::string, double>> timings_;
};

/// What a command is given on each rank. `group` is the tp group of --tp (the world by default).
struct Context {
  group::Group& world;
  group::Group& group;
  int group_number = 0;
  const Options& options;
  const Place& place;
  Progress& progress;
  const engine::Lookup& engines;
  const properties::Subject& subject;                // what the laws are about
  std::function<void(const report::Report&)> keep;   // what is found so far, for the journal
  std::function<void(const report::Report&)> stuck;  // ends the run: what this rank found last
  std::function<std::unique_ptr<group::Group>()> devices;  // the tp group over NCCL; collective

  int first_rank() const { return group_number * group.size(); }  // of the group, in the world

  /// The same with other options, which outlive it.
  Context with(const Options& other) const {
    return {world,   group,   group_number, other, place,  progress,
            engines, subject, keep,         stuck, devices};
  }
};

/// What this rank found. Collective over context.world; refuses by refuse_together() over the group
/// or the world; `run_case` is filled by every rank alike, `ranks` with its own entry.
using CommandBody = report::Report (*)(Context& context);

report::Report reshard_command(Context& context);
report::Report audit_command(Context& context);
report::Report cluster_command(Context& context);
report::Report mutants_command(Context& context);
report::Report bench_command(Context& context);
report::Report verify_command(Context& context);
report::Report properties_command(Context& context);
report::Report replay_command(Context& context);

/// The ids of what every run of a command checks, so that what a dead run did not come to can be
/// said; empty where it depends on what is found.
std::vector<std::string> checks_of(std::string_view command);
std::vector<std::string> cluster_checks();
std::vector<std::string> reshard_checks();

/// How many ranks the case of `replay` needs; 1 where it cannot be read.
int ranks_of_case(const Options& options);

/// A view of a report that exists. Needs no ranks: returns the exit code.
int report_command(const Options& options);

}  // namespace slicecheck::app
