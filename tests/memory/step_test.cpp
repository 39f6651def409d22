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
        const RowStart start = row_start(tensor, offset / matrix.row_bytes);
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
      for (std::int64_t offset = 0; offset < matrix.bytes(); ++offset) {
        const std::int64_t m_tile = offset / m_tile_bytes;
        const std::int64_t k_tile = offset % m_tile_bytes / layout::sf_tile_bytes;
        const std::int64_t unit = offset % layout::sf_tile_bytes / 4;
        const UnitStart start = unit_start(tensor, m_tile, unit);
        const layout::PlainPlace place = place_of(tensor, offset);
        ASSERT_EQ(start.projection, place.projection);
        ASSERT_EQ(4 * (start.unit + k_tile) + offset % 4, plain_offset(tensor, place));
        const layout::PlainRow row = unit_row(kind, m_tile, unit);
        ASSERT_EQ(row.projection, place.projection);
        const std::int64_t moved = row.projection == layout::Projection::w2 ? 0 : tensor.d;
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
        ByteVector run(run_bytes(tensor));
        each_run(tensor, 5, [&](std::int64_t offset, const auto& write) {
          write(run.data());
          for (std::int64_t i = 0; i < std::ssize(run); ++i) {
            ASSERT_EQ(run[i], layout::payload_byte(tensor.payload, 5, place_of(tensor, offset + i),
                                                   tensor.whole));
          }
        });
      }
    }
  }
}

// A step of `numeric` never leaves the range, and steps of both payloads are the units' own values.
TEST(Step, a_unit_further_is_one_step) {
  const std::uint64_t key8 = layout::scale_key(1);
  for (std::int64_t g = 0; g < 100000; ++g) {
    ASSERT_EQ((layout::numeric_value(key8, g) + layout::numeric_step) % layout::numeric_range,
              layout::numeric_value(key8, g + 1));
    ASSERT_EQ(layout::bytes_value(key8, g) + layout::bytes_step, layout::bytes_value(key8, g + 1));
  }
}

}  // namespace
}  // namespace slicecheck::memory
