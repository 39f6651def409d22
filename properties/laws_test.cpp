// Every law, over random cases from one seed, as one test a law. SLICECHECK_SEED and
// SLICECHECK_CASES are for other nights and longer ones.
#include <gtest/gtest.h>

#include <cstdlib>

#include "app/subject.h"
#include "group/local/local_group.h"
#include "properties/run/run.h"

namespace slicecheck::properties {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* set = std::getenv(name);
  return set ? std::strtoull(set, nullptr, 10) : otherwise;
}

class Laws : public testing::TestWithParam<Law> {};

constexpr std::chrono::seconds wait_limit{60};

// The outcome on rank 0 of a local group; every rank must have the same.
Outcome outcome_of(const Law& law, const Plan& plan, int ranks) {
  std::vector<Outcome> all(ranks);
  const Subject subject = app::with_commands(Subject());
  group::run_local({ranks, wait_limit}, [&](group::Group& world) {
    all[world.rank()] = run(world, law, plan, subject);
  });
  for (const Outcome& each : all) EXPECT_EQ(text(each), text(all[0]));
  return all[0];
}

TEST_P(Laws, hold_and_reach_every_class) {
  Plan plan;
  plan.seed = from_environment("SLICECHECK_SEED", 1);
  plan.cases = static_cast<std::int64_t>(from_environment("SLICECHECK_CASES", 100));
  plan.draws = 1000;
  std::printf("seed %llu\n", static_cast<unsigned long long>(plan.seed));
  const Outcome outcome = outcome_of(GetParam(), plan, 8);
  std::printf("%s\n", text(outcome).c_str());
  EXPECT_TRUE(outcome.passed()) << text(outcome);
}

std::string test_name(const testing::TestParamInfo<Law>& info) {
  std::string made(info.param.name);
  made[made.find('.')] = '_';
  return made;
}

INSTANTIATE_TEST_SUITE_P(All, Laws, testing::ValuesIn(laws()), test_name);

}  // namespace
}  // namespace slicecheck::properties
