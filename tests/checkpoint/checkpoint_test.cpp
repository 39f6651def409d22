#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include "experts/convert.h"
#include "folder.h"

namespace slicecheck::checkpoint {
namespace {

using layout::Projection;

TEST(Checkpoint, modelopt_layers_have_their_shape_and_their_bytes) {
  Result<Checkpoint> checkpoint = Checkpoint::open(golden("checkpoints/tiny-modelopt"));
  ASSERT_FALSE(checkpoint.reason) << checkpoint.reason.text();
  EXPECT_EQ(checkpoint->layers(), (std::vector<std::int64_t>{1, 2}));
  const Result<Layer> layer = checkpoint->layer(1);
  ASSERT_FALSE(layer.reason) << layer.reason.text();
  EXPECT_EQ(layer->experts(), 6);
  EXPECT_EQ(layer->widths(), (layout::Widths{640, 384}));
  EXPECT_EQ(layer->format(), Format::modelopt);
  EXPECT_EQ(layer->root(), "model.layers.1.mlp.experts");

  // Expert 0's gate lies at the very start of shard 1's data, expert 1's of shard 2's.
  for (const std::int64_t e : {0, 1}) {
    const std::string shard = contents(golden("checkpoints/tiny-modelopt/model-0000" +
                                              std::to_string(e + 1) + "-of-00002.safetensors"));
    const std::size_t data =
        8 + load<std::uint64_t>(reinterpret_cast<const std::uint8_t*>(shard.data()));
    const Result<experts::PlainExpert> expert = layer->expert(e);
    ASSERT_FALSE(expert.reason) << expert.reason.text();
    const ByteVector& w1 = expert->w1.weight;
    ASSERT_EQ(w1.size(), 384U * 320U);
    EXPECT_TRUE(std::equal(w1.begin(), w1.end(), shard.begin() + data,
                           [](auto a, auto b) { return a == static_cast<std::uint8_t>(b); }));
    EXPECT_EQ(expert->w2.scale.size(), 640U * 24U);
  }
}

// Law: Layer.a_slice_read_is_a_slice_of_what_is_read
TEST(Layer, a_slice_read_is_a_slice_of_what_is_read) {
  Result<Checkpoint> checkpoint = Checkpoint::open(golden("checkpoints/tiny-modelopt"));
  ASSERT_FALSE(checkpoint.reason) << checkpoint.reason.text();
  const Result<Layer> layer = checkpoint->layer(2);
  ASSERT_FALSE(layer.reason) << layer.reason.text();
  for (const std::int64_t tp : {1, 2, 3, 6, 8, 12, 24}) {
    for (std::int64_t d = 0; d < tp; ++d) {
      const Result<experts::PlainExpert> whole = layer->expert(5);
      const Result<experts::PlainExpert> part = layer->expert_slice(5, tp, d);
      ASSERT_FALSE(whole.reason) << whole.reason.text();
      ASSERT_FALSE(part.reason) << part.reason.text();
      const experts::PlainExpert due = experts::slice(*whole, tp, d);
      EXPECT_EQ(part->widths, due.widths);
      for (const Projection projection : layout::projections) {
        EXPECT_EQ(projection_of(*part, projection).weight, projection_of(due, projection).weight);
        EXPECT_EQ(projection_of(*part, projection).scale, projection_of(due, projection).scale);
      }
    }
  }
}

TEST(Layer, input_scales_are_reduced_over_all_experts) {
  Result<Checkpoint> checkpoint = Checkpoint::open(golden("checkpoints/tiny-modelopt"));
  ASSERT_FALSE(checkpoint.reason) << checkpoint.reason.text();
  const Result<Layer> layer = checkpoint->layer(1);
  ASSERT_FALSE(layer.reason) << layer.reason.text();
  float a13 = 0;
  float a2 = 0;
  for (std::int64_t e = 0; e < 6; ++e) {
    a13 = std::max(
        {a13, *layer->scales(e, Projection::w1).input, *layer->scales(e, Projection::w3).input});
    a2 = std::max(a2, *layer->scales(e, Projection::w2).input);
  }
  EXPECT_GT(a13, 0);
  const Result<experts::Scalars> all = layer->scalars(0, 6);
  const Result<experts::Scalars> last = layer->scalars(4, 2);
  ASSERT_FALSE(all.reason) << all.reason.text();
  ASSERT_FALSE(last.reason) << last.reason.text();
  EXPECT_EQ(all->a1_gscale, 1.0F / a13);
  EXPECT_EQ(last->a1_gscale, all->a1_gscale);
  EXPECT_EQ(last->a2_gscale, 1.0F / a2);
  ASSERT_EQ(last->g1_alphas.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t e = static_cast<std::int64_t>(i) + 4;
    EXPECT_EQ(last->g1_alphas[i], a13 * *layer->scales(e, Projection::w1).weight);
    EXPECT_EQ(last->g1_scale_c[i], last->g1_alphas[i] * last->a2_gscale);
    EXPECT_EQ(last->g2_alphas[i], a2 * *layer->scales(e, Projection::w2).weight);
    EXPECT_EQ(last->g2_alphas[i], all->g2_alphas[4 + i]);
  }
}

}  // namespace
}  // namespace slicecheck::checkpoint
