#include "app/watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>

#include "app/verdicts.h"
#include "checkpoint/file.h"

namespace slicecheck::app {
namespace {

using group::Heard;
using group::RankState;
using group::Trigger;
using Ranks = std::vector<report::RankEntry>;

constexpr int cases_between_calls = 10;  // a rank tries 8 before the ranks meet again
constexpr int frames_in_text = 6;        // of a stack; the rank's entry has all

void add_not_run(report::Report& whole, const std::vector<std::string>& checks) {
  for (const std::string& id : checks) {
    const bool there = std::any_of(whole.checks.begin(), whole.checks.end(),
                                   [&](const report::Check& check) { return check.id == id; });
    if (there) continue;
    report::Check check;
    check.id = id;
    check.text = "not run";
    whole.checks.push_back(std::move(check));
  }
}

report::Finding finding(std::string_view cause, std::vector<int> ranks, std::string text) {
  report::Finding made;
  made.cause = cause;
  made.side = report::Side::machine;
  made.ranks = std::move(ranks);
  made.text = std::move(text);
  return made;
}

std::string last_word(const RankState& state) {
  if (state.standing)
    return fmt::format("the last that is known of it is {}", text(*state.standing));
  const Result<report::Report> journal = report::parsed(state.journal);
  for (const report::RankEntry& entry : journal.reason ? Ranks{} : journal->ranks) {
    for (const auto& [key, value] : entry.more) {
      const auto* phase = std::get_if<std::string>(&value);
      if (key == "phase" && phase != nullptr)
        return fmt::format("its journal ends in phase {}", *phase);
    }
  }
  return "nothing is known of where it was";
}

/// The innermost functions that a rank was in, where its stack is known.
std::string inside(const RankState& state) {
  std::size_t end = 0;
  for (int frame = 0; frame < frames_in_text && end < state.stack.size(); ++frame) {
    end = std::min(state.stack.find(" < ", end + 1), state.stack.size());
  }
  return end == 0 ? "" : ", in " + state.stack.substr(0, end);
}

/// The ranks that did not answer, each way as one finding; the lowest one's last word.
void add_missing(report::Report& whole, const group::Ending& ending, Heard::Outcome outcome) {
  std::vector<int> ranks;
  for (const RankState& each : ending.ranks) {
    if (each.outcome == outcome) ranks.push_back(each.rank);
  }
  if (ranks.empty()) return;
  const auto first = std::find_if(ending.ranks.begin(), ending.ranks.end(),
                                  [&](const RankState& each) { return each.rank == ranks[0]; });
  const bool gone = outcome == Heard::Outcome::gone;
  whole.findings.push_back(finding(
      gone ? "rank-lost" : "rank-hung", ranks,
      fmt::format("rank {} {}; {}", fmt::join(ranks, ", "),
                  gone ? "is gone" : "does not answer: stopped, or cut off", last_word(*first))));
}

/// True where a rank is in a call: it needs the others.
bool waits(const RankState& state) { return state.standing && !state.standing->call.empty(); }

/// Where every rank answers: the one that is behind. Whoever is in a call waits for the others, so
/// one that is in none comes first; of those the one with the fewest steps.
const RankState& furthest_behind(const group::Ending& ending) {
  return *std::min_element(ending.ranks.begin(), ending.ranks.end(),
                           [](const RankState& a, const RankState& b) {
                             const group::Standing left = a.standing.value_or(group::Standing{});
                             const group::Standing right = b.standing.value_or(group::Standing{});
                             return std::pair(!left.call.empty(), left.sequence) <
                                    std::pair(!right.call.empty(), right.sequence);
                           });
}

/// Where no rank makes progress, the ranks that stand still in no call: each has kept the others
/// waiting for so long. Else the one that is behind, where all are known; else nobody.
std::vector<int> to_blame(const group::Ending& ending, const RankState& behind,
                          const Options& options) {
  std::vector<int> made;
  const std::chrono::duration<double> limit(options.timeout);
  for (const RankState& each : ending.ranks) {
    const bool still = each.standing && each.standing->idle >= limit;
    if (still && !waits(each)) made.push_back(each.rank);
  }
  const bool all_known = std::ssize(ending.ranks) == ending.size;
  if (!all_known || (!made.empty() && ending.trigger == Trigger::no_progress)) return made;
  return {behind.rank};
}

void add_behind(report::Report& whole, const group::Ending& ending, const Options& options) {
  const RankState& behind = furthest_behind(ending);
  const std::vector<int> ranks = to_blame(ending, behind, options);
  std::string text = ending.trigger == Trigger::deadline
                         ? fmt::format("the deadline of {} s is over", options.deadline)
                         : fmt::format("no rank has made progress for {} s", options.timeout);
  if (ranks.size() > 1) text += fmt::format("; ranks {} are in no call", fmt::join(ranks, ", "));
  text += ranks.empty() ? fmt::format("; of rank {} alone something is known", behind.rank)
                        : fmt::format("; rank {} is the first one behind", behind.rank);
  text += fmt::format(": {}{}", last_word(behind), inside(behind));
  whole.findings.push_back(finding("rank-hung", ranks, std::move(text)));
}

// What journals have found before stands first in the report.
void add_findings(report::Report& whole, const group::Ending& ending, const Options& options) {
  const std::size_t before = whole.findings.size();
  // A transport that is lost is the end of another rank, where one is missing.
  const bool missing =
      std::any_of(ending.ranks.begin(), ending.ranks.end(),
                  [](const RankState& each) { return each.outcome != Heard::Outcome::answered; });
  for (const RankState& each : ending.ranks) {
    if (each.trigger != Trigger::failed && each.trigger != Trigger::lost) continue;
    if (each.trigger == Trigger::lost && missing) continue;
    const bool failed = each.trigger == Trigger::failed;
    whole.findings.push_back(finding(
        failed ? "rank-failed" : "rank-lost", {each.rank},
        fmt::format("rank {} {}: {}; {}", each.rank, failed ? "failed" : "lost its transport",
                    each.words, last_word(each))));
  }
  add_missing(whole, ending, Heard::Outcome::gone);
  add_missing(whole, ending, Heard::Outcome::silent);
  if (whole.findings.size() > before) return;
  if (ending.trigger == Trigger::terminated) {
    report::Check ended;
    ended.id = "ended";
    ended.status = report::Status::failed;
    ended.text = "a signal ended the run; every rank answers";
    whole.checks.push_back(ended);
    return;
  }
  // A rank that has said itself that it is stuck has said in what.
  const bool said = std::any_of(whole.findings.begin(), whole.findings.end(),
                                [](const auto& each) { return each.cause == "rank-hung"; });
  if (said) return;
  add_behind(whole, ending, options);
}

// Streams may be closed or full, or held by a thread that waits for one: what cannot be said at
// once is not waited for.
void say(int stream, const std::string& text) {
  pollfd entry{stream, POLLOUT, 0};
  if (::poll(&entry, 1, 0) != 1 || (entry.revents & POLLOUT) == 0) return;
  const std::size_t size = std::min<std::size_t>(text.size(), PIPE_BUF);
  if (::write(stream, text.data(), size) < 0) return;
}

void add_standing(report::Report& part, const RankState& state) {
  if (part.ranks.empty()) part.ranks.push_back({state.rank, 0, "", "", 0, {}});
  report::Fields& more = part.ranks.front().more;
  if (state.standing) more.clear();  // what a journal said of it is older
  constexpr std::array<std::string_view, 3> outcomes{"answered", "gone", "silent"};
  more.emplace_back("outcome", std::string(outcomes[static_cast<std::size_t>(state.outcome)]));
  if (!state.standing) return;
  more.emplace_back("phase", state.standing->phase);
  more.emplace_back("call", state.standing->call);
  more.emplace_back("step", state.standing->sequence);
  if (!state.stack.empty()) more.emplace_back("stack", state.stack);
}

}  // namespace

Watch::Watch(const Options& options, const std::optional<group::Launch>& launch, int threads,
             std::vector<std::string> checks)
    : options_(options),
      checks_(std::move(checks)),
      first_rank_(launch ? launch->rank : 0),
      parts_(threads) {
  std::vector<const group::Notes*> watched;
  for (int thread = 0; thread < threads; ++thread) {
    notes_.push_back(std::make_unique<group::Notes>());
    watched.push_back(notes_.back().get());
  }
  // The laws are timed case by case; what is left to see here is a case that does not end by that.
  const bool by_case = options.command == "properties" || options.command == "replay";
  const double timeout = by_case ? cases_between_calls * options.timeout + 10 : options.timeout;
  const group::WatchLimits limits{timeout,
                                  options.deadline,
                                  options.side_channel,
                                  first_rank_,
                                  launch ? launch->ranks : threads,
                                  launch ? launch->name : std::string()};
  watchdog_ = std::make_unique<group::Watchdog>(
      limits, watched,
      group::WatchActs{[this] { return journal(); },
                       [this](const group::Ending& ending) { return report(ending); },
                       [this] { journals_.remove_all(); }});
}

Watch::~Watch() {
  // Under the watchdog still: the first rank that leaves with a code other than 0 makes the
  // launcher end the others.
  std::vector<int> ranks;
  for (int thread = 0; thread < std::ssize(parts_); ++thread) ranks.push_back(first_rank_ + thread);
  journals_.remove(ranks);
  watchdog_.reset();
}

void Watch::meet(group::Group& world) {
  std::string name = journals_.name();
  world.broadcast({reinterpret_cast<std::uint8_t*>(name.data()), name.size()}, 0);
  journals_.rename(name);
  {
    const std::lock_guard lock(mutex_);
    first_rank_ = world.rank();
  }
  journals_.begin();
  watchdog_->meet(world);
}

void Watch::meet_as_threads() { journals_.begin(); }

void Watch::keep(int thread, report::Report part) {
  int rank = 0;
  {
    const std::lock_guard lock(mutex_);
    take(thread, part);
    rank = first_rank_ + thread;
  }
  journals_.keep(rank, std::move(part));
}

void Watch::take(int thread, report::Report& part) {
  const int rank = first_rank_ + thread;
  part.command = options_.command;
  if (part.ranks.empty()) part.ranks.push_back({rank, 0, "", "", 0, {}});
  const group::Standing standing = notes_[thread]->standing();
  part.ranks.front().more.emplace_back("phase", standing.phase);
  part.ranks.front().more.emplace_back("step", standing.sequence);
  parts_[thread] = part;
}

std::string Watch::journal() const {
  const std::lock_guard lock(mutex_);
  return report::json(parts_.front());
}

std::string Watch::journal_of(const RankState& state) const {
  const std::lock_guard lock(mutex_);
  if (!state.journal.empty()) return state.journal;
  const int thread = state.rank - first_rank_;
  if (thread >= 0 && thread < std::ssize(parts_)) return report::json(parts_[thread]);
  // A rank of this host that does not answer has left its journal.
  const Result<std::string> text = journals_.text_of(state.rank);
  return text.reason ? std::string() : *text;
}

int Watch::report(group::Ending ending) const {
  std::vector<report::Report> parts;
  for (RankState& state : ending.ranks) {
    state.journal = journal_of(state);
    const Result<report::Report> read = report::parsed(state.journal);
    report::Report part = read.reason ? report::Report{} : *read;
    add_standing(part, state);
    parts.push_back(std::move(part));
  }
  report::Report whole = report::merged(parts);
  whole.command = options_.command.empty() ? "reshard" : options_.command;
  add_not_run(whole, checks_);
  const std::size_t before = whole.findings.size();
  add_findings(whole, ending, options_);
  const bool failed = ending.trigger == Trigger::failed;
  whole.verdict = failed ? report::Verdict::error : report::Verdict::hung;
  whole.run.versions = versions({});
  whole.run.environment = environment();
  Reason reason = report::write(whole, options_.report, report::Until::handed_over);
  if (reason) whole.verdict = report::Verdict::error;
  std::string lines;
  if (before < whole.findings.size()) {
    lines = fmt::format("slicecheck: {}\n", whole.findings[before].text);
  } else if (ending.trigger == Trigger::terminated) {
    lines = fmt::format("slicecheck: {}\n", whole.checks.back().text);
  }
  if (reason) lines += fmt::format("slicecheck: {}\n", reason.text());
  say(STDERR_FILENO, lines);
  say(STDOUT_FILENO, fmt::format("verdict: {}\n", report::name(whole.verdict)));
  return report::exit_code(whole.verdict);
}

Result<report::Report> from_journals(
    const std::string& folder,
    const std::function<std::vector<std::string>(std::string_view)>& checks_of) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error) return Reason(fmt::format("{}: {}", folder, error.message()));
  if (files.empty()) return Reason(fmt::format("{} holds no journal", folder));
  std::sort(files.begin(), files.end());
  std::vector<report::Report> parts;
  for (const std::string& file : files) {
    const Result<std::string> text = checkpoint::text_of(file, journal_bytes_max);
    if (text.reason) return text.reason;
    Result<report::Report> part = report::parsed(*text);
    if (part.reason) return Reason(fmt::format("{}: {}", file, part.reason.text()));
    parts.push_back(std::move(*part));
  }
  report::Report whole = report::merged(parts);
  if (whole.command.empty()) whole.command = "reshard";
  add_not_run(whole, checks_of(whole.command));
  std::vector<int> ranks;
  for (const report::RankEntry& each : whole.ranks) ranks.push_back(each.rank);
  whole.findings.push_back(
      finding("rank-lost", {},
              fmt::format("the run left no report; journals of rank {} are what is left",
                          fmt::join(ranks, ", "))));
  whole.verdict = report::Verdict::hung;
  return whole;
}

}  // namespace slicecheck::app
