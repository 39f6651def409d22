// How fast the laws go: layouts resharded in full a second and core at 2, 4 and 8 ranks, and how
// long a planted mistake takes to shrink. Alone it runs the local group; under a launcher, the
// launch's ranks over MPI. SLICECHECK_CASES is how many layouts.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdlib>
#include <numeric>

#include "group/launch.h"
#include "group/local/local_group.h"
#include "group/mpi/mpi_group.h"
#include "properties/planted.h"
#include "properties/run/run.h"

namespace slicecheck::properties {
namespace {

constexpr std::string_view law = "Reshard.equals_the_conversion_of_the_slice";
constexpr std::chrono::seconds wait_limit{120};

Plan plan() {
  const char* cases = std::getenv("SLICECHECK_CASES");
  Plan made;
  made.cases = cases != nullptr ? std::strtoll(cases, nullptr, 10) : 300;
  return made;
}

double cpu_seconds() {
  ::rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const ::timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

Subject planted_subject() {
  Subject made;
  for (const Planted& each : planted_groups()) {
    if (each.name == "slices sent to the rank before") made = each.subject;
  }
  return made;
}

// What every rank says, added up. Collective.
double summed(group::Group& world, double mine) {
  std::vector<double> all(world.size());
  world.share({reinterpret_cast<const std::uint8_t*>(&mine), sizeof mine},
              {reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof mine});
  return std::accumulate(all.begin(), all.end(), 0.0);
}

void tell(benchmark::State& state, const Outcome& outcome, double cpu) {
  const auto cases = static_cast<double>(outcome.cases);
  if (!outcome.passed()) state.SkipWithError(text(outcome).c_str());
  state.counters["cases"] = cases;
  state.counters["cases_a_second"] = cases / outcome.seconds;
  state.counters["cases_a_core_second"] = cases / cpu;
}

void tell_shrunk(benchmark::State& state, const Outcome& outcome) {
  if (!outcome.broken) return state.SkipWithError("the planted mistake was not caught");
  state.counters["shrinks"] = static_cast<double>(outcome.broken->shrinks);
  state.counters["shrink_seconds"] = outcome.broken->shrink_seconds;
}

// Rank 0's outcome on a local group of so many threads.
Outcome local_outcome(int ranks, const Subject& subject) {
  Outcome made;
  group::run_local({ranks, wait_limit}, [&](group::Group& world) {
    const Outcome mine = run(world, *law_named(law), plan(), subject);
    if (world.rank() == 0) made = mine;
  });
  return made;
}

void local_cases(benchmark::State& state) {
  for ([[maybe_unused]] auto turn : state) {
    const double before = cpu_seconds();
    const Outcome outcome = local_outcome(static_cast<int>(state.range(0)), Subject());
    tell(state, outcome, cpu_seconds() - before);
  }
}

void local_shrink(benchmark::State& state) {
  for ([[maybe_unused]] auto turn : state) {
    tell_shrunk(state, local_outcome(static_cast<int>(state.range(0)), planted_subject()));
  }
}

void mpi_cases(benchmark::State& state, group::Group& world) {
  for ([[maybe_unused]] auto turn : state) {
    const double before = cpu_seconds();
    const Outcome outcome = run(world, *law_named(law), plan(), Subject());
    tell(state, outcome, summed(world, cpu_seconds() - before));
  }
}

void mpi_shrink(benchmark::State& state, group::Group& world) {
  for ([[maybe_unused]] auto turn : state) {
    tell_shrunk(state, run(world, *law_named(law), plan(), planted_subject()));
  }
}

// Every rank runs the same once, in step: the benchmark's own repetitions would not be.
void once(benchmark::internal::Benchmark* made) {
  made->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);
}

class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

void run_over_mpi() {
  const group::Session session;
  const std::unique_ptr<group::Group> world = session.world();
  const std::string ranks = "/" + std::to_string(world->size());
  once(benchmark::RegisterBenchmark(("mpi_cases" + ranks).c_str(), mpi_cases, std::ref(*world)));
  once(benchmark::RegisterBenchmark(("mpi_shrink" + ranks).c_str(), mpi_shrink, std::ref(*world)));
  if (world->rank() == 0) {
    benchmark::RunSpecifiedBenchmarks();
    return;
  }
  Silent silent;
  benchmark::RunSpecifiedBenchmarks(&silent);
}

void run_alone() {
  for (const int ranks : {2, 4, 8}) {
    once(benchmark::RegisterBenchmark("local_cases", local_cases)->Arg(ranks));
    once(benchmark::RegisterBenchmark("local_shrink", local_shrink)->Arg(ranks));
  }
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace
}  // namespace slicecheck::properties

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (slicecheck::group::launch().has_value()) {
    slicecheck::properties::run_over_mpi();
  } else {
    slicecheck::properties::run_alone();
  }
  benchmark::Shutdown();
}
