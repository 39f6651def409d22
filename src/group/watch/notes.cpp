#include "group/watch/notes.h"

#include <fmt/format.h>
#include <unistd.h>

#include "group/watch/stack.h"

namespace slicecheck::group {

std::string text(const Standing& standing) {
  const std::string call = standing.call.empty() ? "" : fmt::format(", in {}", standing.call);
  return fmt::format("in phase {}{}, at step {}, for {:.1f} s", standing.phase, call,
                     standing.sequence, static_cast<double>(standing.idle.count()) / 1000);
}

Notes::Notes() : thread_(::getpid()) {}

void Notes::phase(std::string_view name) {
  const std::lock_guard lock(mutex_);
  phase_ = name;
  thread_ = own_thread();
  ++sequence_;
  last_ = Clock::now();
}

void Notes::call(std::string_view name) {
  const std::lock_guard lock(mutex_);
  call_ = name;
  ++sequence_;
  last_ = Clock::now();
}

void Notes::step() {
  const std::lock_guard lock(mutex_);
  ++sequence_;
  last_ = Clock::now();
}

Standing Notes::standing() const {
  const std::lock_guard lock(mutex_);
  return {phase_, call_, sequence_,
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_)};
}

int Notes::thread() const {
  const std::lock_guard lock(mutex_);
  return thread_;
}

}  // namespace slicecheck::group
