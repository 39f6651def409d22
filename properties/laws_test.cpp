// Every law, over random cases from a fixed seed, as one test a law.
#include <gtest/gtest.h>

#include "properties/run/run.h"

namespace slicecheck::properties {
namespace {

class Laws : public testing::TestWithParam<Law> {};

TEST_P(Laws, hold_and_reach_every_class) {
  Plan plan;
  plan.cases = 200;
  std::printf("seed %llu\n", static_cast<unsigned long long>(plan.seed));
  const Outcome outcome = run(GetParam(), plan, Subject());
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
