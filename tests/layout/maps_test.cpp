// The maps over small spaces in full: every row and column of one and two tiles, every tp up to 16
// with every I up to 1024 that it cuts. Anchors beside them are worked values from elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "layout/cut.h"
#include "layout/payload.h"
#include "layout/place.h"

namespace slicecheck::layout {
namespace {

constexpr std::int64_t tp_most = 16;
constexpr std::int64_t intermediate_most = 1024;

// Every (tp, I) that cuts, with H of one tile.
std::vector<Shape> all_cuts() {
  std::vector<Shape> made;
  for (std::int64_t tp = 2; tp <= tp_most; ++tp) {
    for (std::int64_t i = 1; i <= intermediate_most; ++i) {
      const Shape shape{tp, 128, i, tp};
      if (!unsupported(shape)) made.push_back(shape);
    }
  }
  return made;
}

// For tp from 2 to 16, I counts in steps of 64 tp up to 1024: 8 + 5 + 4 + 3 + 2 + 2 + 2 + 9 x 1
// - 1.
TEST(Cut, the_space_is_all_of_it) {
  std::size_t due = 0;
  for (std::int64_t tp = 2; tp <= tp_most; ++tp) due += 16 / tp;
  EXPECT_EQ(all_cuts().size(), due);
  EXPECT_EQ(due, 34U);
}

TEST(Rows, w13_of_128_rows_has_the_worked_order) {
  const std::vector<std::int64_t> first{0, 2, 4, 6, 8, 10, 12, 14, 64, 66, 68, 70, 72, 74, 76, 78,
                                        1, 3, 5, 7, 9, 11, 13, 15, 65, 67, 69, 71, 73, 75, 77, 79};
  for (std::int64_t dest = 0; dest < 64; ++dest) {
    const PlainRow source = w13_source(dest);
    const std::int64_t stacked = source.row + (source.projection == Projection::w1 ? 64 : 0);
    EXPECT_EQ(stacked, first[dest % 32] + 16 * (dest / 32)) << dest;
  }
}

TEST(Rows, shuffle_of_32_has_the_worked_order) {
  const std::vector<std::int64_t> due{0, 4, 8,  12, 16, 20, 24, 28, 1, 5, 9,  13, 17, 21, 25, 29,
                                      2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31};
  for (std::int64_t dest = 0; dest < 32; ++dest) EXPECT_EQ(shuffle_source(dest), due[dest]);
}

TEST(Rows, every_row_of_two_blocks_goes_and_comes_back) {
  for (std::int64_t row = 0; row < 64; ++row) {
    EXPECT_EQ(shuffle_dest(shuffle_source(row)), row);
    EXPECT_EQ(shuffle_source(shuffle_dest(row)), row);
    EXPECT_EQ(w13_dest(w13_source(row)), row);
    EXPECT_EQ(gated_dest(gated_source(row)), row);
  }
}

TEST(SfTile, every_scale_of_one_and_two_tiles_each_way_has_its_own_byte) {
  for (const std::int64_t rows : {128, 256}) {
    for (const std::int64_t cols : {4, 8}) {
      std::vector<char> taken(static_cast<std::size_t>(rows * cols));
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t col = 0; col < cols; ++col) {
          const std::int64_t offset = sf_offset(row, col, cols);
          ASSERT_LT(offset, rows * cols);
          EXPECT_EQ(taken[offset]++, 0);
          EXPECT_EQ(sf_source(offset, cols), (SfPlace{row, col}));
        }
      }
    }
  }
}

TEST(SfTile, offsets_are_the_worked_ones) {
  EXPECT_EQ(sf_offset(0, 0, 8), 0);
  EXPECT_EQ(sf_offset(0, 4, 8), 512);
  EXPECT_EQ(sf_offset(31, 0, 8), 496);
  EXPECT_EQ(sf_offset(32, 0, 8), 4);
  EXPECT_EQ(sf_offset(127, 3, 8), 511);
  EXPECT_EQ(sf_offset(128, 0, 8), 1024);
  EXPECT_EQ(sf_offset(130, 5, 8), 1569);
}

// One expert's slices, byte for byte in index form: what lies in slice d at `at` is what the whole
// has at the place that the cut takes.
void expect_cut_takes_the_slice(const Shape& shape, Kind kind) {
  const Cut taken = cut(kind, shape);
  EXPECT_EQ(taken.expert_bytes, shape.tp * taken.slice_bytes());
  EXPECT_EQ(taken.slice_bytes(), matrix(kind, tp_widths(shape)).bytes());
  std::int64_t wrong = 0;
  for (std::int64_t d = 0; d < shape.tp; ++d) {
    for (std::int64_t at = 0; at < taken.slice_bytes(); ++at) {
      const std::int64_t offset =
          at / taken.run_bytes * taken.run_stride + d * taken.run_bytes + at % taken.run_bytes;
      const PlainPlace own = plain_place(kind, at, tp_widths(shape));
      const PlainPlace whole = plain_place(kind, offset, stock_widths(shape));
      wrong += whole == whole_place(own, d, shape.slice()) ? 0 : 1;
      wrong += converted_offset(whole, stock_widths(shape)) == offset ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0) << name(kind) << " tp " << shape.tp << " I " << shape.intermediate;
}

TEST(Cut, every_tp_up_to_16_and_every_intermediate_up_to_1024_is_free) {
  for (const Shape& shape : all_cuts()) {
    for (const Kind kind : kinds) expect_cut_takes_the_slice(shape, kind);
  }
}

TEST(Cut, two_m_tiles_of_w2_sf_are_cut_by_k_tiles) {
  for (const std::int64_t hidden : {256, 384}) {
    for (const Kind kind : kinds) expect_cut_takes_the_slice({3, hidden, 384, 3}, kind);
  }
}

// What is refused among all small widths is exactly what the two conditions of the theorem exclude.
TEST(Shape, unsupported_is_exactly_what_does_not_cut) {
  for (std::int64_t tp = 0; tp <= tp_most; ++tp) {
    for (std::int64_t i = 16; i <= intermediate_most; i += 16) {
      for (const std::int64_t h : {64, 128, 192, 256}) {
        const bool cuts = tp >= 2 && i % tp == 0 && i / tp % 64 == 0 && h % 128 == 0;
        EXPECT_EQ(static_cast<bool>(unsupported(Shape{tp, h, i, tp})), !cuts)
            << tp << " " << i << " " << h;
      }
    }
  }
}

TEST(Payload, layers_change_the_high_half_of_the_seed) {
  EXPECT_EQ(layer_seed(5, 0), 5U);
  EXPECT_EQ(layer_seed(5, 3), 5U ^ (std::uint64_t{3} << 32));
}

TEST(Payload, mixers_are_the_published_ones) {
  // SplitMix64 from state 0: its first two outputs.
  EXPECT_EQ(mix64(golden_gamma), 0xE220A8397B1DCDAFU);
  EXPECT_EQ(mix64(2 * golden_gamma), 0x6E789E6AA1B965F4U);
  // fmix32 of MurmurHash3.
  EXPECT_EQ(mix32(0), 0U);
  EXPECT_EQ(mix32(1), 0x514E28B7U);
}

TEST(Payload, numeric_units_are_finite_positive_and_unique) {
  const std::uint64_t key8 = scale_key(7);
  std::vector<std::uint32_t> seen;
  for (std::int64_t g = 0; g < 20000; ++g) {
    const std::uint32_t unit = numeric_unit(key8, g);
    for (int i = 0; i < 4; ++i) {
      EXPECT_GE(unit >> (8 * i) & 255, 1U);
      EXPECT_LE(unit >> (8 * i) & 255, 126U);
    }
    seen.push_back(unit);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(Payload, exact_rounds_reach_every_channel_of_every_row_once) {
  const Widths widths{128, 320};
  std::vector<int> reached(static_cast<std::size_t>(widths.intermediate));
  for (std::int64_t round = 0; round < exact_rounds(widths); ++round) {
    for (std::int64_t row = 0; row < widths.hidden; ++row) {
      ++reached[exact_channel(row, round, widths)];
    }
  }
  for (const int times : reached) EXPECT_GE(times, 1);
  EXPECT_EQ(exact_rounds({128, 128}), 1);
  EXPECT_EQ(exact_rounds({128, 129}), 2);
}

}  // namespace
}  // namespace slicecheck::layout
