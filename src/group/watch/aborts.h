// What a run that ends before its end cuts off: communicators whose kernels would wait for ranks
// that do not come. Who makes one says here how; the watchdog calls, and waits for none that hangs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace slicecheck::group {

class Aborts {
 public:
  using Act = std::function<void()>;

  /// `act` is called when the run ends, on a thread of its own, as long as what is returned lives;
  /// a call that has begun goes on after that.
  [[nodiscard]] std::shared_ptr<const Act> add(Act act);

  /// Calls all of them at once, and waits at most `limit` for them to return.
  void call(std::chrono::milliseconds limit);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<const Act>> acts_;
};

}  // namespace slicecheck::group
