#include "group/watch/watchdog.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "group/agree.h"
#include "group/watch/stack.h"

namespace slicecheck::group {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds tick{100};
constexpr milliseconds asking_limit{400};    // survivors have half a second from SIGTERM on
constexpr milliseconds patient_limit{900};   // where nobody kills: a busy machine answers late
constexpr milliseconds waiting_limit{2000};  // for the reporter's word, before it is asked again
constexpr milliseconds reporting_limit{20000};
constexpr milliseconds stacks_limit{300};    // for the stacks of this process's ranks
constexpr milliseconds aborting_limit{300};  // for what is cut off at the end
constexpr milliseconds settle_time{100};     // for what was said to leave this process
constexpr milliseconds look_around_time{1000};
constexpr milliseconds suspended_time{5000};  // no tick takes that long on a machine that runs
constexpr double seconds_max = 1e9;           // beyond it a time is for ever
constexpr int hung_code = 4;                  // of the contract: no progress, or a rank lost
constexpr int error_code = 5;                 // of the contract: no report could be made
constexpr std::int64_t step_bytes = std::int64_t{64} << 20;  // of files: a step of its own
constexpr int lookouts = 2;  // ranks that ask the others now and then, so that one may be lost

/// Left alone: what this process was started to ignore (nohup does; a blocked signal would come
/// nevertheless), and a hangup that a transport's library took before main() (UCX does, ignored or
/// not).
bool left_alone(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0) return false;
  return action.sa_handler == SIG_IGN || (signal == SIGHUP && action.sa_handler != SIG_DFL);
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCONT}) {
    if (!left_alone(number)) sigaddset(&set, number);
  }
  return set;
}

milliseconds of_seconds(double seconds) {
  return milliseconds(static_cast<std::int64_t>(std::min(seconds, seconds_max) * 1000));
}

/// Bytes that this process has read and written, by what the kernel counts: files above all.
std::int64_t transferred_bytes() {
  std::ifstream file("/proc/self/io");
  std::int64_t sum = 0;
  std::int64_t value = 0;
  for (std::string word; file >> word >> value;) {
    if (word == "rchar:" || word == "wchar:") sum += value;
  }
  return sum;
}

}  // namespace

Watchdog::Watchdog(const WatchLimits& limits, std::vector<const Notes*> notes, WatchActs acts)
    : limits_(limits),
      notes_(std::move(notes)),
      acts_(std::move(acts)),
      rank_(limits.rank),
      size_(static_cast<int>(notes_.size())),
      watched_(watched_signals()),
      early_([this](const std::string& question) { return answer(question); }),
      channel_([this](const std::string& question) { return answer(question); }) {
  prepare_stacks();
  pthread_sigmask(SIG_BLOCK, &watched_, nullptr);
  signals_ = ::signalfd(-1, &watched_, SFD_NONBLOCK | SFD_CLOEXEC);
  if (limits_.side_channel && !limits_.launch.empty()) {
    size_ = limits_.ranks;
    last_heard_.resize(size_);
    early_.meet_here(limits_.launch, rank_, size_);
    met_here_ = true;
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Watchdog::~Watchdog() {
  thread_.request_stop();
  thread_.join();
  ::close(signals_);
  pthread_sigmask(SIG_UNBLOCK, &watched_, nullptr);
}

void Watchdog::meet(Group& world) {
  rank_ = world.rank();
  size_ = world.size();
  {
    const std::lock_guard lock(mutex_);
    last_heard_.resize(size_);
  }
  // Ranks of unequal options meet too, to be told so.
  const bool talks = limits_.side_channel && size_ > 1;
  const std::vector<std::string> hosts = share_texts(world, talks ? SideChannel::host() : "");
  const std::vector<std::string> places = share_texts(world, talks ? channel_.listen(hosts) : "");
  if (talks) channel_.meet(places);
  // A rank that is asked before it listens would look as if it were gone.
  world.least(0);
  met_ = talks;
}

void Watchdog::publish(const std::function<void()>& act) {
  const std::lock_guard held(reporting_);
  while (concluding_) ::pause();
  act();
}

void Watchdog::reported(int code) { reported_code_ = code; }

void Watchdog::end(Trigger trigger, int rank, const std::string& words) {
  {
    const std::lock_guard lock(mutex_);
    own_trigger_ = trigger;
    own_rank_ = rank;
    words_ = words;
    std::replace(words_.begin(), words_.end(), '\n', ' ');
  }
  asked_to_end_ = trigger;
  // The watchdog's thread ends the process.
  for (;;) ::pause();
}

void Watchdog::watch(const std::stop_token& stop) {
  Clock::time_point looked = Clock::now();
  while (!stop.stop_requested()) {
    pollfd entry{signals_, POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(tick.count()));
    if (told_code_ >= 0) cut_off_and_leave(told_code_);
    // A process that was suspended has stood still for no fault of its own.
    ticked_before_ = std::exchange(ticked_, Clock::now());
    if (ticked_ - ticked_before_ > suspended_time) awake_since_ = ticked_;
    look_at_files();
    const Trigger trigger = due();
    if (trigger != Trigger::none && reported_code_ >= 0) leave(reported_code_);
    if (trigger != Trigger::none) conclude(trigger);
    if (rank_ < lookouts && Clock::now() - looked > look_around_time) {
      look_around();
      looked = Clock::now();
    }
  }
}

Trigger Watchdog::due() {
  const Trigger asked = asked_to_end_;
  if (asked != Trigger::none) return asked;
  signalfd_siginfo signal{};
  while (::read(signals_, &signal, sizeof signal) == sizeof signal) {
    // The launcher wakes the ranks before it ends them; a rank that was only stopped goes on.
    if (signal.ssi_signo != SIGCONT) return Trigger::terminated;
    if (someone_is_gone()) return Trigger::lost;
  }
  if (limits_.deadline_seconds > 0 &&
      Clock::now() - start_ > of_seconds(limits_.deadline_seconds)) {
    return Trigger::deadline;
  }
  if (idle() < of_seconds(limits_.timeout_seconds) || others_move_on()) return Trigger::none;
  return Trigger::no_progress;
}

void Watchdog::look_at_files() {
  const std::int64_t bytes = transferred_bytes();
  const std::lock_guard lock(mutex_);
  if (bytes - transferred_ < step_bytes) return;
  transferred_ = bytes;
  transferred_at_ = Clock::now();
}

milliseconds Watchdog::since_files() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - transferred_at_);
}

milliseconds Watchdog::idle() const {
  milliseconds least = std::min(
      since_files(), std::chrono::duration_cast<milliseconds>(Clock::now() - awake_since_));
  for (const Notes* each : notes_) least = std::min(least, each->standing().idle);
  return least;
}

std::vector<int> Watchdog::others() const {
  std::vector<int> made;
  for (int rank = 0; (met_ || met_here_) && rank < size_; ++rank) {
    if (rank != rank_) made.push_back(rank);
  }
  return made;
}

bool Watchdog::someone_is_gone() {
  const std::vector<Heard> heard = channel().ask(others(), "state", asking_limit);
  return std::any_of(heard.begin(), heard.end(),
                     [](const Heard& each) { return each.outcome == Heard::Outcome::gone; });
}

// A rank that waits long for one that works is not hung.
bool Watchdog::others_move_on() {
  const std::vector<int> asked = others();
  const std::vector<Heard> heard = channel().ask(asked, "state", patient_limit);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const RankState state = read(asked[i], heard[i]);
    if (state.standing && state.standing->idle + tick < of_seconds(limits_.timeout_seconds)) {
      return true;
    }
  }
  return false;
}

void Watchdog::look_around() {
  const std::vector<int> asked = others();
  const std::vector<Heard> heard = channel().ask(asked, "state", asking_limit);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const RankState state = read(asked[i], heard[i]);
    if (state.standing) last_heard_[asked[i]] = state.standing;
  }
}

std::string Watchdog::state() const {
  RankState mine;
  mine.rank = rank_;
  mine.standing = notes_.front()->standing();
  mine.standing->idle = std::min(mine.standing->idle, since_files());
  mine.journal = acts_.journal();
  const std::lock_guard lock(mutex_);
  mine.trigger = own_trigger_;
  mine.words = words_;
  if (!stacks_.empty()) mine.stack = stacks_.front();
  return written(mine);
}

void Watchdog::take_stacks() {
  const std::lock_guard taking(taking_);
  const Clock::time_point end = Clock::now() + stacks_limit;
  {
    const std::lock_guard lock(mutex_);
    if (!stacks_.empty()) return;
  }
  std::vector<std::string> taken;
  for (const Notes* each : notes_) {
    const auto rest = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    taken.push_back(stack_of(each->thread(), std::max(rest, milliseconds(0))));
  }
  const std::lock_guard lock(mutex_);
  stacks_ = std::move(taken);
}

std::string Watchdog::answer(const std::string& question) {
  std::istringstream words(question);
  std::string what;
  int number = 0;
  words >> what >> number;
  if (what == "ended") told_code_ = number;
  if (what == "ending") {
    Trigger none = Trigger::none;
    asked_to_end_.compare_exchange_strong(none, static_cast<Trigger>(number));
  }
  if (what == "stack") take_stacks();
  return state();
}

Ending Watchdog::ending(Trigger trigger, const std::vector<Heard>& heard,
                        const std::vector<int>& asked) {
  Ending made;
  made.trigger = trigger;
  made.size = std::max<int>(size_, limits_.ranks);
  for (std::size_t i = 0; i < asked.size(); ++i) made.ranks.push_back(read(asked[i], heard[i]));
  RankState mine = read(rank_, {Heard::Outcome::answered, state()});
  made.ranks.push_back(mine);
  // Ranks as threads: one process knows all of them.
  for (std::size_t i = 1; i < notes_.size(); ++i) {
    RankState other;
    other.rank = static_cast<int>(i);
    other.standing = notes_[i]->standing();
    made.ranks.push_back(other);
  }
  const std::lock_guard lock(mutex_);
  if (notes_.size() > 1) {
    made.ranks.front().trigger = Trigger::none;
    for (RankState& each : made.ranks) {
      if (each.rank < std::ssize(stacks_)) each.stack = stacks_[each.rank];
      if (each.rank == own_rank_) each.trigger = own_trigger_;
      if (each.rank == own_rank_) each.words = words_;
    }
  }
  for (RankState& each : made.ranks) {
    if (!each.standing && each.rank < std::ssize(last_heard_)) {
      each.standing = last_heard_[each.rank];
    }
    if (each.trigger == Trigger::failed) made.trigger = Trigger::failed;
  }
  std::sort(made.ranks.begin(), made.ranks.end(),
            [](const RankState& a, const RankState& b) { return a.rank < b.rank; });
  return made;
}

// Asked for apart: it takes a moment, and who is slow to say in what it stands still is not silent.
std::vector<Heard> Watchdog::with_stacks(const std::vector<int>& asked, std::vector<Heard> heard) {
  std::vector<int> living;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (heard[i].outcome == Heard::Outcome::answered) living.push_back(asked[i]);
  }
  std::vector<Heard> told = channel().ask(living, "stack", patient_limit);
  take_stacks();
  for (std::size_t i = 0; i < living.size(); ++i) {
    const auto at = std::find(asked.begin(), asked.end(), living[i]) - asked.begin();
    if (told[i].outcome == Heard::Outcome::answered) heard[at] = std::move(told[i]);
  }
  return heard;
}

int Watchdog::written_report(const Ending& of) const {
  try {
    return acts_.report(of);
  } catch (const std::exception&) {
    return error_code;
  }
}

void Watchdog::conclude(Trigger trigger) {
  const bool hurried = trigger == Trigger::terminated || trigger == Trigger::lost;
  const milliseconds limit = hurried ? asking_limit : patient_limit;
  const std::string question = fmt::format("ending {}", static_cast<int>(trigger));
  const std::vector<int> asked = others();
  // As long as a lower rank answers it may be writing; a machine that does much else writes late.
  const Clock::time_point given_up =
      Clock::now() + (asked.empty() ? 2 * waiting_limit : reporting_limit);
  while (told_code_ < 0 && Clock::now() < given_up) {
    std::vector<Heard> heard = channel().ask(asked, question, limit);
    bool lowest = true;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      lowest = lowest && (heard[i].outcome != Heard::Outcome::answered || asked[i] > rank_);
    }
    // Without a side channel nobody can be asked, and two reports would be one too many.
    if (asked.empty()) lowest = rank_ == 0;
    // While this rank was stopped, the others may have reported long ago: what they said waits.
    const auto stopped = std::chrono::duration_cast<milliseconds>(Clock::now() - ticked_before_);
    if (lowest) channel().catch_up(std::clamp(stopped, limit, waiting_limit));
    if (lowest && told_code_ < 0) {
      // The run's own report may be under way: the watchdog's comes after it, and stands.
      concluding_ = true;
      const std::unique_lock held(reporting_, limit);
      if (stands_still(trigger)) heard = with_stacks(asked, std::move(heard));
      told_code_ = written_report(ending(trigger, heard, asked));
      // The report has it all: whoever is killed from here on leaves nothing behind either.
      acts_.leave();
      channel().ask(asked, fmt::format("ended {}", told_code_.load()), asking_limit);
      break;
    }
    const Clock::time_point end = Clock::now() + waiting_limit;
    while (told_code_ < 0 && Clock::now() < end) std::this_thread::sleep_for(milliseconds(5));
  }
  const int own_code = trigger == Trigger::failed ? error_code : hung_code;
  cut_off_and_leave(told_code_ < 0 ? own_code : told_code_.load());
}

// The run has ended before its end, and whoever writes its report has done so.
void Watchdog::cut_off_and_leave(int code) {
  aborts_.call(aborting_limit);
  std::this_thread::sleep_for(settle_time);
  leave(code);
}

void Watchdog::leave(int code) {
  acts_.leave();
  std::_Exit(code);
}

}  // namespace slicecheck::group
