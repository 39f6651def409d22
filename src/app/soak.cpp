#include "app/soak.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "app/verdicts.h"

namespace slicecheck::app {
namespace {

constexpr std::int64_t warm_rounds = 20;   // buffers and caches have found their size
constexpr std::size_t findings_max = 100;  // of all rounds
constexpr std::int64_t growth_bytes_max = std::int64_t{16} << 20;

/// Memory of this process that lies in the machine's.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

/// Whether another round begins: the same answer on every rank. Collective.
bool goes_on(const Context& context, std::int64_t round) {
  const Options& options = context.options;
  if (options.seconds <= 0) return round < std::max<std::int64_t>(options.repeat, 1);
  const bool enough = options.repeat > 0 && round >= options.repeat;
  const bool time = context.progress.seconds() < options.seconds;
  return context.world.least(round == 0 || (time && !enough) ? 1 : 0) == 1;
}

report::Check counted(std::string_view id, std::int64_t compared, std::int64_t differing) {
  report::Check made;
  made.id = id;
  made.compared = compared;
  made.differing = differing;
  made.status = differing == 0 ? report::Status::passed : report::Status::failed;
  return made;
}

/// That memory stays as it was when the rounds had become alike.
report::Check memory_flat(std::int64_t rounds, std::int64_t warm_bytes) {
  report::Check made = counted("memory", rounds, 0);
  if (rounds <= warm_rounds) {
    made.status = report::Status::skipped;
    made.text = fmt::format("{} rounds are too few to tell", rounds);
    return made;
  }
  const std::int64_t growth = resident_bytes() - warm_bytes;
  made.figures = {{"growth_bytes", growth}};
  if (growth > growth_bytes_max) {
    made.differing = 1;
    made.status = report::Status::failed;
    made.text = fmt::format("memory grew by {} bytes after round {}", growth, warm_rounds);
  }
  return made;
}

/// What a run of any length keeps of its rounds: of each kind of probe and group the largest rel
/// L2, and the first findings. The checks are sums already.
void bound(report::Report& whole) {
  std::vector<report::Probe> largest;
  for (const report::Probe& probe : whole.probes) {
    const auto same = std::find_if(largest.begin(), largest.end(), [&](const report::Probe& other) {
      return other.kind == probe.kind && other.group == probe.group;
    });
    if (same == largest.end()) {
      largest.push_back(probe);
    } else if (!(probe.rel_l2 <= same->rel_l2)) {
      *same = probe;
    }
  }
  whole.probes = std::move(largest);
  if (whole.findings.size() > findings_max) whole.findings.resize(findings_max);
}

}  // namespace

report::Report soak(Context& context, CommandBody body) {
  report::Report whole;
  std::int64_t round = 0;
  std::int64_t differing = 0;
  std::int64_t warm_bytes = 0;
  for (; goes_on(context, round); ++round) {
    Options options = context.options;
    options.seed += static_cast<std::uint64_t>(round);
    Context once = context.with(options);
    report::Report part = body(once);
    part.verdict = report::worst(part.verdict, report::verdict_of(part));
    const bool passed = part.verdict == report::Verdict::passed;
    if (context.world.least(passed ? 1 : 0) == 0) {
      ++differing;
      if (context.world.rank() == 0) {
        complain(fmt::format("round {} with seed {} does not pass", round, options.seed));
      }
    }
    if (round > 0) part.ranks.clear();
    whole = report::merged({std::move(whole), std::move(part)});
    bound(whole);
    if (round == warm_rounds) warm_bytes = resident_bytes();
  }
  whole.checks.push_back(counted("rounds", round, differing));
  whole.checks.push_back(memory_flat(round, warm_bytes));
  return whole;
}

}  // namespace slicecheck::app
