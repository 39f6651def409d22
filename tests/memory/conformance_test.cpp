// One suite for every space: the same bytes as `experts`, which moves rows on the host and is the
// text that others are checked against.
#include <gtest/gtest.h>

#include <numeric>

#include "experts/payload.h"
#include "experts/place.h"
#include "tests/memory/spaces.h"

namespace slicecheck::memory {
namespace {

using layout::Kind;
using layout::PayloadKind;

// Shapes: one tile of everything; the default case's odd counts; a single 64-channel slice of many;
// rows of w2 that are 96 and 128 bytes; more rows than a thread block has threads.
const std::vector<layout::Shape> shapes{
    {2, 128, 128, 2}, {6, 640, 384, 3}, {5, 256, 320, 5}, {2, 384, 384, 2}, {2, 1280, 512, 2}};

struct Case {
  layout::Shape shape;
  layout::Payload payload;
};

void PrintTo(const Case& made, std::ostream* out) {
  *out << "E " << made.shape.experts << " H " << made.shape.hidden << " I "
       << made.shape.intermediate << " tp " << made.shape.tp << " " << name(made.payload.kind)
       << " round " << made.payload.round;
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const layout::Shape& shape : shapes) {
    all.push_back({shape, {PayloadKind::bytes, 1, 0}});
    all.push_back({shape, {PayloadKind::numeric, 0xFFFFFFFFFFFFFFF7U, 0}});
    const std::int64_t rounds = layout::exact_rounds(layout::stock_widths(shape));
    for (std::int64_t round = 0; round < rounds; ++round) {
      all.push_back({shape, {PayloadKind::exact, 3, round}});
    }
  }
  return all;
}

ByteVector joined(const std::vector<ByteVector>& parts) {
  ByteVector all;
  for (const ByteVector& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class SpaceConformance : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    space_ = space_under_test();
    if (!space_) GTEST_SKIP() << "this machine has no such memory";
  }

  std::shared_ptr<std::uint8_t> poisoned(std::int64_t bytes) {
    auto made = space_->allocate(bytes, "a test's buffer");
    EXPECT_FALSE(made.reason);
    space_->fill((*made).get(), 0xA5, bytes);
    return *made;
  }

  std::shared_ptr<std::uint8_t> uploaded(const ByteVector& bytes) {
    auto made = poisoned(std::ssize(bytes));
    space_->upload(made.get(), bytes);
    return made;
  }

  ByteVector downloaded(const std::shared_ptr<std::uint8_t>& from, std::int64_t bytes) {
    ByteVector made(bytes);
    space_->download(made, from.get());
    return made;
  }

  static layout::Widths widths() { return layout::stock_widths(GetParam().shape); }

  static experts::PlainExpert plain(std::int64_t expert) {
    return experts::payload_expert(GetParam().payload, expert, widths());
  }

  static PayloadTensor tensor(Kind kind, std::int64_t tp, std::int64_t d) {
    return {GetParam().payload, kind, widths(), tp, d, 1, GetParam().shape.experts};
  }

  // Experts [1, E + 1) of a layer: a first expert that is not 0.
  static ByteVector due(const PayloadTensor& tensor) {
    std::vector<ByteVector> parts;
    for (std::int64_t e = 0; e < tensor.experts; ++e) {
      const experts::PlainExpert whole = plain(tensor.first_expert + e);
      const experts::PlainExpert part = experts::slice(whole, tensor.tp, tensor.d);
      parts.push_back(bytes_of(experts::converted(part), tensor.kind));
    }
    return joined(parts);
  }

  // The last slice to a place of its own: it is there, and where it was not wanted nothing is
  // written.
  void expect_own_slice_apart(Kind kind, const std::uint8_t* stock, ByteVector want) {
    const layout::Shape& shape = GetParam().shape;
    const std::int64_t block = std::ssize(want) / shape.tp;
    const auto to = poisoned(std::ssize(want));
    const auto own = poisoned(block);
    space_->pack({to.get(), shape.tp - 1, own.get()}, stock, kind, shape);
    EXPECT_EQ(downloaded(own, block), ByteVector(want.end() - block, want.end()));
    std::fill(want.end() - block, want.end(), std::uint8_t{0xA5});
    EXPECT_EQ(downloaded(to, std::ssize(want)), want) << layout::name(kind);
  }

  // The same cut in the second lane, of a stock that the first one writes.
  void expect_the_same_beside(const PayloadTensor& stock, const ByteVector& want) {
    const auto from = poisoned(std::ssize(want));
    const auto to = poisoned(std::ssize(want));
    Space& beside = space_->beside();
    space_->fill_payload(from.get(), stock);
    beside.wait_for(*space_);
    beside.pack(to.get(), from.get(), stock.kind, GetParam().shape);
    space_->wait_for(beside);
    EXPECT_EQ(downloaded(to, std::ssize(want)), want) << layout::name(stock.kind);
  }

  std::unique_ptr<Space> space_;
};

TEST_P(SpaceConformance, plain_matrices_are_the_payloads) {
  for (const layout::Projection projection : layout::projections) {
    for (const bool scale : {false, true}) {
      const PayloadPlain made{GetParam().payload, projection, scale, widths(), 1, 2};
      std::vector<ByteVector> parts;
      for (std::int64_t e = 1; e < 3; ++e) {
        const experts::PlainExpert expert = plain(e);
        const experts::PlainProjection& from = projection_of(expert, projection);
        parts.push_back(scale ? from.scale : from.weight);
      }
      const ByteVector want = joined(parts);
      const auto at = poisoned(std::ssize(want));
      space_->fill_plain(at.get(), made);
      EXPECT_EQ(downloaded(at, std::ssize(want)), want) << layout::name(projection) << scale;
    }
  }
}

TEST_P(SpaceConformance, payload_tensors_are_the_converted_slices) {
  const std::int64_t tp = GetParam().shape.tp;
  for (const Kind kind : layout::kinds) {
    for (const PayloadTensor& made :
         {tensor(kind, 1, 0), tensor(kind, tp, 0), tensor(kind, tp, tp - 1)}) {
      const ByteVector want = due(made);
      const auto at = poisoned(std::ssize(want));
      space_->fill_payload(at.get(), made);
      EXPECT_EQ(downloaded(at, std::ssize(want)), want) << layout::name(kind) << made.d;
      const std::vector<Difference> clean(made.experts);
      EXPECT_EQ(space_->compare_payload(at.get(), made), clean) << layout::name(kind);
    }
  }
}

TEST_P(SpaceConformance, convert_is_the_conversion) {
  for (const Kind kind : layout::kinds) {
    const bool scale = layout::is_scale(kind);
    std::array<std::vector<ByteVector>, 3> parts;
    for (std::int64_t e = 1; e <= GetParam().shape.experts; ++e) {
      const experts::PlainExpert expert = plain(e);
      for (const layout::Projection projection : layout::projections) {
        const experts::PlainProjection& from = projection_of(expert, projection);
        parts[static_cast<std::size_t>(projection)].push_back(scale ? from.scale : from.weight);
      }
    }
    const auto w1 = uploaded(joined(parts[0]));
    const auto w3 = uploaded(joined(parts[1]));
    const auto w2 = uploaded(joined(parts[2]));
    const ByteVector want = due(tensor(kind, 1, 0));
    const auto at = poisoned(std::ssize(want));
    const PlainSource source = layout::is_w13(kind) ? PlainSource{w3.get(), w1.get(), nullptr}
                                                    : PlainSource{nullptr, nullptr, w2.get()};
    space_->convert(at.get(), kind, widths(), source, GetParam().shape.experts);
    EXPECT_EQ(downloaded(at, std::ssize(want)), want) << layout::name(kind);
  }
}

TEST_P(SpaceConformance, pack_is_every_cut_of_every_expert) {
  const layout::Shape shape = GetParam().shape;
  for (const Kind kind : layout::kinds) {
    const PayloadTensor stock{GetParam().payload,      kind, widths(), 1, 0, 0,
                              shape.experts_per_rank()};
    const std::int64_t bytes = stock.experts * stock.expert_bytes();
    const auto from = poisoned(bytes);
    space_->fill_payload(from.get(), stock);
    const auto to = poisoned(bytes);
    space_->pack(to.get(), from.get(), kind, shape);
    std::vector<ByteVector> parts;
    for (std::int64_t d = 0; d < shape.tp; ++d) {
      for (std::int64_t e = 0; e < stock.experts; ++e) {
        parts.push_back(bytes_of(experts::placed_slice(plain(e), shape.tp, d), kind));
      }
    }
    const ByteVector want = joined(parts);
    EXPECT_EQ(downloaded(to, bytes), want) << layout::name(kind);
    expect_own_slice_apart(kind, from.get(), want);
    expect_the_same_beside(stock, want);
  }
}

// Bytes of one expert at which a difference is planted: two neighbours, one of another word, the
// last.
std::vector<std::int64_t> planted(const PayloadTensor& tensor) {
  const std::int64_t bytes = tensor.expert_bytes();
  return {bytes / 2 + 3, bytes / 2 + 4, 3 * bytes / 4, bytes - 1};
}

TEST_P(SpaceConformance, planted_differences_are_counted_and_placed) {
  const std::int64_t tp = GetParam().shape.tp;
  for (const Kind kind : layout::kinds) {
    const PayloadTensor made = tensor(kind, tp, tp - 1);
    const std::int64_t victim = made.experts - 1;
    ByteVector bytes = due(made);
    std::vector<Difference> want(made.experts);
    for (const std::int64_t at : planted(made)) {
      bytes[victim * made.expert_bytes() + at] ^= 0x40;
      want[victim].differing += 1;
    }
    want[victim].first = planted(made).front();
    bytes[0] ^= 1;
    want[0].differing += 1;
    want[0].first = 0;
    const auto at = uploaded(bytes);
    EXPECT_EQ(space_->compare_payload(at.get(), made), want) << layout::name(kind);
    const auto healthy = uploaded(due(made));
    const Difference all = space_->compare(at.get(), healthy.get(), std::ssize(bytes));
    EXPECT_EQ(all, (Difference{want[0].differing + want[victim].differing, 0}));
  }
}

// What is judged against another expert, slice or seed differs everywhere but by chance.
TEST_P(SpaceConformance, another_seed_is_another_tensor) {
  PayloadTensor made = tensor(Kind::w13_sf, 1, 0);
  const auto at = poisoned(made.experts * made.expert_bytes());
  space_->fill_payload(at.get(), made);
  made.payload.seed += 1;
  for (const Difference& found : space_->compare_payload(at.get(), made)) {
    EXPECT_GT(found.differing, made.expert_bytes() * 9 / 10);
    EXPECT_LT(found.first, 16);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, SpaceConformance, testing::ValuesIn(all_cases()));

class SpaceBytes : public testing::Test {
 protected:
  void SetUp() override {
    space_ = space_under_test();
    if (!space_) GTEST_SKIP() << "this machine has no such memory";
  }
  std::unique_ptr<Space> space_;
};

// Each lane does much before the other may go on: what comes too early copies the bytes of the
// round before, or those that are written after it.
TEST_F(SpaceBytes, a_lane_that_waits_comes_after_all_that_the_other_was_given) {
  constexpr std::int64_t bytes = 64 << 20;
  const auto from = *space_->allocate(bytes, "from");
  const auto to = *space_->allocate(bytes, "to");
  const auto due = *space_->allocate(bytes, "due");
  Space& beside = space_->beside();
  space_->fill(from.get(), 0xFF, bytes);
  for (std::uint8_t round = 1; round < 20; ++round) {
    space_->fill(due.get(), round, bytes);
    space_->fill(from.get(), round, bytes);
    beside.wait_for(*space_);
    beside.copy(to.get(), from.get(), bytes);
    space_->wait_for(beside);
    space_->fill(from.get(), 0xFF, bytes);
    EXPECT_EQ(space_->compare(to.get(), due.get(), bytes), Difference{}) << int{round};
  }
}

TEST_F(SpaceBytes, buffers_are_aligned_and_moves_keep_every_byte) {
  for (const std::int64_t bytes : {1, 255, 4097, 9 << 20}) {
    auto a = space_->allocate(bytes, "a");
    auto b = space_->allocate(bytes, "b");
    ASSERT_FALSE(a.reason || b.reason);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*a).get()) % 256, 0U);
    ByteVector want(bytes);
    std::iota(want.begin(), want.end(), std::uint8_t{7});
    space_->upload((*a).get(), want);
    space_->copy((*b).get(), (*a).get(), bytes);
    ByteVector got(bytes);
    space_->download(got, (*b).get());
    EXPECT_EQ(got, want);
    EXPECT_EQ(space_->digest((*a).get(), bytes), space_->digest((*b).get(), bytes));
    EXPECT_EQ(space_->compare((*a).get(), (*b).get(), bytes), Difference{});
  }
}

// Every length from 0 to 70 and every start from 0 to 8: short and unaligned ends.
TEST_F(SpaceBytes, fill_compare_and_digest_keep_to_their_bytes) {
  constexpr std::int64_t room = 128;
  auto a = space_->allocate(room, "a");
  auto b = space_->allocate(room, "b");
  ASSERT_FALSE(a.reason || b.reason);
  for (std::int64_t start = 0; start <= 8; ++start) {
    for (std::int64_t bytes = 0; bytes <= 70; ++bytes) {
      space_->fill((*a).get(), 1, room);
      space_->fill((*b).get(), 2, room);
      EXPECT_EQ(space_->compare((*a).get() + start, (*b).get() + start, bytes),
                (Difference{bytes, bytes == 0 ? -1 : 0}));
      const Digest before = space_->digest((*a).get() + start, bytes);
      space_->fill((*a).get() + start, 2, bytes);
      EXPECT_EQ(space_->compare((*a).get(), (*b).get(), room),
                (Difference{room - bytes, start == 0 ? bytes : 0}));
      EXPECT_EQ(space_->digest((*a).get() + start, bytes) == before, bytes == 0);
    }
  }
}

TEST_F(SpaceBytes, a_digest_tells_every_single_byte) {
  const std::int64_t bytes = 1 << 20;
  auto at = space_->allocate(bytes, "a");
  ASSERT_FALSE(at.reason);
  space_->fill((*at).get(), 0, bytes);
  const Digest zeros = space_->digest((*at).get(), bytes);
  for (std::int64_t place : {std::int64_t{0}, std::int64_t{65537}, bytes - 1}) {
    space_->fill((*at).get() + place, 1, 1);
    EXPECT_NE(space_->digest((*at).get(), bytes), zeros);
    space_->fill((*at).get() + place, 0, 1);
  }
  EXPECT_EQ(space_->digest((*at).get(), bytes), zeros);
}

TEST_F(SpaceBytes, memory_that_is_out_is_a_reason_with_purpose_and_numbers) {
  const auto made = space_->allocate(std::int64_t{1} << 50, "the packed w13");
  ASSERT_TRUE(made.reason);
  EXPECT_EQ(made.reason.cause(), "out-of-memory");
  const std::string& text = made.reason.text();
  EXPECT_NE(text.find("the packed w13 wants 1125899906842624 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find(" bytes are free"), std::string::npos) << text;
  EXPECT_EQ(text.find(", 0 bytes are free"), std::string::npos) << text;
}

}  // namespace
}  // namespace slicecheck::memory
