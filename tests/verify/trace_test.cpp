// The payload rule undone, held against the rule itself: any word of a weight and any unit of a
// scale says where it is from, and at a known place of which seed and layer it is.
#include "verify/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "experts/payload.h"

namespace slicecheck::verify {
namespace {

using layout::PayloadKind;
using layout::Projection;

constexpr layout::Shape shape{6, 384, 640, 2};
constexpr std::array<PayloadKind, 3> kinds{PayloadKind::bytes, PayloadKind::numeric,
                                           PayloadKind::exact};

Case layer_of(std::optional<layout::Widths> data = {}) { return {shape, data}; }

bool holds(const std::vector<Origin>& found, const Origin& due) {
  return std::find(found.begin(), found.end(), due) != found.end();
}

// Every unit of every matrix of some experts, with its place.
template <typename Check>
void for_each_unit(const std::function<experts::PlainExpert(std::int64_t)>& plain, bool scale,
                   const Check& check) {
  const std::int64_t unit = scale ? layout::unit_bytes : layout::word_bytes;
  for (const std::int64_t e : {0, 3, 5}) {
    const experts::PlainExpert whole = plain(e);
    for (const Projection projection : layout::projections) {
      const experts::PlainProjection& from = experts::projection_of(whole, projection);
      const ByteVector& bytes = scale ? from.scale : from.weight;
      const std::int64_t row = layout::plain_matrix(projection, scale, whole.widths).row_bytes;
      for (std::int64_t at = 0; at < static_cast<std::int64_t>(bytes.size()); at += unit) {
        check(bytes.data() + at, Origin{e, {projection, scale, at / row, at % row}, {}});
      }
    }
  }
}

TEST(Trace, finalisers_are_undone) {
  std::mt19937_64 draw(1);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t x = draw();
    ASSERT_EQ(unmixed64(layout::mix64(x)), x);
    ASSERT_EQ(unmixed32(layout::mix32(static_cast<std::uint32_t>(x))),
              static_cast<std::uint32_t>(x));
  }
  EXPECT_EQ(unmixed64(layout::mix64(0)), 0U);
  EXPECT_EQ(unmixed64(layout::mix64(~std::uint64_t{0})), ~std::uint64_t{0});
}

TEST(Trace, a_word_at_a_known_place_says_its_seed_and_layer) {
  std::mt19937_64 draw(2);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t seed = layout::layer_seed(draw(), draw() % 128);
    const auto expert = static_cast<std::int64_t>(draw() % 512);
    const Projection projection = layout::projections[draw() % 3];
    const auto j = static_cast<std::int64_t>(draw() % (std::uint64_t{1} << 24));
    const std::uint64_t word =
        layout::weight_word(layout::word_key(seed, expert, layout::word_kind(projection)), j);
    ASSERT_EQ(seed_of_word(word, expert, projection, j), seed);
    ASSERT_NE(seed_of_word(word, expert, projection, j + 1), seed);
  }
}

TEST(Trace, a_unit_at_a_known_place_says_its_scale_key) {
  std::mt19937_64 draw(3);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t seed = layout::layer_seed(draw(), draw() % 128);
    const auto g = static_cast<std::int64_t>(draw() % 252047376);  // all of them: below R
    for (const PayloadKind kind : kinds) {
      const std::uint32_t unit = layout::unit_of(kind, layout::scale_key(seed), g);
      ASSERT_EQ(scale_key_of_unit(unit, g, kind), scale_key_rest(seed, kind));
      ASSERT_NE(scale_key_of_unit(unit, g + 1, kind), scale_key_rest(seed, kind));
    }
  }
}

TEST(Trace, bytes_that_are_no_numeric_scales_are_of_no_numeric_payload) {
  for (const std::uint32_t unit : {0x01010100U, 0x0101017FU, 0x7F010101U, 0xFF010101U, 0U}) {
    EXPECT_FALSE(scale_key_of_unit(unit, 0, PayloadKind::numeric)) << unit;
  }
  EXPECT_TRUE(scale_key_of_unit(0x7E7E7E7EU, 0, PayloadKind::numeric));
}

TEST(Trace, by_the_rule_every_unit_of_a_layer_has_its_own_origin) {
  for (const PayloadKind kind : kinds) {
    const layout::Payload payload{kind, layout::layer_seed(7, 3), 0};
    Reference reference(layer_of(), payload);
    Tracer tracer(reference);
    for (const bool scale : {false, true}) {
      for_each_unit([&](std::int64_t e) { return reference.whole(e); }, scale,
                    [&](const std::uint8_t* at, Origin due) {
                      due.seed = payload.seed;
                      const bool named = kind != PayloadKind::exact || scale ||
                                         due.place.projection != Projection::w2;
                      const std::vector<Origin> found = tracer.origins(scale, at);
                      ASSERT_EQ(found, named ? std::vector{due} : std::vector<Origin>{});
                    });
    }
  }
}

TEST(Trace, a_padded_layers_origins_are_places_of_its_data) {
  const layout::Payload payload{PayloadKind::bytes, 4, 0};
  const layout::Widths data{320, 608};
  Reference reference(layer_of(data), payload);
  Tracer tracer(reference);
  for (const bool scale : {false, true}) {
    for_each_unit([&](std::int64_t e) { return experts::payload_expert(payload, e, data); }, scale,
                  [&](const std::uint8_t* at, Origin due) {
                    due.seed = payload.seed;
                    ASSERT_EQ(tracer.origins(scale, at), std::vector{due});
                  });
  }
}

TEST(Trace, a_word_of_another_seed_has_no_origin) {
  Reference reference(layer_of(), layout::Payload{PayloadKind::bytes, 1, 0});
  Tracer tracer(reference);
  const layout::Payload other{PayloadKind::bytes, 2, 0};
  for_each_unit(
      [&](std::int64_t e) {
        return experts::payload_expert(other, e, layout::stock_widths(shape));
      },
      false,
      [&](const std::uint8_t* at, const Origin&) {
        ASSERT_TRUE(tracer.origins(false, at).empty());
      });
}

TEST(Trace, by_an_index_every_unit_is_found_where_it_lies) {
  const layout::Payload payload{PayloadKind::numeric, 9, 0};
  const auto plain = [&](std::int64_t e) {
    return experts::payload_expert(payload, e, layout::stock_widths(shape));
  };
  Reference reference(layer_of(), plain);
  Tracer tracer(reference);
  for (const bool scale : {false, true}) {
    for_each_unit(plain, scale, [&](const std::uint8_t* at, const Origin& due) {
      ASSERT_FALSE(tracer.left_out(scale, at));
      ASSERT_TRUE(holds(tracer.origins(scale, at), due));
    });
  }
}

TEST(Trace, an_index_of_a_large_layer_says_what_it_leaves_out) {
  const layout::Shape large{12, 2048, 1024, 2};
  const layout::Payload payload{PayloadKind::numeric, 9, 0};
  Reference reference({large, {}}, [&](std::int64_t e) {
    return experts::payload_expert(payload, e, layout::stock_widths(large));
  });
  Tracer tracer(reference);
  const experts::PlainExpert whole = reference.whole(11);
  std::int64_t found = 0;
  std::int64_t left_out = 0;
  for (std::size_t at = 0; at < whole.w3.weight.size(); at += layout::word_bytes) {
    const std::uint8_t* word = whole.w3.weight.data() + at;
    const auto byte = static_cast<std::int64_t>(at);
    const Origin due{11, {Projection::w3, false, byte / 1024, byte % 1024}, {}};
    if (tracer.left_out(false, word)) {
      ++left_out;
      ASSERT_TRUE(tracer.origins(false, word).empty());
    } else {
      ++found;
      ASSERT_TRUE(holds(tracer.origins(false, word), due));
    }
  }
  EXPECT_GT(left_out, found / 2);  // every second, or fewer, is kept
  EXPECT_GT(found, 20000);
}

}  // namespace
}  // namespace slicecheck::verify
