// A thread in each process that sees whether its ranks still move on, and ends the run where they
// do not. It never calls the transport: what ranks tell each other goes over the side channel. All
// that can end on their own end together: the lowest rank that answers writes the report, says so
// to the others, and all leave with its code.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "group/group.h"
#include "group/watch/aborts.h"
#include "group/watch/ending.h"
#include "group/watch/notes.h"
#include "group/watch/side_channel.h"

namespace slicecheck::group {

/// How long a run may stand still (start-up included), and how long it may take in all (0: for
/// ever); and whether ranks talk beside the transport.
struct WatchLimits {
  double timeout_seconds = 120;
  double deadline_seconds = 0;
  bool side_channel = true;
  int rank = 0;        // as the launcher says, until the ranks have met
  int ranks = 1;       // likewise
  std::string launch;  // its name on this host, where all its ranks are here; else empty
};

/// What the watchdog is given. All are called on its own threads.
struct WatchActs {
  std::function<std::string()> journal;      // this process's journal, for the others
  std::function<int(const Ending&)> report;  // writes the report; the code to leave with
  std::function<void()> leave;               // removes what this process must not leave behind
};

class Watchdog {
 public:
  /// Watches from here on. `notes` are those of this process's ranks (one but for `local`), and
  /// outlive this object. Blocks SIGTERM, SIGINT, SIGHUP and SIGCONT, but those that are ignored
  /// and a SIGHUP that a library has taken, for the threads begun after it: it takes them itself.
  Watchdog(const WatchLimits& limits, std::vector<const Notes*> notes, WatchActs acts);

  /// Nothing more is watched; signals are as before.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From now on the ranks of `world`, one a process, can ask each other. Collective.
  void meet(Group& world);

  /// Calls `act` while the watchdog reports nothing; never returns where it is ending the run.
  void publish(const std::function<void()>& act);

  /// The report is written: from here on a signal or a hang ends this process with `code`.
  void reported(int code);

  /// What is to be cut off when the run ends before its end.
  Aborts& aborts() { return aborts_; }

  /// Ends the run: rank `rank` of this process has failed, or lost its transport, in these words.
  [[noreturn]] void end(Trigger trigger, int rank, const std::string& words);

 private:
  void watch(const std::stop_token& stop);
  Trigger due();
  bool someone_is_gone();
  bool others_move_on();
  void look_around();
  std::string answer(const std::string& question);
  std::string state() const;
  void take_stacks();
  std::vector<Heard> with_stacks(const std::vector<int>& asked, std::vector<Heard> heard);
  [[noreturn]] void conclude(Trigger trigger);
  int written_report(const Ending& of) const;
  Ending ending(Trigger trigger, const std::vector<Heard>& heard, const std::vector<int>& asked);
  std::vector<int> others() const;
  SideChannel& channel() { return met_ ? channel_ : early_; }
  void look_at_files();
  std::chrono::milliseconds since_files() const;
  std::chrono::milliseconds idle() const;
  [[noreturn]] void cut_off_and_leave(int code);
  [[noreturn]] void leave(int code);

  const WatchLimits limits_;
  const std::vector<const Notes*> notes_;
  const WatchActs acts_;
  std::chrono::steady_clock::time_point awake_since_ = std::chrono::steady_clock::now();
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point ticked_ = start_;
  std::chrono::steady_clock::time_point ticked_before_ = start_;  // long ago after having stopped
  std::atomic<int> rank_;
  std::atomic<int> size_;
  const sigset_t watched_;
  int signals_ = -1;
  std::atomic<bool> met_ = false;
  bool met_here_ = false;
  std::atomic<Trigger> asked_to_end_ = Trigger::none;
  std::atomic<int> told_code_ = -1;      // the reporter's, once the report is written
  std::atomic<int> reported_code_ = -1;  // of a run that came to its own end
  std::timed_mutex reporting_;           // held by whoever makes the run's report
  std::atomic<bool> concluding_ = false;
  mutable std::mutex mutex_;
  Trigger own_trigger_ = Trigger::none;
  int own_rank_ = 0;  // whose trigger it is
  std::string words_;
  std::vector<std::string> stacks_;  // of this process's ranks, once they are taken
  std::vector<std::optional<Standing>> last_heard_;
  std::int64_t transferred_ = 0;  // bytes, when they last were a step
  std::chrono::steady_clock::time_point transferred_at_ = start_;
  std::mutex taking_;  // of stacks; taken before mutex_
  Aborts aborts_;
  SideChannel early_;  // until the ranks have met, and of those that have not
  SideChannel channel_;
  std::jthread thread_;
};

}  // namespace slicecheck::group
