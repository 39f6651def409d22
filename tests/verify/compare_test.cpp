// A planted byte is found at its place: in the tensor as stored, and in the checkpoint's terms.
#include "verify/compare.h"

#include <gtest/gtest.h>

#include "experts/payload.h"
#include "experts/place.h"

namespace slicecheck::verify {
namespace {

const layout::Shape shape{4, 128, 256, 2};
const layout::Payload payload{layout::PayloadKind::bytes, 2, 0};

experts::PlainExpert plain(std::int64_t expert) {
  return experts::payload_expert(payload, expert, layout::stock_widths(shape));
}

std::vector<TensorComparison> compared(const experts::TpExperts& tp, const Judged& judged) {
  const auto expected = [&](std::int64_t expert) {
    return experts::converted(experts::slice(plain(expert), judged.tp, judged.d));
  };
  return compare(judged, expected,
                 [&](layout::Kind kind) { return host_bytes(experts::tensor_of(tp, kind)); });
}

TEST(Compare, healthy_tensors_are_compared_whole_and_do_not_differ) {
  const Judged judged{report::Side::tp, 1, layout::stock_widths(shape), 2, 1, 0, 4};
  for (const TensorComparison& tensor : compared(experts::payload_tp(payload, shape, 1), judged)) {
    EXPECT_EQ(tensor.compared, 4 * layout::matrix(tensor.kind, judged.widths()).bytes());
    EXPECT_EQ(tensor.differing, 0);
    EXPECT_TRUE(tensor.experts.empty());
  }
}

TEST(Compare, every_planted_byte_is_found_at_its_place_in_the_checkpoint) {
  const Judged judged{report::Side::tp, 1, layout::stock_widths(shape), 2, 1, 0, 4};
  const layout::Widths whole = layout::stock_widths(shape);
  for (const layout::Kind kind : layout::kinds) {
    const std::int64_t bytes = layout::matrix(kind, judged.widths()).bytes();
    for (std::int64_t offset = 7; offset < bytes; offset += 1 + bytes / 50) {
      experts::TpExperts tp = experts::payload_tp(payload, shape, 1);
      const MutableBytes got = host_bytes(experts::tensor_of(tp, kind));
      const std::int64_t at = 3 * bytes + offset;
      got[at] ^= 1;
      got[at + 1 == 4 * bytes ? at : at + 1] ^= 2;
      const TensorComparison found = compared(tp, judged)[static_cast<std::size_t>(kind)];
      ASSERT_EQ(found.experts.size(), 1U);
      EXPECT_EQ(found.experts[0].expert, 3);
      EXPECT_EQ(found.experts[0].first, offset);
      const Bytes held = got.subspan(3 * bytes, bytes);
      const experts::PlainExpert from = plain(3);
      const ByteVector want =
          experts::bytes_of(experts::converted(experts::slice(from, 2, 1)), kind);
      const report::First first = first_difference(judged, kind, found.experts[0], want, held);
      EXPECT_EQ(first.offset, at);
      EXPECT_EQ(first.row * layout::matrix(kind, judged.widths()).row_bytes + first.byte, offset);
      // The logical place, looked up in the checkpoint's matrix, holds the byte that was due.
      const bool scale = layout::is_scale(kind);
      const layout::Projection projection =
          first.logical->projection == "w1"   ? layout::Projection::w1
          : first.logical->projection == "w3" ? layout::Projection::w3
                                              : layout::Projection::w2;
      const layout::PlainPlace place{projection, scale, first.logical->row,
                                     first.logical->column / (scale ? 16 : 2)};
      EXPECT_EQ(experts::byte_at(from, place), want[offset]);
      EXPECT_EQ(layout::payload_byte(payload, 3, place, whole), want[offset]);
      EXPECT_EQ(first.want, hex_from(want, offset));
    }
  }
}

}  // namespace
}  // namespace slicecheck::verify
