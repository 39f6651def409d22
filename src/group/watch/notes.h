// Where a rank is, noted as it goes, so that another thread (or another rank) can say who is
// behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace slicecheck::group {

/// Where a rank stands: its phase, the call that it is in (empty: none), how many notes it has made
/// and how long ago the last was.
struct Standing {
  std::string phase;
  std::string call;
  std::int64_t sequence = 0;
  std::chrono::milliseconds idle{0};
};

/// One line that says so: "in phase reshard, in all_to_all, at step 17, for 3.2 s".
std::string text(const Standing& standing);

/// A rank's notes. Written by the rank, read by any thread.
class Notes {
 public:
  Notes();
  /// The rank enters a phase.
  void phase(std::string_view name);
  /// The rank enters a call that may block, or (empty) has come out of it.
  void call(std::string_view name);
  /// The rank has moved on: a phase step, a tensor read, 64 MiB moved.
  void step();

  Standing standing() const;

  /// The thread that entered the last phase; before that the process's first.
  int thread() const;

 private:
  using Clock = std::chrono::steady_clock;
  mutable std::mutex mutex_;
  std::string phase_ = "start";
  std::string call_;
  std::int64_t sequence_ = 0;
  int thread_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace slicecheck::group
