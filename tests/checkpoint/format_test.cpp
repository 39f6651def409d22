// The formats of checkpoints: the same experts under other names, and what is refused by name.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <functional>

#include "checkpoint/checkpoint.h"
#include "experts/convert.h"
#include "folder.h"

namespace slicecheck::checkpoint {
namespace {

using layout::Projection;

Layer layer_in(const std::string& folder, std::int64_t number) {
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  EXPECT_FALSE(checkpoint.reason) << checkpoint.reason.text();
  Result<Layer> layer = checkpoint->layer(number);
  EXPECT_FALSE(layer.reason) << layer.reason.text();
  return *layer;
}

std::int64_t ulps(float a, float b) {
  return std::abs(std::int64_t{std::bit_cast<std::int32_t>(a)} - std::bit_cast<std::int32_t>(b));
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(ulps(a[i], b[i]), 8) << a[i] << " " << b[i];
}

void expect_equal_experts(const Layer& a, const Layer& b) {
  ASSERT_EQ(a.experts(), b.experts());
  ASSERT_EQ(a.widths(), b.widths());
  for (std::int64_t e = 0; e < a.experts(); ++e) {
    const experts::ConvertedExpert one = converted(*a.expert(e));
    const experts::ConvertedExpert other = converted(*b.expert(e));
    for (const layout::Kind kind : layout::kinds) {
      EXPECT_EQ(bytes_of(one, kind), bytes_of(other, kind)) << e << " " << name(kind);
    }
    const experts::PlainExpert part = *b.expert_slice(e, 3, 2);
    EXPECT_EQ(part.w2.scale, experts::slice(*a.expert(e), 3, 2).w2.scale);
    EXPECT_EQ(part.w3.weight, experts::slice(*a.expert(e), 3, 2).w3.weight);
  }
  const experts::Scalars ours = *a.scalars(0, a.experts());
  const experts::Scalars theirs = *b.scalars(0, b.experts());
  expect_near({ours.a1_gscale, ours.a2_gscale}, {theirs.a1_gscale, theirs.a2_gscale});
  for (const experts::Scalar scalar : experts::all_scalars) {
    expect_near(values_of(ours, scalar), values_of(theirs, scalar));
  }
}

TEST(Format, compressed_tensors_hold_the_experts_of_modelopt_layer_1) {
  const Layer modelopt = layer_in(golden("checkpoints/tiny-modelopt"), 1);
  const Layer compressed = layer_in(golden("checkpoints/tiny-compressed-tensors"), 1);
  EXPECT_EQ(compressed.format(), Format::compressed_tensors);
  expect_equal_experts(modelopt, compressed);
}

TEST(Format, fused_experts_are_those_of_modelopt_layer_2) {
  const Layer modelopt = layer_in(golden("checkpoints/tiny-modelopt"), 2);
  const Layer fused = layer_in(golden("checkpoints/tiny-fused"), 2);
  EXPECT_EQ(fused.format(), Format::fused);
  EXPECT_EQ(fused.root(), "model.language_model.layers.2.mlp.experts");
  expect_equal_experts(modelopt, fused);
}

// A checkpoint of two experts, H 128 and I 64, whose tensors a test may change before it is
// written.
struct Tiny {
  std::map<std::string, TensorEntry> tensors;  // by name

  void put(const std::string& tensor, Element element, Extents extents) {
    tensors[tensor] = {tensor, element, std::move(extents), 0, 0};
  }

  void per_expert(const std::string& root, const std::array<std::string, 3>& names) {
    for (const std::string& e : {std::string("0"), std::string("1")}) {
      for (std::size_t p = 0; p < 3; ++p) {
        const std::string stem = root + "." + e + "." + names[p];
        const std::int64_t out = p == 2 ? 128 : 64;
        const std::int64_t in = p == 2 ? 64 : 128;
        put(stem + ".weight", Element::u8, {out, in / 2});
        put(stem + ".weight_scale", Element::f8_e4m3, {out, in / 16});
        put(stem + ".weight_scale_2", Element::f32, {});
        put(stem + ".input_scale", Element::f32, {});
      }
    }
  }

  void fused(const std::string& root) {
    put(root + ".gate_up_proj", Element::u8, {2, 128, 64});
    put(root + ".gate_up_proj_weight_scale", Element::f8_e4m3, {2, 128, 8});
    put(root + ".gate_up_proj_weight_scale_2", Element::f32, {2});
    put(root + ".gate_up_proj_input_scale", Element::f32, {});
    put(root + ".down_proj", Element::u8, {2, 128, 32});
    put(root + ".down_proj_weight_scale", Element::f8_e4m3, {2, 128, 4});
    put(root + ".down_proj_weight_scale_2", Element::f32, {2});
    put(root + ".down_proj_input_scale", Element::f32, {1});
  }

  // Every F32 is number 1 + its place among its tensor's; other bytes count up.
  void write(const std::string& path) const {
    std::vector<TensorEntry> entries;
    for (const auto& [key, entry] : tensors) entries.push_back(entry);
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, {}, entries);
    ASSERT_FALSE(writer.reason) << writer.reason.text();
    for (const TensorEntry& entry : entries) {
      ByteVector bytes(count(entry.extents) * bits(entry.element) / 8);
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
      for (std::size_t i = 0; entry.element == Element::f32 && i < bytes.size() / 4; ++i) {
        store(bytes.data() + 4 * i, static_cast<float>(i + 1));
      }
      ASSERT_FALSE(writer->add(bytes));
    }
    ASSERT_FALSE(writer->finish());
  }
};

Tiny tiny() {
  Tiny made;
  made.per_expert("model.layers.3.mlp.experts", {"gate_proj", "up_proj", "down_proj"});
  return made;
}

Tiny tiny_fused() {
  Tiny made;
  made.fused("model.layers.3.mlp.experts");
  return made;
}

// The Reason for which layer 3 is not read, from its file's name on; "" where it is.
struct Refused {
  std::string text;
  bool refused = false;
};

Refused refusal(const Tiny& checkpoint, std::string_view config = "",
                std::string_view quantization = "") {
  const Folder folder;
  checkpoint.write(folder / "model.safetensors");
  if (!config.empty()) write_file(folder / "config.json", config);
  if (!quantization.empty()) write_file(folder / "hf_quant_config.json", quantization);
  Result<Checkpoint> opened = Checkpoint::open(folder.path());
  Reason reason = opened.reason;
  if (!reason) reason = opened->layer(3).reason;
  if (!reason) return {};
  const std::string base = std::filesystem::path(folder.path()).filename();
  std::string text = reason.text();
  const std::size_t at = text.find(base);
  EXPECT_NE(at, std::string::npos) << text;
  return {text.substr(at + base.size() + 1), ending(reason) == Ending::refused};
}

void expect_refused(const Refused& got, std::string_view text) {
  EXPECT_EQ(got.text, text);
  EXPECT_TRUE(got.refused) << got.text;
}

void expect_unusable(const Refused& got, std::string_view text) {
  EXPECT_EQ(got.text, text);
  EXPECT_FALSE(got.refused) << got.text;
}

TEST(Format, prefixes_and_names_of_all_kinds_are_read) {
  const std::array<std::pair<std::string, std::array<std::string, 3>>, 4> kinds{{
      {"model.layers.3.mlp.experts", {"gate_proj", "up_proj", "down_proj"}},
      {"model.layers.3.block_sparse_moe.experts", {"w1", "w3", "w2"}},
      {"model.language_model.layers.3.mlp.experts", {"gate", "up", "down"}},
      {"layers.3.experts", {"gate_proj", "up_proj", "down_proj"}},
  }};
  for (const auto& [root, names] : kinds) {
    Tiny checkpoint;
    checkpoint.per_expert(root, names);
    checkpoint.put("model.layers.3.mlp.shared_experts.gate_proj.weight", Element::bf16, {4, 4});
    checkpoint.put("vision.layers.x.experts.0.gate_proj.weight", Element::bf16, {4, 4});
    const Folder folder;
    checkpoint.write(folder / "any-name.safetensors");
    const Layer layer = layer_in(folder.path(), 3);
    EXPECT_EQ(layer.root(), root);
    EXPECT_EQ(layer.experts(), 2);
    EXPECT_EQ(layer.widths(), (layout::Widths{128, 64}));
    EXPECT_EQ(layer.expert(1)->w3.scale.size(), 512U);
  }
}

TEST(Format, a_draft_models_layers_do_not_stand_in_for_the_models) {
  Tiny checkpoint = tiny();
  checkpoint.per_expert("model.layers.0.mlp.experts", {"gate_proj", "up_proj", "down_proj"});
  checkpoint.put("mtp.layers.0.mlp.experts.0.gate_proj.weight", Element::bf16, {4, 4});
  const Folder folder;
  checkpoint.write(folder / "model.safetensors");
  EXPECT_EQ(layer_in(folder.path(), 0).root(), "model.layers.0.mlp.experts");
}

TEST(Format, fused_scales_are_one_for_all_one_an_expert_or_one_a_projection) {
  const std::string name = "model.layers.3.mlp.experts.gate_up_proj_weight_scale_2";
  const std::array<std::pair<Extents, std::array<float, 4>>, 5> kinds{{{{}, {1, 1, 1, 1}},
                                                                       {{1}, {1, 1, 1, 1}},
                                                                       {{2}, {1, 1, 2, 2}},
                                                                       {{2, 1}, {1, 1, 2, 2}},
                                                                       {{2, 2}, {1, 2, 3, 4}}}};
  for (const auto& [extents, due] : kinds) {
    Tiny checkpoint = tiny_fused();
    checkpoint.put(name, Element::f32, extents);
    const Folder folder;
    checkpoint.write(folder / "model.safetensors");
    const Layer layer = layer_in(folder.path(), 3);
    const std::array<float, 4> got{
        *layer.scales(0, Projection::w1).weight, *layer.scales(0, Projection::w3).weight,
        *layer.scales(1, Projection::w1).weight, *layer.scales(1, Projection::w3).weight};
    EXPECT_EQ(got, due) << text(extents);
  }
  Tiny checkpoint = tiny_fused();
  checkpoint.put(name, Element::f32, {2, 3});
  expect_unusable(refusal(checkpoint), "model.safetensors: '" + name +
                                           "': is F32 [2, 3], expected F32 [], [2] or [2, 2]");
}

TEST(Format, experts_that_are_not_nvfp4_are_refused_by_name) {
  const std::string gate = "model.layers.3.mlp.experts.0.gate_proj";
  Tiny checkpoint = tiny();
  for (auto& [name, entry] : checkpoint.tensors) {
    if (!name.ends_with(".weight")) continue;
    entry.element = Element::bf16;
    entry.extents[1] *= 2;
  }
  expect_refused(refusal(checkpoint),
                 "model.safetensors: '" + gate + ".weight': the experts are BF16, not NVFP4");
  checkpoint = tiny();
  for (auto& [name, entry] : checkpoint.tensors) {
    if (!name.ends_with(".weight_scale")) continue;
    entry.element = Element::u8;
    entry.extents[1] /= 2;
  }
  expect_refused(refusal(checkpoint),
                 "model.safetensors: '" + gate +
                     ".weight_scale': a scale for each 32 elements: the experts are MXFP4, not "
                     "NVFP4");
  Tiny packed;
  packed.put("model.layers.3.mlp.experts.0.gate_proj.qweight", Element::i32, {4, 4});
  packed.put("model.layers.3.mlp.experts.0.down_proj.qweight", Element::i32, {4, 4});
  EXPECT_TRUE(refusal(packed).refused);
  checkpoint = tiny();
  for (const std::string e : {"0", "1"}) {
    for (const std::string part : {".weight", ".weight_scale", ".weight_scale_2", ".input_scale"}) {
      checkpoint.tensors.erase("model.layers.3.mlp.experts." + e + ".gate_proj" + part);
    }
  }
  EXPECT_TRUE(refusal(checkpoint).refused);
  EXPECT_NE(refusal(checkpoint).text.find("the experts are not gated: no gate_proj"),
            std::string::npos);
}

TEST(Format, biased_transposed_and_interleaved_experts_are_refused_by_name) {
  Tiny checkpoint = tiny();
  checkpoint.put("model.layers.3.mlp.experts.1.up_proj.bias", Element::bf16, {64});
  expect_refused(refusal(checkpoint),
                 "model.safetensors: 'model.layers.3.mlp.experts.1.up_proj.bias': experts with "
                 "biases are not supported");
  checkpoint = tiny_fused();
  checkpoint.put("model.layers.3.mlp.experts.gate_up_proj_bias", Element::bf16, {2, 128});
  EXPECT_TRUE(refusal(checkpoint).refused);
  checkpoint = tiny_fused();
  checkpoint.put("model.layers.3.mlp.experts.gate_up_proj", Element::u8, {2, 64, 128});
  checkpoint.put("model.layers.3.mlp.experts.gate_up_proj_weight_scale", Element::f8_e4m3,
                 {2, 8, 128});
  expect_refused(refusal(checkpoint),
                 "model.safetensors: 'model.layers.3.mlp.experts.gate_up_proj': transposed fused "
                 "experts (as Llama 4 has them) are not supported");
  EXPECT_NE(refusal(tiny_fused(), R"({"model_type":"gpt_oss"})").text.find("interleaved"),
            std::string::npos);
  checkpoint = tiny_fused();
  checkpoint.put("model.layers.3.mlp.experts.gate_up_proj_blocks", Element::u8, {2, 128, 4, 16});
  EXPECT_TRUE(refusal(checkpoint).refused);
}

TEST(Format, what_the_config_excludes_is_refused_with_its_entry) {
  const auto modelopt = [](std::string_view ignore) {
    return refusal(tiny(),
                   R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4",)"
                   R"("ignore":[)" +
                       std::string(ignore) + "]}}");
  };
  EXPECT_EQ(modelopt(R"("lm_head","*norm*","model.layers.2*","re:.*gate$")").text, "");
  expect_refused(modelopt(R"("model.layers.3*")"),
                 "config.json: ignore: 'model.layers.3*' leaves 'model.layers.3.mlp.experts' as it "
                 "was, not NVFP4");
  EXPECT_TRUE(modelopt(R"("*.experts.1.*")").refused);
  EXPECT_TRUE(modelopt(R"("model.layers.3.mlp")").refused);
  EXPECT_TRUE(modelopt(R"("re:.*layers[.](3|4)[.]mlp.*")").refused);
  EXPECT_TRUE(modelopt(R"("model.layers.3.mlp.experts.1.down_proj")").refused);
  expect_unusable(modelopt("1"),
                  "config.json: quantization_config: ignore: entry 0 is not a string");
  for (const std::string_view broken : {"((((", "a)", "*.experts", "a|+", "[a", "[]", "[^]"}) {
    expect_unusable(modelopt("\"re:" + std::string(broken) + "\""),
                    "config.json: quantization_config: ignore: 're:" + std::string(broken) +
                        "' is not a regular expression");
  }
  for (const std::string_view whole : {"(?!x)y", "[]a]b", "(?:a|b)+?", "a{2}", "[)(]", "(a|)x"}) {
    EXPECT_EQ(modelopt("\"re:" + std::string(whole) + "\"").text, "") << whole;
  }
  expect_refused(refusal(tiny(), "", R"({"quantization":{"quant_algo":"FP8"}})"),
                 "hf_quant_config.json: quantization: the experts are 'FP8', not NVFP4");
  expect_refused(refusal(tiny(), "", R"({"quantization":{"quant_algo":"nvfp4","group_size":32}})"),
                 "hf_quant_config.json: group_size: is 32, NVFP4 has 16");
  expect_refused(
      refusal(tiny(), "",
              R"({"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":)"
              R"({"model.layers.3.mlp.experts":{"quant_algo":"FP8"}}}})"),
      "hf_quant_config.json: quantized_layers: 'model.layers.3.mlp.experts' is 'FP8', not NVFP4");
  EXPECT_EQ(refusal(tiny(), "", R"({"quantization":{"quant_algo":"MIXED_PRECISION"}})").text, "");
}

TEST(Format, a_config_that_contradicts_the_tensors_is_unusable) {
  EXPECT_EQ(refusal(tiny(), R"({"text_config":{"n_routed_experts":2}})").text, "");
  EXPECT_FALSE(
      refusal(tiny(), R"({"quantization_config":{"quant_method":"compressed-tensors"}})").refused);
  EXPECT_NE(refusal(tiny(), R"({"quantization_config":{"quant_method":"compressed-tensors"}})")
                .text.find("quant_method: is 'compressed-tensors', but the tensors"),
            std::string::npos);
  expect_unusable(refusal(tiny(), "[]"), "config.json: is not an object");
  expect_unusable(refusal(tiny(), "{"), "config.json: not JSON at byte 2");
  expect_unusable(refusal(tiny(), R"({"num_experts":"2"})"),
                  "config.json: num_experts: is not a whole number up to 1000000");
  expect_unusable(refusal(tiny(), R"({"num_experts":3})"),
                  "config.json: num_experts: is 3, but 'model.layers.3.mlp.experts' holds 2 "
                  "experts");
  expect_unusable(refusal(tiny(), "", "{}"), "hf_quant_config.json: quantization: is missing");
}

TEST(Format, missing_and_wrong_tensors_are_unusable_and_named) {
  const std::string stem = "model.layers.3.mlp.experts.1.up_proj";
  Tiny checkpoint = tiny();
  checkpoint.tensors.erase(stem + ".weight");
  EXPECT_NE(refusal(checkpoint).text.find("'" + stem + ".weight': is missing"), std::string::npos);
  checkpoint = tiny();
  checkpoint.put(stem + ".weight", Element::u8, {64, 32});
  checkpoint.put(stem + ".weight_scale", Element::f8_e4m3, {64, 4});
  expect_unusable(refusal(checkpoint),
                  "model.safetensors: '" + stem + ".weight': is U8 [64, 32], expected U8 [64, 64]");
  checkpoint = tiny();
  checkpoint.put(stem + ".weight_scale", Element::f8_e4m3, {64, 9});
  expect_unusable(refusal(checkpoint),
                  "model.safetensors: '" + stem +
                      ".weight_scale': is F8_E4M3 [64, 9], expected F8_E4M3 [64, 8]");
  checkpoint = tiny();
  checkpoint.put(stem + ".input_scale", Element::f32, {2});
  expect_unusable(refusal(checkpoint),
                  "model.safetensors: '" + stem + ".input_scale': is F32 [2], expected F32 []");
  checkpoint = tiny();
  for (const std::string part : {".weight", ".weight_scale", ".weight_scale_2", ".input_scale"}) {
    for (const std::string p : {"gate_proj", "up_proj", "down_proj"}) {
      checkpoint.tensors.erase("model.layers.3.mlp.experts.0." + p + part);
    }
  }
  EXPECT_NE(refusal(checkpoint).text.find("expert 0 is missing"), std::string::npos);
  checkpoint = tiny();
  checkpoint.tensors.erase(stem + ".input_scale");
  const Folder folder;
  checkpoint.write(folder / "model.safetensors");
  const Result<experts::Scalars> scalars = layer_in(folder.path(), 3).scalars(0, 1);
  ASSERT_TRUE(scalars.reason);
  EXPECT_EQ(scalars.reason.cause(), "scale-missing");
  EXPECT_NE(scalars.reason.text().find("expert 1 has no input scale of w3"), std::string::npos);
}

TEST(Format, one_projection_of_another_kind_is_told_from_a_layer_of_it) {
  const std::string gate = "model.layers.3.mlp.experts.0.gate_proj";
  Tiny checkpoint = tiny();
  checkpoint.put(gate + ".weight", Element::bf16, {64, 128});
  expect_refused(refusal(checkpoint), "model.safetensors: '" + gate +
                                          ".weight': is BF16 [64, 128], not packed FP4 (U8) as "
                                          "others of the layer");
  checkpoint = tiny();
  checkpoint.put(gate + ".weight_scale", Element::u8, {64, 4});
  expect_unusable(
      refusal(checkpoint),
      "model.safetensors: '" + gate + ".weight_scale': is U8 [64, 4], expected F8_E4M3 [64, 8]");
}

// Layer 3 with whatever flaws it has.
Layer flawed_layer(const Tiny& checkpoint, std::string_view config = "") {
  const Folder folder;
  checkpoint.write(folder / "model.safetensors");
  if (!config.empty()) write_file(folder / "config.json", config);
  Result<Checkpoint> opened = Checkpoint::open(folder.path());
  EXPECT_FALSE(opened.reason) << opened.reason.text();
  EXPECT_TRUE(opened->layer(3).reason);
  Result<Layer> layer = opened->layer_with_flaws(3);
  EXPECT_FALSE(layer.reason) << layer.reason.text();
  return *layer;
}

TEST(Flaws, a_layer_with_one_gives_what_it_has_and_no_expert) {
  Tiny checkpoint = tiny();
  checkpoint.tensors.erase("model.layers.3.mlp.experts.1.up_proj.weight_scale");
  const Layer layer = flawed_layer(checkpoint);
  ASSERT_EQ(layer.flaws().size(), 1U);
  const Flaw& flaw = layer.flaws().front();
  EXPECT_EQ(flaw.reason.cause(), "scale-missing");
  EXPECT_EQ(flaw.expert, 1);
  EXPECT_EQ(flaw.projection, Projection::w3);
  EXPECT_EQ(flaw.part, ProjectionPart::blocks);
  EXPECT_TRUE(layer.holds(1));
  EXPECT_FALSE(layer.holds_block_scales(1, Projection::w3));
  EXPECT_TRUE(layer.block_scales(1, Projection::w3).reason);
  EXPECT_EQ(layer.expert(0).reason.text(), flaw.reason.text());
  EXPECT_EQ(layer.expert_slice(0, 2, 0).reason.text(), flaw.reason.text());
  EXPECT_EQ(layer.scalars(0, 1).reason.text(), flaw.reason.text());
}

TEST(Flaws, numbers_that_no_layer_has_cost_no_more_than_a_few_experts) {
  const auto renumbered = [](const std::string& number) {
    Tiny made;
    for (auto& [name, entry] : tiny().tensors) {
      std::string other = name;
      const std::size_t at = other.find("experts.1.");
      if (at != std::string::npos) other.replace(at, 10, "experts." + number + ".");
      made.put(other, entry.element, entry.extents);
    }
    return made;
  };
  const Layer sparse = flawed_layer(renumbered("999999999999"));
  EXPECT_EQ(sparse.experts(), 1002);
  EXPECT_EQ(sparse.flaws().size(), 1000U);
  EXPECT_FALSE(sparse.holds(1));
  const Layer counted = flawed_layer(renumbered("7"), R"({"num_experts":2})");
  EXPECT_EQ(counted.experts(), 2);
  ASSERT_EQ(counted.flaws().size(), 2U);
  EXPECT_EQ(counted.flaws()[0].reason.cause(), "expert-missing");
  EXPECT_EQ(counted.flaws()[0].expert, 1);
  EXPECT_EQ(counted.flaws()[1].reason.cause(), "expert-duplicated");
  EXPECT_EQ(counted.flaws()[1].expert, 7);
  Tiny unnumbered;
  for (const std::string part : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
    unnumbered.put("model.layers.3.mlp.experts.x." + part, Element::u8, {64, 64});
  }
  EXPECT_NE(refusal(unnumbered).text.find("no expert is numbered"), std::string::npos);
}

}  // namespace
}  // namespace slicecheck::checkpoint
