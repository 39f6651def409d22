// The watchdog of a run: it is told where each rank is, keeps what each has found in a journal, and
// makes the report of a run that ends before its end out of what is left.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/journals.h"
#include "app/options.h"
#include "group/launch.h"
#include "group/watch/watchdog.h"
#include "report/report.h"

namespace slicecheck::app {

/// What the ranks of one process share: one rank, or all of transport `local`.
class Watch {
 public:
  /// Watches from here on: a rank of `launch`, or as many as `threads` where there is none.
  /// `checks` are what the run is to check.
  Watch(const Options& options, const std::optional<group::Launch>& launch, int threads,
        std::vector<std::string> checks);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Where rank number `thread` of this process writes where it is.
  group::Notes& notes(int thread) { return *notes_[thread]; }

  /// The ranks of a launch, one a process, find each other. Collective.
  void meet(group::Group& world);

  /// The ranks are threads of this process and know each other.
  void meet_as_threads();

  /// What a rank has found so far, complete after each step: a report of its own in the journals'
  /// folder.
  void keep(int thread, report::Report part);

  /// Calls `act`, in which this rank's report becomes the run's. Where the watchdog already ends
  /// the run it does not return: there is one report, and it is the watchdog's.
  void publish(const std::function<void()>& act) { watchdog_->publish(act); }

  /// The run has come to its own end with this code.
  void reported(int code) { watchdog_->reported(code); }

  /// What is to be cut off when the run ends before its end.
  group::Aborts& aborts() { return watchdog_->aborts(); }

  /// Ends the run: a rank of this process has failed, or lost its transport.
  [[noreturn]] void end(group::Trigger trigger, int rank, const std::string& words) {
    watchdog_->end(trigger, rank, words);
  }

 private:
  std::string journal() const;
  int report(group::Ending ending) const;
  std::string journal_of(const group::RankState& state) const;
  void take(int thread, report::Report& part);

  const Options options_;
  const std::vector<std::string> checks_;
  int first_rank_ = 0;
  std::vector<std::unique_ptr<group::Notes>> notes_;
  mutable std::mutex mutex_;  // of what follows; never held while anything is waited for
  std::vector<report::Report> parts_;
  Journals journals_;
  std::unique_ptr<group::Watchdog> watchdog_;
};

/// What a dead run left: the reports in `folder` as one, with what did not run marked not-run.
/// `checks_of` says what a command is to check. Refuses when: there is none that can be read.
Result<report::Report> from_journals(
    const std::string& folder,
    const std::function<std::vector<std::string>(std::string_view)>& checks_of);

}  // namespace slicecheck::app
