#include "properties/run/watch.h"

namespace slicecheck::properties {

Watch::Watch(std::chrono::duration<double> limit, std::function<void()> late)
    : limit_(limit), late_(std::move(late)), thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watch::begin() {
  const std::lock_guard lock(mutex_);
  begun_ = Clock::now();
  changed_.notify_all();
}

void Watch::end() {
  const std::lock_guard lock(mutex_);
  begun_.reset();
  changed_.notify_all();
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!over_) {
    if (!begun_) {
      changed_.wait(lock);
      continue;
    }
    const Clock::time_point due = *begun_ + std::chrono::duration_cast<Clock::duration>(limit_);
    if (Clock::now() >= due) {
      lock.unlock();
      late_();
      return;
    }
    changed_.wait_until(lock, due);
  }
}

}  // namespace slicecheck::properties
