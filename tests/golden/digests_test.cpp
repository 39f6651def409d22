// golden/digests.json was made by code that is not ours: every digest of every case is reproduced,
// the plain tensors, the converted ones, the scalars and what each tp rank must hold.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "experts/payload.h"
#include "experts/place.h"

namespace slicecheck::experts {
namespace {

using nlohmann::json;

json cases() {
  std::ifstream file(SLICECHECK_SOURCE_DIR "/golden/digests.json");
  return json::parse(file).at("cases");
}

layout::PayloadKind kind_named(const std::string& name) {
  if (name == "bytes") return layout::PayloadKind::bytes;
  return name == "numeric" ? layout::PayloadKind::numeric : layout::PayloadKind::exact;
}

struct Case {
  layout::Shape shape;
  layout::Payload payload;
};

Case read(const json& entry) {
  return {{entry.at("experts"), entry.at("hidden"), entry.at("intermediate"), entry.at("tp")},
          {kind_named(entry.at("payload")), entry.at("seed").get<std::uint64_t>(), 0}};
}

std::string due(const json& digests, const std::string& name) {
  return digests.at(name).at("xxh3_128");
}

class GoldenDigests : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { entry_ = cases().at(GetParam()); }
  json entry_;
};

TEST_P(GoldenDigests, plain_experts_are_the_checkpoints) {
  const Case made = read(entry_);
  for (const layout::Projection projection : layout::projections) {
    DigestStream weight;
    DigestStream scale;
    for (std::int64_t e = 0; e < made.shape.experts; ++e) {
      const PlainExpert expert =
          payload_expert(made.payload, e, layout::stock_widths(made.shape));
      weight.add(projection_of(expert, projection).weight);
      scale.add(projection_of(expert, projection).scale);
    }
    const std::string name(layout::name(projection));
    EXPECT_EQ(hex(weight.of()), due(entry_.at("checkpoint"), name + ".weight"));
    EXPECT_EQ(hex(scale.of()), due(entry_.at("checkpoint"), name + ".scale"));
  }
}

TEST_P(GoldenDigests, stock_over_all_ranks_is_the_converted_layer) {
  const Case made = read(entry_);
  std::vector<StockExperts> stocks;
  for (std::int64_t rank = 0; rank < made.shape.tp; ++rank) {
    stocks.push_back(payload_stock(made.payload, made.shape, rank));
  }
  for (const layout::Kind kind : layout::kinds) {
    DigestStream stream;
    for (const StockExperts& stock : stocks) stream.add(host_bytes(tensor_of(stock, kind)));
    EXPECT_EQ(hex(stream.of()), due(entry_.at("converted"), std::string(layout::name(kind))));
  }
  for (const Scalar scalar : all_scalars) {
    DigestStream stream;
    for (const StockExperts& stock : stocks) stream.add(host_bytes(tensor_of(stock, scalar)));
    EXPECT_EQ(hex(stream.of()), due(entry_.at("scalars"), std::string(name(scalar))));
  }
  for (const StockExperts& stock : stocks) {
    EXPECT_EQ(hex(digest(host_bytes(stock.a1_gscale))), due(entry_.at("scalars"), "a1_gscale"));
    EXPECT_EQ(hex(digest(host_bytes(stock.a2_gscale))), due(entry_.at("scalars"), "a2_gscale"));
  }
}

TEST_P(GoldenDigests, tp_by_formula_and_by_moves_is_what_each_rank_must_hold) {
  const Case made = read(entry_);
  const layout::Widths widths = layout::stock_widths(made.shape);
  for (std::int64_t rank = 0; rank < made.shape.tp; ++rank) {
    const json& digests = entry_.at("tp_ranks").at(rank);
    const TpExperts tp = payload_tp(made.payload, made.shape, rank);
    for (const layout::Kind kind : layout::kinds) {
      DigestStream moved;
      for (std::int64_t e = 0; e < made.shape.experts; ++e) {
        const PlainExpert expert = payload_expert(made.payload, e, widths);
        moved.add(bytes_of(slice(converted(expert), made.shape.tp, rank), kind));
      }
      const std::string name(layout::name(kind));
      EXPECT_EQ(hex(digest(host_bytes(tensor_of(tp, kind)))), due(digests, name));
      EXPECT_EQ(hex(moved.of()), due(digests, name));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenDigests, testing::Range(std::size_t{0}, cases().size()));

}  // namespace
}  // namespace slicecheck::experts
