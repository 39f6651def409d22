// The watchdog of a run: it is told where each rank is, keeps what each has found in a journal, and
// makes the report of a run that ends before its end out of what is left.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "app/options.h"
#include "group/watch/watchdog.h"
#include "report/report.h"

namespace slicecheck::app {

/// What the ranks of one process share: one rank, or all of transport `local`.
class Watch {
 public:
  /// Watches from here on. `rank` is what the launcher says; `threads` ranks are in this process.
  Watch(const Options& options, int rank, int threads);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Where rank number `thread` of this process writes where it is.
  group::Notes& notes(int thread) { return *notes_[thread]; }

  /// The ranks of a launch, one a process, find each other. Collective.
  void meet(group::Group& world);

  /// What a rank has found so far, complete after each step: a report of its own in the journals'
  /// folder.
  void keep(int thread, report::Report part);

  /// The run has come to its own end with this code.
  void reported(int code) { watchdog_->reported(code); }

  /// Ends the run: a rank of this process has failed, or lost its transport.
  [[noreturn]] void end(group::Trigger trigger, int rank, const std::string& words) {
    watchdog_->end(trigger, rank, words);
  }

 private:
  std::string journal() const;
  int report(group::Ending ending) const;
  std::string journal_of(const group::RankState& state) const;
  std::string file(int rank) const;
  void remove_journals() const;

  const Options options_;
  int first_rank_ = 0;
  std::vector<std::unique_ptr<group::Notes>> notes_;
  mutable std::mutex mutex_;
  std::string folder_;
  std::vector<report::Report> parts_;
  std::unique_ptr<group::Watchdog> watchdog_;
};

/// What a dead run left: the reports in `folder` as one, with what did not run marked not-run.
/// Refuses when: there is none that can be read.
Result<report::Report> from_journals(const std::string& folder);

}  // namespace slicecheck::app
