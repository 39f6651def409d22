#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "app/command.h"

namespace slicecheck::app {
namespace {

constexpr std::chrono::seconds quiet_time{3};
constexpr std::chrono::milliseconds redraw_time{200};

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Progress::Progress(bool shown, group::Notes& notes)
    : shown_(shown && ::isatty(STDERR_FILENO) == 1), notes_(notes) {}

Progress::~Progress() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void Progress::show(const std::string& line) {
  const Clock::time_point now = Clock::now();
  if (!shown_ || now - start_ < quiet_time || now - last_shown_ < redraw_time) return;
  last_shown_ = now;
  visible_ = true;
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
}

void Progress::phase(const std::string& name) {
  const Clock::time_point now = Clock::now();
  if (!phase_.empty()) {
    // A phase that comes again, in the rounds of a soak, is one.
    const auto same = std::find_if(timings_.begin(), timings_.end(),
                                   [&](const auto& each) { return each.first == phase_; });
    const double seconds = seconds_of(now - phase_start_);
    if (same == timings_.end()) {
      timings_.emplace_back(phase_, seconds);
    } else {
      same->second += seconds;
    }
  }
  phase_ = name;
  phase_start_ = now;
  if (!name.empty()) notes_.phase(name);
  if (!name.empty()) show(name);
}

void Progress::step(std::int64_t done, std::int64_t all) {
  notes_.step();
  show(fmt::format("{}: {} of {}", phase_, done, all));
}

std::vector<std::pair<std::string, double>> Progress::timings() {
  phase("");
  return timings_;
}

double Progress::seconds() const { return seconds_of(Clock::now() - start_); }

}  // namespace slicecheck::app
