// golden/faults.json was made by code that is not ours: every digest of every layout fault is
// reproduced by its planter, and tensors that it does not list stay healthy.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "faults/layout_faults.h"

namespace slicecheck::faults {
namespace {

using nlohmann::json;

const json& golden() {
  static const json data = [] {
    std::ifstream file(SLICECHECK_SOURCE_DIR "/golden/faults.json");
    return json::parse(file);
  }();
  return data;
}

layout::Shape shape_named(std::string_view name) {
  return name == "T1" ? layout::Shape{6, 640, 384, 3} : layout::Shape{6, 384, 640, 2};
}

const Layer& healthy(std::string_view name) {
  static std::map<std::string, Layer, std::less<>> layers;
  const auto found = layers.find(name);
  if (found != layers.end()) return found->second;
  const layout::Payload payload{layout::PayloadKind::bytes, 1, 0};
  return layers.emplace(name, healthy_layer(payload, shape_named(name))).first->second;
}

const LayoutEntry* entry_named(const std::string& name) {
  for (const LayoutEntry& entry : layout_faults()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string digest_of(const experts::TpExperts& tp, layout::Kind kind) {
  return hex(digest(host_bytes(experts::tensor_of(tp, kind))));
}

class GoldenFaults : public testing::TestWithParam<std::size_t> {};

TEST_P(GoldenFaults, planter_makes_the_golden_bytes_on_every_rank) {
  const json& fault = golden().at("faults").at(GetParam());
  const LayoutEntry* entry = entry_named(fault.at("cause"));
  ASSERT_NE(entry, nullptr) << fault.at("cause");
  for (const auto& [shape, ranks] : fault.at("tp_ranks").items()) {
    Layer layer = copied(healthy(shape));
    Where where;
    for (const layout::Kind kind : layout::kinds) {
      if (ranks.at(0).contains(std::string(layout::name(kind)))) where.kinds.push_back(kind);
    }
    ASSERT_FALSE(where.kinds.empty());
    plant(layer, *entry, where);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const layout::Kind kind : layout::kinds) {
        const std::string name(layout::name(kind));
        const std::string due = ranks[rank].contains(name)
                                    ? ranks[rank].at(name).get<std::string>()
                                    : digest_of(healthy(shape).tps[rank], kind);
        EXPECT_EQ(digest_of(layer.tps[rank], kind), due)
            << fault.at("cause") << " " << shape << " rank " << rank << " " << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, GoldenFaults,
                         testing::Range(std::size_t{0}, golden().at("faults").size()));

TEST(Layer, cut_of_the_stocks_is_what_the_formula_gives) {
  const Layer& layer = healthy("T2");
  for (std::int64_t rank = 0; rank < layer.shape.tp; ++rank) {
    const experts::TpExperts tp = experts::payload_tp(layer.payload, layer.shape, rank);
    for (const layout::Kind kind : layout::kinds) {
      EXPECT_EQ(digest_of(layer.tps[rank], kind), digest_of(tp, kind));
    }
  }
}

TEST(Plant, leaves_every_other_place_alone) {
  const Layer& before = healthy("T1");
  Layer layer = copied(before);
  plant(layer, *entry_named("rows-not-shuffled"), {Side::tp, {layout::Kind::w2}, {4}, {1, 2}});
  for (const Spot& spot : spots(layer, {})) {
    const MutableBytes was = bytes_at(before, spot);
    const MutableBytes is = bytes_at(layer, spot);
    const bool planted = spot.kind == layout::Kind::w2 && spot.expert == 4 && spot.rank > 0;
    EXPECT_EQ(std::equal(was.begin(), was.end(), is.begin()), !planted);
  }
}

}  // namespace
}  // namespace slicecheck::faults
