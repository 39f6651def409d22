// The seed's rel L2 over processes: the golden values, and the bits that threads give.
#include <gtest/gtest.h>

#include "group/local/local_group.h"
#include "tests/rank_main.h"
#include "tests/reshard/probe_inputs.h"

namespace slicecheck::reshard {
namespace {

double over_threads(const GoldenProbe& probe, int ranks) {
  std::vector<double> got(ranks);
  group::run_local({ranks}, [&](group::Group& group) {
    got[group.rank()] = probe_rel_l2(group, golden_rows(probe, group.rank(), ranks));
  });
  return got[0];
}

TEST(ProbeRanks, processes_give_the_seeds_values_and_the_bits_of_threads) {
  group::Group& group = rank_group();
  const auto* at = std::find(golden_ranks, golden_ranks + 5, group.size());
  const bool recorded = at != golden_ranks + 5;
  EXPECT_TRUE(recorded);
  if (!recorded) return;
  for (const GoldenProbe& probe : golden_probes) {
    const double got = probe_rel_l2(group, golden_rows(probe, group.rank(), group.size()));
    const double due = probe.values[at - golden_ranks];
    EXPECT_NEAR(got, due, due * golden_precision);
    EXPECT_EQ(got, over_threads(probe, group.size()));
  }
}

}  // namespace
}  // namespace slicecheck::reshard
