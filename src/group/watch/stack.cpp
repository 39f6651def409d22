#include "group/watch/stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <backward.hpp>
#include <cerrno>
#include <csignal>
#include <future>
#include <memory>
#include <thread>

namespace slicecheck::group {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t frames_max = 32;
constexpr std::size_t name_chars_max = 80;
constexpr milliseconds look_up{1};

// Of the real-time signals one from the end: libraries that use some take the first.
int asking_signal() { return SIGRTMAX - 3; }

/// Return addresses of a thread. Never freed before they are written: a thread that cannot take the
/// signal now may take it later.
struct Frames {
  std::array<void*, frames_max> at{};
  void* kernel = nullptr;  // the last frame that is not the thread's own: where the handler returns
  std::atomic<int> count = -1;
};

// Runs in the stuck thread: no lock, no allocation. libgcc is loaded by prepare_stacks().
void write_down(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (info->si_code != SI_QUEUE || info->si_pid != ::getpid()) return;
  const int error = errno;
  auto* frames = static_cast<Frames*>(info->si_value.sival_ptr);
  frames->kernel = __builtin_return_address(0);
  frames->count = ::backtrace(frames->at.data(), static_cast<int>(frames_max));
  errno = error;
}

bool asked(int thread, Frames* frames) {
  siginfo_t info{};
  info.si_signo = asking_signal();
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = frames;
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, asking_signal(), &info) == 0;
}

/// The file of an object and the place in it, where it has no name.
std::string place(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "?";
  const std::string file(info.dli_fname);
  const auto offset = static_cast<char*>(address) - static_cast<char*>(info.dli_fbase);
  return fmt::format("{}+{:#x}", file.substr(file.rfind('/') + 1), offset);
}

std::string named(const Frames& frames) {
  backward::TraceResolver resolver;
  resolver.load_addresses(frames.at.data(), frames.count);
  const auto end = frames.at.begin() + frames.count;
  const auto kernel = std::find(frames.at.begin(), end, frames.kernel);
  std::string made;
  for (auto frame = kernel == end ? frames.at.begin() : kernel + 1; frame < end; ++frame) {
    void* address = *frame;
    const auto number = static_cast<std::size_t>(frame - frames.at.begin());
    std::string name = resolver.resolve(backward::Trace(address, number)).object_function;
    if (name.empty()) name = place(address);
    if (name.size() > name_chars_max) name = name.substr(0, name_chars_max) + "...";
    made += (made.empty() ? "" : " < ") + name;
  }
  return made;
}

}  // namespace

int own_thread() { return static_cast<int>(::gettid()); }

void prepare_stacks() {
  void* here = nullptr;
  ::backtrace(&here, 1);
  struct sigaction action {};
  action.sa_sigaction = write_down;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(asking_signal(), &action, nullptr);
}

std::string stack_of(int thread, milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  auto frames = std::make_unique<Frames>();
  if (!asked(thread, frames.get())) return {};
  while (frames->count < 0 && Clock::now() < end) std::this_thread::sleep_for(look_up);
  if (frames->count < 0) {
    static_cast<void>(frames.release());
    return {};
  }
  // The names' thread may wait for a lock that the stuck one holds: it is left behind then.
  std::packaged_task<std::string()> naming(
      [taken = std::shared_ptr<Frames>(std::move(frames))] { return named(*taken); });
  std::future<std::string> names = naming.get_future();
  std::thread(std::move(naming)).detach();
  return names.wait_until(end) == std::future_status::ready ? names.get() : std::string();
}

}  // namespace slicecheck::group
