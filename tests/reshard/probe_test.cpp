// The seed's rel L2, in one process and over a group of threads, against values that the seed's own
// code gave; and what it refuses.
#include "reshard/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "group/agree.h"
#include "group/local/local_group.h"
#include "tests/reshard/probe_inputs.h"

namespace slicecheck::reshard {
namespace {

class GoldenProbes : public testing::TestWithParam<int> {};

TEST_P(GoldenProbes, one_process_gives_the_seeds_value) {
  const int ranks = golden_ranks[GetParam()];
  for (const GoldenProbe& probe : golden_probes) {
    std::vector<ProbeRows> rows;
    for (int r = 0; r < ranks; ++r) rows.push_back(golden_rows(probe, r, ranks));
    ASSERT_FALSE(unequal(rows));
    const double due = probe.values[GetParam()];
    EXPECT_NEAR(rel_l2_of(route_norms(rows)), due, due * golden_precision);
  }
}

TEST_P(GoldenProbes, every_rank_of_a_group_gives_the_seeds_value) {
  const int ranks = golden_ranks[GetParam()];
  for (const GoldenProbe& probe : golden_probes) {
    std::vector<double> got(ranks);
    group::run_local({ranks}, [&](group::Group& group) {
      got[group.rank()] = probe_rel_l2(group, golden_rows(probe, group.rank(), ranks));
    });
    const double due = probe.values[GetParam()];
    EXPECT_NEAR(got[0], due, due * golden_precision);
    for (const double value : got) EXPECT_EQ(value, got[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GoldenProbes, testing::Range(0, 5));

// The refusal's text where rank 1 of 3 changes its rows.
template <typename Change>
std::string refusal_after(Change change) {
  std::string text;
  try {
    group::run_local({3}, [&](group::Group& group) {
      ProbeRows rows = golden_rows(golden_probes[0], group.rank(), 3);
      if (group.rank() == 1) change(rows);
      probe_rel_l2(group, rows);
    });
  } catch (const group::Refusal& refusal) {
    text = refusal.what();
  }
  return text;
}

TEST(Probe, all_ranks_refuse_what_one_rank_cannot_give) {
  EXPECT_EQ(refusal_after([](ProbeRows& rows) { rows.tp.map[5] = -1; }),
            "cannot probe the experts: the TP experts left a route unserved");
  EXPECT_EQ(refusal_after([](ProbeRows& rows) { rows.ep.map[3] = 99; }),
            "cannot probe the experts: EP: route 3 lies in row 99 of " +
                std::to_string(golden_rows(golden_probes[0], 1, 3).ep.rows.extents[0]));
  EXPECT_EQ(refusal_after([](ProbeRows& rows) {
              rows.ep.map.pop_back();
              rows.tp.map.pop_back();
            }),
            "cannot probe the experts: rank 1 has 7 routes of width 128, rank 0 8 of width 128");
}

TEST(Probe, norms_say_who_serves_a_route_and_where_it_is_not_finite) {
  const std::uint16_t one[2] = {0x3F80, 0};
  const std::uint16_t two[2] = {0x4000, 0};
  const std::uint16_t nan[2] = {0x3F80, 0x7FC1};
  const RouteNorms made = norms_of({{nullptr, one}, {two, one}, {one, nan}}, 2);
  EXPECT_EQ(made.ep_ranks, 2);
  EXPECT_EQ(made.ep_first, 1);
  EXPECT_EQ(made.ep_second, 2);
  EXPECT_EQ(made.tp_missing, -1);
  EXPECT_EQ(made.not_finite_tp, 2);
  EXPECT_EQ(made.not_finite_ep, -1);
  const RouteNorms lacks = norms_of({{two, one}, {nullptr, nullptr}, {nullptr, one}}, 2);
  EXPECT_EQ(lacks.tp_missing, 1);
  EXPECT_EQ(lacks.tp_ranks, 2);
  EXPECT_EQ(lacks.difference, 0);
  EXPECT_EQ(lacks.want, 4);
  // ulp 2^-6 of the EP row and of the sum, 2^-7 of two partial rows; zeros round nothing.
  EXPECT_EQ(lacks.rounding, 2 * 0x1p-12 + 2 * 0x1p-14);
}

TEST(Probe, a_sum_beyond_bf16_is_not_finite) {
  const std::uint16_t large[1] = {0x7F7F};
  const RouteNorms made = norms_of({{large, large}, {nullptr, large}}, 1);
  EXPECT_EQ(made.sum_not_finite, 1);
}

TEST(Probe, ulp_is_the_spacing_of_bf16) {
  EXPECT_EQ(bf16_ulp(0x3F80), 0x1p-7);        // 1
  EXPECT_EQ(bf16_ulp(0xBFFF), 0x1p-7);        // just below -2
  EXPECT_EQ(bf16_ulp(0x4000), 0x1p-6);        // 2
  EXPECT_EQ(bf16_ulp(0x8000), 0);             // -0
  EXPECT_TRUE(std::isinf(bf16_ulp(0xFF80)));  // -infinity
  EXPECT_TRUE(std::isinf(bf16_ulp(0x7FC0)));  // NaN
}

}  // namespace
}  // namespace slicecheck::reshard
