// The verdict over routes: each cause alone, with its numbers, and none on healthy rows.
#include "reshard/judge.h"

#include <gtest/gtest.h>

#include "tests/reshard/probe_inputs.h"

namespace slicecheck::reshard {
namespace {

// 33 tokens x 8 routes over 16 experts and 4 ranks; rel L2 1.03 floors.
struct Rows {
  std::vector<ProbeRows> ranks;
  moe::Routing routing = moe::covering({16, 33, 8, 1});

  Rows() {
    for (int r = 0; r < 4; ++r) ranks.push_back(golden_rows(golden_probes[2], r, 4));
  }
  Judged judge(const ProbeRule& rule = {}) const {
    return judged(route_norms(ranks), routing, rule);
  }
  std::uint16_t* tp_row(int rank, std::int64_t route) {
    return moe::row_of(ranks[rank].tp, ranks[rank].tp.map[route]);
  }
  int owner(std::int64_t route) const {
    for (int r = 0; r < 4; ++r) {
      if (ranks[r].ep.map[route] >= 0) return r;
    }
    return -1;
  }
};

void expect_only(const std::vector<ProbeFault>& faults, const std::string& cause,
                 const std::string& text) {
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].cause, cause);
  EXPECT_EQ(faults[0].text, text);
}

TEST(Judge, healthy_rows_pass_at_about_one_floor) {
  const Judged made = Rows().judge();
  EXPECT_TRUE(made.passed());
  EXPECT_EQ(made.compared, 33 * 8);
  EXPECT_GT(made.rel_l2, 0.9 * made.floor);
  EXPECT_LT(made.rel_l2, 1.1 * made.floor);
  EXPECT_EQ(made.bound, 3 * made.floor);
  ASSERT_TRUE(made.worst_route && made.worst_expert);
  EXPECT_GT(made.worst_route->rel_l2, made.rel_l2);
  EXPECT_EQ(made.worst_route->expert,
            Rows().routing.experts[8 * made.worst_route->token + made.worst_route->k]);
}

TEST(Judge, one_wrong_expert_is_named_though_the_sum_over_all_is_small) {
  Rows rows;
  const std::int64_t expert = rows.routing.experts[11];
  for (const std::int64_t route : moe::routes_of(rows.routing, expert)) {
    for (int h = 0; h < 128; ++h) rows.tp_row(2, route)[h] ^= 0x0010;  // an eighth of the part
  }
  const Judged made = rows.judge();
  ASSERT_EQ(made.number_faults.size(), 1U);
  EXPECT_EQ(made.number_faults[0].cause, "rel-l2-above-bound");
  EXPECT_EQ(made.number_faults[0].experts, std::vector<std::int64_t>{expert});
  EXPECT_EQ(made.above_bound, 1);
  EXPECT_EQ(made.worst_expert->expert, expert);
  EXPECT_GT(made.worst_expert->rel_l2, made.worst_expert->bound);
  EXPECT_NE(made.number_faults[0].text.find("1 of 16 experts above their bound, worst expert " +
                                            std::to_string(expert)),
            std::string::npos);
  // Without experts the verdict is over all routes alone.
  rows.routing.experts.clear();
  EXPECT_EQ(rows.judge().worst_expert, std::nullopt);
}

TEST(Judge, a_given_bound_stands_in_place_of_the_floors) {
  const Rows rows;
  const double off = rows.judge().rel_l2;
  EXPECT_TRUE(rows.judge({false, 2 * off}).passed());
  const Judged made = rows.judge({false, off / 2});
  EXPECT_FALSE(made.passed());
  EXPECT_EQ(made.bound, off / 2);
  EXPECT_TRUE(made.number_faults[0].experts.empty());  // all of them
}

TEST(Judge, the_exact_rule_allows_nothing) {
  EXPECT_FALSE(Rows().judge({true, {}}).passed());
  EXPECT_FALSE(Rows().judge({true, 1.0}).passed());
  Rows rows;
  for (ProbeRows& rank : rows.ranks) {  // all rows zero but one element, on one rank
    std::fill_n(moe::row_of(rank.tp, 0), rank.tp.rows.extents[0] * 128, 0);
    std::fill_n(moe::row_of(rank.ep, 0), rank.ep.rows.extents[0] * 128, 0);
  }
  for (std::int64_t route = 0; route < 264; ++route) {
    rows.tp_row(1, route)[7] = 0x3F81;
    const int owner = rows.owner(route);
    moe::row_of(rows.ranks[owner].ep, rows.ranks[owner].ep.map[route])[7] = 0x3F81;
  }
  EXPECT_TRUE(rows.judge({true, {}}).passed());
  rows.tp_row(1, 4)[7] = 0x3F80;
  EXPECT_FALSE(rows.judge({true, {}}).passed());
  EXPECT_EQ(rows.judge({true, {}}).worst_route->token, 0);
  EXPECT_EQ(rows.judge({true, {}}).worst_route->k, 4);
}

TEST(Judge, a_route_that_no_ep_rank_serves_is_named) {
  Rows rows;
  rows.ranks[rows.owner(20)].ep.map[20] = -1;
  const Judged made = rows.judge();
  expect_only(made.route_faults, "route-unserved",
              "no EP rank serves 1 of 264 routes, the first route (token 2, k 4) of expert " +
                  std::to_string(rows.routing.experts[20]));
  EXPECT_TRUE(made.number_faults.empty());
  EXPECT_EQ(made.compared, 263);
}

TEST(Judge, a_route_that_two_ep_ranks_serve_is_named_with_both) {
  Rows rows;
  const int other = rows.owner(20) == 3 ? 1 : 3;
  rows.ranks[other].ep.map[20] = 2;
  const Judged made = rows.judge();
  ASSERT_EQ(made.route_faults.size(), 1U);
  EXPECT_EQ(made.route_faults[0].cause, "route-served-twice");
  const int owner = rows.owner(20) == other ? 0 : rows.owner(20);
  EXPECT_EQ(made.route_faults[0].ranks,
            (std::vector<int>{std::min(owner, other), std::max(owner, other)}));
  EXPECT_TRUE(made.number_faults.empty());
}

TEST(Judge, a_route_that_tp_lacks_is_named_with_its_rank) {
  Rows rows;
  rows.ranks[2].tp.map[263] = -1;
  const Judged made = rows.judge();
  expect_only(made.route_faults, "route-unserved",
              "the TP experts left a route unserved: 1 of 264 routes, the first route (token 32, "
              "k 7) of expert " +
                  std::to_string(rows.routing.experts[263]) + ", on rank 2");
  EXPECT_EQ(made.route_faults[0].ranks, std::vector<int>{2});
}

TEST(Judge, nan_and_infinity_in_served_rows_are_named_with_route_and_rank) {
  for (const int bits : {0x7FC0, 0x7F80, 0xFF80}) {
    Rows rows;
    rows.tp_row(1, 9)[100] = static_cast<std::uint16_t>(bits);
    const Judged made = rows.judge();
    expect_only(made.number_faults, "rows-not-finite",
                "NaN or infinity in 1 of 264 routes, the first route (token 1, k 1) of expert " +
                    std::to_string(rows.routing.experts[9]) + ", in the TP row of rank 1");
    EXPECT_EQ(made.compared, 263);
    EXPECT_TRUE(made.route_faults.empty());
  }
  Rows rows;
  const int owner = rows.owner(9);
  moe::row_of(rows.ranks[owner].ep, rows.ranks[owner].ep.map[9])[0] = 0x7FC0;
  EXPECT_EQ(rows.judge().number_faults[0].ranks, std::vector<int>{owner});
}

TEST(Judge, zero_over_zero_is_a_cause_of_its_own) {
  Rows rows;
  for (ProbeRows& rank : rows.ranks) {
    std::fill_n(moe::row_of(rank.tp, 0), rank.tp.rows.extents[0] * 128, 0x8000);
    std::fill_n(moe::row_of(rank.ep, 0), rank.ep.rows.extents[0] * 128, 0);
  }
  expect_only(rows.judge().number_faults, "reference-zero",
              "the EP rows of all 264 routes are zero");
  expect_only(judged({}, {}, {}).number_faults, "reference-zero", "there is no route to compare");
}

TEST(Judge, an_expert_whose_rows_are_zero_proves_nothing) {
  Rows rows;
  const std::int64_t expert = rows.routing.experts[0];
  for (const std::int64_t route : moe::routes_of(rows.routing, expert)) {
    for (int r = 0; r < 4; ++r) std::fill_n(rows.tp_row(r, route), 128, 0);
    const int owner = rows.owner(route);
    std::fill_n(moe::row_of(rows.ranks[owner].ep, rows.ranks[owner].ep.map[route]), 128, 0);
  }
  expect_only(rows.judge().number_faults, "reference-zero",
              "the EP rows of 1 experts are zero, the first expert " + std::to_string(expert));
}

TEST(Unequal, rows_of_different_probes_are_refused_with_their_numbers) {
  Rows rows;
  EXPECT_FALSE(unequal(rows.ranks));
  rows.ranks[3].tp.map.pop_back();
  EXPECT_EQ(unequal(rows.ranks).text(),
            "rank 3: EP has 264 routes of width 128, TP 263 of width 128");
  rows.ranks[3].ep.map.pop_back();
  EXPECT_EQ(unequal(rows.ranks).text(),
            "rank 3 has 263 routes of width 128, rank 0 264 of width 128");
  rows.ranks[1].tp.map[7] = 1 << 30;
  EXPECT_EQ(unequal(rows.ranks).text(), "rank 1: TP: route 7 lies in row 1073741824 of 266");
}

}  // namespace
}  // namespace slicecheck::reshard
