// Which law catches which mistake: each is planted alone and its law must break, shrunk to one or
// two tiles and one or two experts a rank, the same on every rank and for every number of ranks.
#include "properties/planted.h"

#include <gtest/gtest.h>

#include "app/subject.h"
#include "group/local/local_group.h"
#include "properties/run/run.h"

namespace slicecheck::properties {
namespace {

constexpr std::chrono::seconds wait_limit{60};
constexpr double shrink_seconds_most = 10;

Plan small_plan() {
  Plan plan;
  plan.cases = 60;
  plan.ranks_up_to = 4;
  return plan;
}

Outcome outcome_of(const Planted& planted, const Plan& plan, int ranks) {
  std::vector<Outcome> all(ranks);
  const Law law = *law_named(planted.law);
  const Subject subject = app::with_commands(planted.subject);
  group::run_local({ranks, wait_limit}, [&](group::Group& world) {
    all[world.rank()] = run(world, law, plan, subject);
  });
  for (const Outcome& each : all) EXPECT_EQ(text(each), text(all[0]));
  return all[0];
}

class PlantedMistakes : public testing::TestWithParam<Planted> {};

TEST_P(PlantedMistakes, are_caught_by_their_law_in_the_smallest_case) {
  const Outcome outcome = outcome_of(GetParam(), small_plan(), 4);
  ASSERT_TRUE(outcome.broken) << GetParam().law << " does not catch: " << GetParam().name;
  const Broken& broken = *outcome.broken;
  std::printf("%s: %s, by %s: %s\n", GetParam().name.c_str(), GetParam().law.c_str(),
              text(broken.given).c_str(), broken.text.c_str());
  const layout::Shape& shape = broken.given.shape;
  EXPECT_LE(shape.hidden, 2 * 128);
  EXPECT_LE(shape.slice() / broken.given.again, 2 * 64);
  EXPECT_LE(shape.experts_per_rank(), 2);
  EXPECT_LE(shape.tp, 3);
  EXPECT_LT(broken.shrink_seconds, shrink_seconds_most);
}

TEST_P(PlantedMistakes, shrink_to_the_same_case_on_more_ranks) {
  const Outcome four = outcome_of(GetParam(), small_plan(), 4);
  const Outcome six = outcome_of(GetParam(), small_plan(), 6);
  ASSERT_TRUE(four.broken && six.broken);
  EXPECT_EQ(text(four), text(six));
}

std::vector<Planted> all_planted() {
  std::vector<Planted> all = planted_maps();
  for (const std::vector<Planted>& more : {planted_groups(), planted_moe(), planted_files()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string test_name(const testing::TestParamInfo<Planted>& made) {
  std::string name = made.param.name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedMistakes, testing::ValuesIn(all_planted()), test_name);

// A law that nothing planted breaks proves nothing by passing.
TEST(PlantedTable, every_law_catches_something) {
  for (const Law& law : laws()) {
    bool catches = false;
    for (const Planted& each : all_planted()) catches = catches || each.law == law.name;
    EXPECT_TRUE(catches) << law.name;
  }
}

}  // namespace
}  // namespace slicecheck::properties
