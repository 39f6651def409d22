// The stepping of hot loops is tied to layout's maps: every word and every unit that a row or a
// tile steps to is the one that the map gives byte by byte.
#include "memory/step.h"

#include <gtest/gtest.h>

#include "memory/host/payload_run.h"

namespace slicecheck::memory {
namespace {

using layout::Kind;

std::vector<PayloadTensor> tensors(Kind kind) {
  std::vector<PayloadTensor> all;
  for (const layout::Widths& whole :
       {layout::Widths{128, 128}, layout::Widths{640, 384}, layout::Widths{256, 640}}) {
    for (const std::int64_t tp : {std::int64_t{1}, whole.intermediate / 64}) {
      for (const std::int64_t d : {std::int64_t{0}, tp - 1}) {
        all.push_back({{}, kind, whole, tp, d, 0, 1});
      }
    }
  }
  return all;
}

layout::PlainPlace place_of(const PayloadTensor& tensor, std::int64_t offset) {
  return layout::whole_place(layout::plain_place(tensor.kind, offset, tensor.widths()), tensor.d,
                             tensor.widths().intermediate);
}

std::int64_t plain_offset(const PayloadTensor& tensor, const layout::PlainPlace& place) {
  return place.row * layout::plain_matrix(place.projection, place.scale, tensor.whole).row_bytes +
         place.byte;
}

TEST(Step, a_row_is_its_words_in_turn) {
  for (const Kind kind : {Kind::w13, Kind::w2}) {
    for (const PayloadTensor& tensor : tensors(kind)) {
      const layout::Matrix matrix = layout::matrix(kind, tensor.widths());
      for (std::int64_t offset = 0; offset < matrix.bytes(); ++offset) {
        const RowStart start = row_steps(tensor).start(offset / matrix.row_bytes);
        const layout::PlainPlace place = place_of(tensor, offset);
        ASSERT_EQ(start.projection, place.projection);
        ASSERT_EQ(start.row, place.row);
        ASSERT_EQ(8 * start.word + offset % matrix.row_bytes, plain_offset(tensor, place));
      }
    }
  }
}

TEST(Step, a_tile_is_its_units_in_turn) {
  for (const Kind kind : {Kind::w13_sf, Kind::w2_sf}) {
    for (const PayloadTensor& tensor : tensors(kind)) {
      const layout::Matrix matrix = layout::matrix(kind, tensor.widths());
      const std::int64_t m_tile_bytes = layout::sf_tile_rows * matrix.row_bytes;
      const UnitSteps steps = unit_steps(tensor);
      for (std::int64_t offset = 0; offset < matrix.bytes(); ++offset) {
        const std::int64_t m_tile = offset / m_tile_bytes;
        const std::int64_t k_tile = offset % m_tile_bytes / layout::sf_tile_bytes;
        const std::int64_t unit = offset % layout::sf_tile_bytes / 4;
        const layout::PlainPlace place = place_of(tensor, offset);
        const std::int64_t at = plain_offset(tensor, place);
        ASSERT_EQ(steps.first(unit) + steps.further(7, m_tile, k_tile),
                  layout::scale_unit(7, place.projection, at / 4, tensor.whole));
        ASSERT_EQ(offset % 4, at % 4);
        const layout::PlainRow row = unit_row(kind, m_tile, unit);
        const std::int64_t moved = row.projection == layout::Projection::w2 ? 0 : tensor.d;
        ASSERT_EQ(row.projection, place.projection);
        ASSERT_EQ(row.row + moved * tensor.widths().intermediate, place.row);
      }
    }
  }
}

TEST(Step, runs_are_the_payload_byte_by_byte) {
  for (const layout::PayloadKind payload :
       {layout::PayloadKind::bytes, layout::PayloadKind::numeric, layout::PayloadKind::exact}) {
    for (const Kind kind : layout::kinds) {
      for (PayloadTensor tensor : tensors(kind)) {
        tensor.payload = {payload, 11, payload == layout::PayloadKind::exact ? 1 : 0};
        const PayloadRuns runs(tensor);
        ByteVector bytes(runs.run_bytes());
        std::int64_t offset = 0;
        runs.each_run(5, [&](const memory::Run& run) {
          runs.write(bytes.data(), run);
          ASSERT_EQ(offset, run.at * runs.unit_bytes());
          for (std::int64_t i = 0; i < run.count * runs.unit_bytes(); ++i, ++offset) {
            ASSERT_EQ(bytes[i], layout::payload_byte(tensor.payload, 5, place_of(tensor, offset),
                                                     tensor.whole));
          }
        });
        ASSERT_EQ(offset, tensor.expert_bytes());
      }
    }
  }
}

// Every value of the low pair, and high pairs from end to end with the values beside their edges.
TEST(Step, fast_digits_are_the_digits) {
  for (std::uint32_t low = 0; low < 15876; ++low) {
    for (std::uint32_t high = 0; high < 15876; high += 97) {
      const std::uint32_t value = high * 15876 + low;
      ASSERT_EQ(fast_digits(value), layout::numeric_digits(value));
    }
  }
  for (std::uint32_t high = 0; high < 15876; ++high) {
    for (const std::uint32_t low : {0U, 125U, 126U, 15874U, 15875U}) {
      const std::uint32_t value = high * 15876 + low;
      ASSERT_EQ(fast_digits(value), layout::numeric_digits(value));
    }
  }
}

// From any unit to any other, also where `numeric` wraps and where numbers pass 2^32.
TEST(Step, a_unit_further_is_one_step) {
  const std::uint64_t key8 = layout::scale_key(1);
  for (const std::int64_t g : {std::int64_t{0}, std::int64_t{1} << 33}) {
    for (std::int64_t n = 0; n < (std::int64_t{1} << 33); n = 2 * n + 12345) {
      ASSERT_EQ(bytes_unit_at(layout::bytes_value(key8, g), bytes_further(n)),
                layout::bytes_unit(key8, g + n));
      ASSERT_EQ(numeric_unit_at(layout::numeric_value(key8, g), numeric_further(n)),
                layout::numeric_unit(key8, g + n));
    }
  }
}

}  // namespace
}  // namespace slicecheck::memory
