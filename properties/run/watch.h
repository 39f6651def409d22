// Notices when something that was begun does not end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace slicecheck::properties {

/// Calls `late`, once, on a thread of its own when more than the limit passes between begin() and
/// the next begin() or end().
class Watch {
 public:
  Watch(std::chrono::duration<double> limit, std::function<void()> late);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void begin();
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void run();

  const std::chrono::duration<double> limit_;
  const std::function<void()> late_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> begun_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace slicecheck::properties
