#include "checkpoint/dump.h"

#include <gtest/gtest.h>

#include "checkpoint/dump_files.h"
#include "experts/payload.h"
#include "folder.h"

namespace slicecheck::checkpoint {
namespace {

constexpr layout::Shape shape{4, 128, 128, 2};

Manifest manifest() {
  Manifest made;
  made.world = 2;
  made.shape = shape;
  made.engine = "reference 1.0";
  made.payload = layout::Payload{layout::PayloadKind::bytes, 18446744073709551615U, 0};
  made.plain = {128, 128};
  made.ranks = consecutive_groups(2, 2);
  return made;
}

TEST(Dump, what_is_written_is_read_back) {
  const Folder folder;
  const std::string dump = folder / "a/dump";
  ASSERT_FALSE(claim_dump(dump));
  ASSERT_FALSE(write_manifest(dump, manifest()));
  const layout::Payload payload{layout::PayloadKind::bytes, 1, 0};
  for (const std::int64_t rank : {0, 1}) {
    ASSERT_FALSE(write_stock(dump, rank, experts::payload_stock(payload, shape, rank)));
    ASSERT_FALSE(write_tp(dump, rank, experts::payload_tp(payload, shape, rank)));
  }
  const Result<Manifest> read = read_manifest(dump);
  ASSERT_FALSE(read.reason) << read.reason.text();
  EXPECT_EQ(*read, manifest());
  const experts::StockExperts stock = experts::payload_stock(payload, shape, 1);
  const experts::TpExperts tp = experts::payload_tp(payload, shape, 1);
  const Result<DumpStock> stock_again = DumpStock::open(dump, *read, 1);
  const Result<DumpTp> tp_again = DumpTp::open(dump, *read, 1);
  ASSERT_FALSE(stock_again.reason) << stock_again.reason.text();
  ASSERT_FALSE(tp_again.reason) << tp_again.reason.text();
  EXPECT_EQ(stock_again->first_expert(), 2);
  EXPECT_EQ(stock_again->a1_gscale(), floats(stock.a1_gscale)[0]);
  EXPECT_EQ(stock_again->a2_gscale(), floats(stock.a2_gscale)[0]);
  for (const layout::Kind kind : layout::kinds) {
    EXPECT_FALSE(tp_again->otherwise_cut(kind));
    for (std::int64_t e = 0; e < 4; ++e) {
      const MutableBytes all = host_bytes(tensor_of(tp, kind));
      EXPECT_TRUE(std::ranges::equal(*tp_again->bytes(kind, e),
                                     all.subspan(e * all.size() / 4, all.size() / 4)));
    }
    for (std::int64_t e = 0; e < 2; ++e) {
      const MutableBytes all = host_bytes(tensor_of(stock, kind));
      EXPECT_TRUE(std::ranges::equal(*stock_again->bytes(kind, e),
                                     all.subspan(e * all.size() / 2, all.size() / 2)));
    }
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    const auto index = static_cast<std::size_t>(scalar);
    EXPECT_EQ(stock_again->scalars()[index], floats(tensor_of(stock, scalar)));
    EXPECT_EQ(tp_again->scalars()[index], floats(tensor_of(tp, scalar)));
  }
  EXPECT_TRUE(claim_dump(dump));
}

TEST(Manifest, its_text_has_the_fields_of_the_format_in_their_order) {
  EXPECT_EQ(manifest_text(manifest()),
            "{\n  \"format\": \"slicecheck-dump/1\",\n  \"world\": 2,\n  \"experts\": 4,\n"
            "  \"hidden\": 128,\n  \"intermediate\": 128,\n  \"engine\": \"reference 1.0\",\n"
            "  \"payload\": {\"kind\": \"bytes\", \"seed\": 18446744073709551615}\n}\n");
  Manifest all = manifest();
  all.world = 4;
  all.layer = 3;
  all.tokens = 5;
  all.top_k = 4;
  all.plain = {112, 96};
  all.ranks = {{1, 0}, {1, 1}, {0, 1}, {0, 0}};
  const Result<Manifest> again = manifest_of(manifest_text(all));
  ASSERT_FALSE(again.reason) << again.reason.text();
  EXPECT_EQ(*again, all);
}

TEST(Manifest, each_wrong_field_is_named) {
  const std::string healthy = manifest_text(manifest());
  const auto refusal = [&healthy](std::string_view from, std::string_view to) {
    std::string text = healthy;
    text.replace(text.find(from), from.size(), to);
    return manifest_of(text).reason.text();
  };
  EXPECT_EQ(manifest_of("").reason.text(), "not JSON at byte 1");
  EXPECT_EQ(manifest_of("[]").reason.text(), "is not an object");
  EXPECT_EQ(refusal("dump/1", "dump/2"),
            "format: is 'slicecheck-dump/2', expected 'slicecheck-dump/1'");
  EXPECT_EQ(refusal("\"format\": \"slicecheck-dump/1\",", ""),
            "format: is missing, expected 'slicecheck-dump/1'");
  EXPECT_EQ(refusal("\"world\": 2", "\"world\": -2"),
            "world: is not a whole number from 1 to 1048576");
  EXPECT_EQ(refusal("\"world\": 2", "\"world\": 1e3"),
            "world: is not a whole number from 1 to 1048576");
  EXPECT_EQ(refusal("\"world\": 2", "\"world\": 18446744073709551615"),
            "world: is not a whole number from 1 to 1048576");
  EXPECT_EQ(refusal("\"experts\": 4,", ""), "experts: is missing");
  EXPECT_EQ(refusal("\"hidden\": 128", "\"hidden\": \"128\""),
            "hidden: is not a whole number from 1 to 1048576");
  EXPECT_EQ(refusal("\"engine\": \"reference 1.0\"", "\"engine\": 1"), "engine: is not a string");
  EXPECT_EQ(refusal("\"bytes\"", "\"words\""), "payload: kind is none of bytes, numeric, exact");
  EXPECT_EQ(refusal("18446744073709551615", "18446744073709551616"),
            "payload: seed is not a whole number up to 18446744073709551615");
  EXPECT_EQ(refusal("\"world\": 2", "\"tp\": 3, \"world\": 4"), "tp: 4 ranks are no groups of 3");
  EXPECT_EQ(refusal("\"world\": 2", "\"world\": 2, \"hidden_plain\": 144"),
            "hidden_plain: is 144, hidden is 128");
  EXPECT_EQ(refusal("\"world\": 2", "\"world\": 2, \"intermediate_plain\": 100"),
            "intermediate_plain: is 100, expected a multiple of 16");
  EXPECT_EQ(refusal("\"world\": 2", "\"world\": 2, \"top_k\": 5"), "top_k: is 5 of 4 experts");
  EXPECT_EQ(refusal("\"world\": 2", "\"world\": 2, \"ranks\": []"),
            "ranks: is not an array of 2 ranks");
  EXPECT_EQ(refusal("\"world\": 2",
                    "\"world\": 2, \"ranks\": [{\"group\":0,\"rank\":0},{\"group\":0,\"rank\":0}]"),
            "ranks: rank 0 of group 0 stands twice");
  EXPECT_EQ(refusal("\"world\": 2",
                    "\"world\": 2, \"ranks\": [{\"group\":0,\"rank\":0},{\"group\":1,\"rank\":0}]"),
            "ranks: rank 1 is 0 of group 1, expected 1 groups of 2");
  EXPECT_EQ(refusal("\"world\": 2", "\"world\": 2, \"world\": 2"),
            "key 'world' stands twice in one object");
}

}  // namespace
}  // namespace slicecheck::checkpoint
