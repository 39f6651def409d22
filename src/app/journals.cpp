#include "app/journals.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/must.h"
#include "checkpoint/file.h"

namespace slicecheck::app {
namespace {

constexpr std::chrono::milliseconds moment{500};  // for what is being written
constexpr int removals_max = 10;

std::string fresh_name() {
  std::random_device device;
  return fmt::format("slicecheck-journals-{:08x}{:08x}", device(), device());
}

}  // namespace

Journals::Journals() : name_(fresh_name()) {}

Journals::~Journals() = default;

std::string Journals::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

void Journals::rename(const std::string& name) {
  const std::lock_guard lock(mutex_);
  name_ = name;
}

std::string Journals::folder() const {
  const char* temporary = std::getenv("TMPDIR");
  return fmt::format("{}/{}", temporary == nullptr ? "/tmp" : temporary, name());
}

std::string Journals::file(int rank) const { return fmt::format("{}/rank{}.json", folder(), rank); }

void Journals::begin() {
  must(!thread_.joinable(), "journals are begun once");
  std::unique_lock lock(mutex_);
  writing_ = true;
  thread_ = std::jthread([this](const std::stop_token& stop) { write(stop); });
  changed_.wait_for(lock, moment, [&] { return !writing_; });
}

void Journals::write(const std::stop_token& stop) {
  std::error_code ignored;
  std::filesystem::create_directories(folder(), ignored);
  std::unique_lock lock(mutex_);
  for (;;) {
    writing_ = false;
    changed_.notify_all();
    if (!changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) return;
    const auto next = waiting_.begin();
    const int rank = next->first;
    const report::Report part = std::move(next->second);
    waiting_.erase(next);
    writing_ = true;
    lock.unlock();
    const Reason unwritten = report::write(part, file(rank), report::Until::handed_over);
    lock.lock();
    // A journal that cannot be written is no reason to end a run that goes on.
    if (unwritten) continue;
  }
}

void Journals::keep(int rank, report::Report part) {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  waiting_[rank] = std::move(part);
  changed_.notify_all();
  changed_.wait_for(lock, moment, [&] { return !writing_ && !waiting_.contains(rank); });
}

Result<std::string> Journals::text_of(int rank) const {
  return checkpoint::text_of(file(rank), journal_bytes_max);
}

void Journals::settle() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  waiting_.clear();
  changed_.wait_for(lock, moment, [&] { return !writing_; });
}

void Journals::remove(const std::vector<int>& ranks) {
  settle();
  // What is still being written would come after what is removed.
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  std::error_code ignored;
  for (const int rank : ranks) std::filesystem::remove(file(rank), ignored);
  // Gone with the last rank of this host: until then it is not empty.
  std::filesystem::remove(folder(), ignored);
}

void Journals::remove_all() {
  settle();
  // Others may be taking the same files away: one that is gone stops it.
  std::error_code error;
  for (int attempt = 0; attempt < removals_max; ++attempt) {
    std::filesystem::remove_all(folder(), error);
    if (!error) return;
  }
}

}  // namespace slicecheck::app
