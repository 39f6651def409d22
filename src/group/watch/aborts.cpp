#include "group/watch/aborts.h"

#include <future>
#include <thread>
#include <utility>

namespace slicecheck::group {

std::shared_ptr<const Aborts::Act> Aborts::add(Act act) {
  auto made = std::make_shared<const Act>(std::move(act));
  const std::lock_guard lock(mutex_);
  std::erase_if(acts_, [](const auto& each) { return each.expired(); });
  acts_.emplace_back(made);
  return made;
}

void Aborts::call(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<std::future<void>> begun;
  {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<const Act>& each : acts_) {
      std::shared_ptr<const Act> act = each.lock();
      if (!act) continue;
      std::packaged_task<void()> task([act = std::move(act)] { (*act)(); });
      begun.push_back(task.get_future());
      std::thread(std::move(task)).detach();
    }
  }
  for (const std::future<void>& each : begun) each.wait_until(end);
}

}  // namespace slicecheck::group
