// Routes and their rows: what the generators promise, what is refused, and that a reader of
// permuted rows never sees the padding.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "moe/permute.h"

namespace slicecheck::moe {
namespace {

std::int64_t load_of(const Routing& routing, std::int64_t expert) {
  return static_cast<std::int64_t>(routes_of(routing, expert).size());
}

TEST(Routing, covering_serves_every_expert_alike) {
  const Routing made = covering({6, 8, 4, 3});
  EXPECT_FALSE(unroutable(made, 6));
  for (std::int64_t e = 0; e < 6; ++e) {
    EXPECT_GE(load_of(made, e), 5);
    EXPECT_LE(load_of(made, e), 6);
  }
  EXPECT_NE(made.experts, covering({6, 8, 4, 4}).experts);
}

TEST(Routing, skewed_loads_differ_many_times) {
  const Routing made = skewed({8, 200, 3, 1});
  EXPECT_FALSE(unroutable(made, 8));
  std::vector<std::int64_t> loads;
  for (std::int64_t e = 0; e < 8; ++e) loads.push_back(load_of(made, e));
  std::sort(loads.begin(), loads.end());
  EXPECT_GT(loads.back(), 8 * loads.front());
}

TEST(Routing, one_expert_takes_all_and_a_rank_gets_none) {
  EXPECT_EQ(load_of(all_to_one(9, 4), 4), 9);
  const Routing made = without({9, 20, 5, 1}, 3, 3);
  EXPECT_FALSE(unroutable(made, 9));
  for (std::int64_t e = 0; e < 9; ++e) EXPECT_EQ(load_of(made, e) == 0, e >= 3 && e < 6);
}

TEST(Routing, duplicates_and_foreign_experts_are_refused_with_their_route) {
  EXPECT_EQ(unroutable({2, 3, {0, 1, 2, 3, 1, 3}}, 4).text(),
            "token 1 goes to expert 3 twice, by routes 0 and 2");
  EXPECT_EQ(unroutable({1, 2, {0, 4}}, 4).text(), "token 0 goes to expert 4 of 4");
  EXPECT_EQ(unroutable({1, 2, {-1, 0}}, 4).text(), "token 0 goes to expert -1 of 4");
  EXPECT_EQ(unroutable({2, 2, {0, 1, 2}}, 4).text(), "3 routes, expected 2 tokens x 2 routes");
}

TEST(Permute, segments_start_at_tiles_and_hold_each_route_once) {
  const Routing routing = skewed({6, 40, 2, 5});
  for (const std::int64_t tile : {8, 64, 192, 256}) {
    const PermutedRows made = unwritten_rows(routing, {2, 3, 6}, 128, {tile, 9});
    std::set<std::int32_t> seen;
    std::int64_t start = 0;
    for (std::int64_t e = 2; e < 5; ++e) {
      for (const std::int64_t route : routes_of(routing, e)) {
        EXPECT_GE(made.map[route], start);
        EXPECT_LT(made.map[route], start + load_of(routing, e));
        EXPECT_TRUE(seen.insert(made.map[route]).second);
      }
      start += (load_of(routing, e) + tile - 1) / tile * tile;
    }
    for (const std::int64_t other : {0, 1, 5}) {
      for (const std::int64_t route : routes_of(routing, other)) EXPECT_EQ(made.map[route], -1);
    }
    EXPECT_LE(start, made.rows.extents[0]);
    EXPECT_GE(2 * 128 * made.rows.extents[0], 128 * 1024);
  }
}

TEST(Permute, rows_inside_a_segment_are_in_an_order_of_the_seed) {
  const Routing routing = all_to_one(30, 1);
  const PermutedRows made = unwritten_rows(routing, {0, 2, 2}, 128, {8, 1});
  EXPECT_FALSE(std::is_sorted(made.map.begin(), made.map.end()));
  EXPECT_NE(made.map, unwritten_rows(routing, {0, 2, 2}, 128, {8, 2}).map);
  EXPECT_EQ(made.map, unwritten_rows(routing, {0, 2, 2}, 128, {8, 1}).map);
}

TEST(Permute, route_rows_select_after_the_gather) {
  PermutedRows given;
  given.rows = host_tensor(Dtype::bf16, {3, 2});
  const std::uint16_t bits[] = {0x7FC0, 0x7FC0, 1, 2, 3, 4};  // row 0 is NaN
  std::memcpy(given.rows.data.get(), bits, sizeof bits);
  given.map = {2, -1, 1};
  const RouteRows made = route_rows(given);
  EXPECT_EQ(made.rows, (std::vector<std::uint16_t>{3, 4, 0, 0, 1, 2}));
  EXPECT_EQ(made.local, (std::vector<std::uint8_t>{1, 0, 1}));
}

TEST(Permute, rows_outside_the_buffer_are_refused) {
  PermutedRows given;
  given.rows = host_tensor(Dtype::bf16, {3, 2});
  given.map = {2, -5, 3};
  EXPECT_EQ(unreadable(given).text(), "route 2 lies in row 3 of 3");
  given.map[2] = 0;
  EXPECT_FALSE(unreadable(given));
  given.rows.dtype = Dtype::u8;
  EXPECT_EQ(unreadable(given).text(), "the route rows are U8 [3, 2], expected BF16 [P, H]");
}

}  // namespace
}  // namespace slicecheck::moe
