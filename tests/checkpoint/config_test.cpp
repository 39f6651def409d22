// What configs claim of bits, blocks, input scales and sizes, and what they leave open.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config_claims.h"
#include "checkpoint/config_sizes.h"

namespace slicecheck::checkpoint {
namespace {

using Kind = InputClaim::Kind;

constexpr std::string_view root = "model.layers.3.mlp.experts";
constexpr std::string_view module = "model.layers.3.mlp.experts.0.up_proj";

// A config of both files' texts; empty texts are absent files.
Config config_with(std::string_view text, std::string_view quantization = "") {
  Config made;
  if (!text.empty()) {
    const Reason reason = take_config(text, "config.json", made);
    EXPECT_FALSE(reason) << reason.text();
  }
  if (!quantization.empty()) {
    const Reason reason = take_quantization(quantization, "hf_quant_config.json", made);
    EXPECT_FALSE(reason) << reason.text();
  }
  return made;
}

Config quantized(const std::string& fields) {
  return config_with(R"({"quantization_config":{)" + fields + "}}");
}

Kind input_of(const Config& config, std::string_view of = module) {
  return Claims(config).input(std::string(of)).kind;
}

std::string contradiction_of(const Config& config, std::string_view of = module) {
  const Reason reason = Claims(config).contradiction(std::string(of));
  if (!reason) return "";
  EXPECT_EQ(reason.cause(), refused_cause);
  return reason.text();
}

// A group of compressed-tensors.
std::string group(std::string_view name, std::string_view targets, std::string_view weights,
                  std::string_view inputs) {
  std::string made = "\"" + std::string(name) + R"(":{"targets":[)" + std::string(targets) +
                     R"(],"weights":)" + std::string(weights);
  if (!inputs.empty()) made += R"(,"input_activations":)" + std::string(inputs);
  return made + "}";
}

Config groups(const std::string& all) {
  return quantized(R"("quant_method":"compressed-tensors","format":"mixed-precision",)"
                   R"("config_groups":{)" +
                   all + "}");
}

constexpr std::string_view fp4 = R"({"num_bits":4,"type":"float","group_size":16})";
constexpr std::string_view fp8 = R"({"num_bits":8,"type":"float","group_size":null})";
constexpr std::string_view int4 = R"({"num_bits":4,"type":"int","group_size":128})";
constexpr std::string_view local4 = R"({"num_bits":4,"type":"float","dynamic":"local"})";

TEST(Claims, an_algorithm_says_whether_activations_are_quantised) {
  const std::array<std::pair<std::string, Kind>, 8> algorithms{
      {{"NVFP4", Kind::due},
       {"nvfp4", Kind::due},
       {"W4A16_NVFP4", Kind::none},
       {"NVFP4_AWQ", Kind::none},
       {"W4A8_NVFP4_FP8", Kind::none},
       {"MIXED_PRECISION", Kind::unsaid},
       {"nvfp4-pack-quantized", Kind::unsaid},
       {"", Kind::unsaid}}};
  for (const auto& [algorithm, due] : algorithms) {
    const std::string fields = R"("quant_algo":")" + algorithm + "\"";
    EXPECT_EQ(input_of(quantized(fields)), due) << algorithm;
    EXPECT_EQ(input_of(config_with("", R"({"quantization":{)" + fields + "}}")), due) << algorithm;
  }
  EXPECT_EQ(input_of(config_with("{}")), Kind::unsaid);
  EXPECT_EQ(Claims(quantized(R"("quant_algo":"NVFP4")")).input(std::string(module)).field,
            "config.json: quant_algo: NVFP4 quantises activations");
  // One file's word that there is none is enough.
  EXPECT_EQ(input_of(config_with(R"({"quantization_config":{"quant_algo":"NVFP4"}})",
                                 R"({"quantization":{"quant_algo":"W4A16_NVFP4"}})")),
            Kind::none);
}

TEST(Claims, a_group_says_whether_activations_are_quantised) {
  const std::array<std::pair<std::string, Kind>, 8> inputs{
      {{std::string(local4), Kind::due},
       {R"({"num_bits":4,"type":"float","dynamic":false})", Kind::due},
       {R"({"num_bits":4})", Kind::due},
       {R"({"num_bits":4,"dynamic":true})", Kind::none},
       {R"({"num_bits":8,"type":"float","dynamic":false})", Kind::none},
       {R"({"num_bits":4,"dynamic":"token"})", Kind::none},
       {"null", Kind::none},
       {"", Kind::none}}};
  for (const auto& [text, due] : inputs) {
    EXPECT_EQ(input_of(groups(group("group_0", R"("Linear")", fp4, text))), due) << text;
  }
  // Model-Optimizer's own groups, of releases that name no targets, beside its algorithm.
  const std::string modelopt =
      R"("quant_algo":"NVFP4","config_groups":{"group_0":{"weights":)" + std::string(fp4);
  EXPECT_EQ(input_of(quantized(modelopt + R"(,"input_activations":{"num_bits":4}}})")), Kind::due);
  EXPECT_EQ(input_of(quantized(modelopt + "}}")), Kind::none);
}

TEST(Claims, a_module_goes_by_its_own_entry_or_group) {
  const auto layers = [](const std::string& entries) {
    return quantized(R"("quant_algo":"MIXED_PRECISION","quantized_layers":{)" + entries + "}");
  };
  const std::string wide = R"({"quant_algo":"W4A16_NVFP4","group_size":16})";
  const std::string both = R"({"quant_algo":"NVFP4","group_size":16})";
  const std::string here = "\"" + std::string(root) + "\":";
  EXPECT_EQ(input_of(layers(here + both)), Kind::due);
  EXPECT_EQ(input_of(layers(here + wide + R"(,"lm_head":)" + both)), Kind::none);
  EXPECT_EQ(input_of(layers(R"("model.layers.4.mlp.experts":)" + both)), Kind::unsaid);
  const Config own = layers(here + wide + ",\"" + std::string(module) + "\":" + both);
  EXPECT_EQ(input_of(own), Kind::due);
  EXPECT_EQ(input_of(own, "model.layers.3.mlp.experts.1.up_proj"), Kind::none);

  const std::string experts = R"("re:.*mlp[.]experts[.].*")";
  const std::string attention =
      group("a", R"("re:.*self_attn[.].*")", fp8, R"({"num_bits":8,"dynamic":true})");
  EXPECT_EQ(input_of(groups(attention + "," + group("b", experts, fp4, local4))), Kind::due);
  EXPECT_EQ(input_of(groups(group("a", R"("Linear")", fp4, local4) + "," +
                            group("b", experts, fp4, "null"))),
            Kind::none);
  // Nothing names the module: it is one of the groups of NVFP4, which must agree.
  EXPECT_EQ(input_of(groups(attention + "," + group("b", R"("Linear")", fp4, local4))), Kind::due);
  EXPECT_EQ(input_of(groups(group("a", R"("re:x")", fp4, "null") + "," +
                            group("b", R"("Linear")", fp4, local4))),
            Kind::none);
  // An expression that is not read may name it.
  EXPECT_EQ(input_of(groups(group("a", R"("re:(?=model).*experts.*")", fp4, "null") + "," +
                            group("b", experts, fp4, local4))),
            Kind::none);
}

TEST(Claims, bits_types_and_blocks_of_no_nvfp4_contradict) {
  const std::string at = "config.json: config_groups: 'g': weights: ";
  const auto one = [](std::string_view weights) {
    return contradiction_of(groups(group("g", R"("Linear")", weights, local4)));
  };
  EXPECT_EQ(one(fp4), "");
  EXPECT_EQ(one("null"), "");
  EXPECT_EQ(one(R"({"strategy":"tensor_group"})"), "");
  EXPECT_EQ(one(R"({"num_bits":8,"type":"float"})"), at + "num_bits: is 8, NVFP4 has 4");
  EXPECT_EQ(one(R"({"num_bits":4,"type":"int"})"), at + "type: is 'int', NVFP4 has 'float'");
  EXPECT_EQ(one(R"({"num_bits":4,"type":"float","group_size":32})"),
            at + "group_size: is 32, NVFP4 has 16");
  EXPECT_EQ(one(R"({"num_bits":4,"group_size":-1})"), at + "group_size: is -1, NVFP4 has 16");
  EXPECT_EQ(contradiction_of(quantized(R"("quant_algo":"NVFP4","group_size":32)")),
            "config.json: group_size: is 32, NVFP4 has 16");
  const auto entry = [](std::string_view text) {
    return contradiction_of(quantized(R"("quant_algo":"MIXED_PRECISION","group_size":128,)"
                                      R"("quantized_layers":{"model.layers.3.mlp.experts":)" +
                                      std::string(text) + "}"));
  };
  EXPECT_EQ(entry(R"({"quant_algo":"NVFP4","group_size":32})"),
            "config.json: quantized_layers: 'model.layers.3.mlp.experts': group_size: is 32, "
            "NVFP4 has 16");
  EXPECT_EQ(entry(R"({"quant_algo":"NVFP4","group_size":16})"), "");
  EXPECT_EQ(entry(R"({"quant_algo":"NVFP4","group_size":0})"), "");
}

TEST(Claims, groups_of_other_modules_do_not_contradict) {
  const std::string attention = group("a", R"("re:.*self_attn[.].*")", fp8, "null");
  const std::string linear8 = group("b", R"("Linear")", fp8, "null");
  const std::string experts = group("c", R"("re:.*mlp[.]experts[.].*")", fp4, local4);
  EXPECT_EQ(contradiction_of(groups(attention)), "");
  EXPECT_EQ(contradiction_of(groups(linear8 + "," + experts)), "");
  EXPECT_EQ(contradiction_of(groups(linear8 + "," + group("c", R"("re:x")", fp4, local4))), "");
  EXPECT_NE(contradiction_of(groups(linear8 + "," + attention)), "");
  // The expressions name it, and are int4's.
  EXPECT_NE(contradiction_of(groups(group("a", R"("re:.*up_proj$")", int4, "null") + "," +
                                    group("b", R"("Linear")", fp4, local4))),
            "");
  // A scheme by its name alone says no numbers.
  EXPECT_EQ(contradiction_of(groups(linear8 + R"(,"NVFP4":["Linear"])")), "");
}

TEST(Claims, fields_of_other_types_are_unusable_and_named) {
  const auto refused_with = [](const std::string& text) {
    Config config;
    const Reason reason = take_config(
        R"({"quantization_config":{"config_groups":{"g":{)" + text + "}}}}", "config.json", config);
    EXPECT_EQ(reason ? ending(reason) : Ending::refused, Ending::unusable) << text;
    return reason ? reason.text() : "";
  };
  const std::string at = "quantization_config: config_groups: 'g': ";
  EXPECT_EQ(refused_with(R"("weights":{"num_bits":"4"})"),
            at + "weights: num_bits: is not a whole number up to 1000000");
  EXPECT_EQ(refused_with(R"("weights":{"type":4})"), at + "weights: type: is not a string");
  EXPECT_EQ(refused_with(R"("weights":[])"), at + "weights: is not an object");
  EXPECT_EQ(refused_with(R"("input_activations":4)"), at + "input_activations: is not an object");
  EXPECT_EQ(refused_with(R"("targets":["re:(a"])"),
            at + "targets: 're:(a' is not a regular expression");
  EXPECT_EQ(refused_with(R"("targets":[1])"), at + "targets: entry 0 is not a string");
}

// The sizes that contradict H 2048 and I 768; those that padding would explain with a "~".
std::vector<std::string> contrary_in(std::string_view text) {
  const ContrarySizes made =
      contrary_sizes(config_with(text).sizes, {2048, 768}, std::string(root));
  std::vector<std::string> said;
  for (const Reason& reason : made.wrong) said.push_back(reason.text());
  for (const Reason& reason : made.padded) said.push_back("~" + reason.text());
  return said;
}

TEST(Sizes, of_known_kinds_of_models_that_fit_say_nothing) {
  for (const std::string_view text : {
           R"({})",
           R"({"hidden_size":2048,"intermediate_size":6144,"moe_intermediate_size":768})",
           R"({"hidden_size":2048,"intermediate_size":768,"num_local_experts":8})",
           // Dense layers' widths, beside experts' of a field that is not known, or not said.
           R"({"hidden_size":2048,"intermediate_size":6144,"num_experts":8})",
           R"({"hidden_size":2048,"intermediate_size":6144,"num_local_experts":8,
"expert_size_ratio":8})",
           R"({"hidden_size":2048,"intermediate_size":6144,"num_local_experts":8,
"intermediate_size_of_expert":768})",
           R"({"hidden_size":512,"text_config":{"hidden_size":2048,"moe_intermediate_size":768}})",
           R"({"text_config":{"hidden_size":2048},"moe_intermediate_size":768})",
           // Latent experts; lists a layer or a modality; blocks of their own sizes.
           R"({"hidden_size":8192,"moe_hidden_size":2048,"moe_intermediate_size":768})",
           R"({"hidden_size":8192,"moe_latent_size":2048,"moe_intermediate_size":768})",
           R"({"hidden_size":8192,"routed_expert_hidden_size":2048})",
           R"({"hidden_size":2048,"moe_intermediate_size":[1536,512]})",
           R"({"hidden_size":2048,"moe_intermediate_size":512,"moe_ffn_sizes":[512,768]})",
           R"({"hidden_size":2048,"moe_intermediate_size":512,
"block_configs":[{"moe_intermediate_size":768}]})",
           R"({"hidden_size":null,"moe_intermediate_size":null})",
           R"({"hidden_size":"x","moe_intermediate_size":-1})",
       }) {
    EXPECT_EQ(contrary_in(text), std::vector<std::string>{}) << text;
  }
}

TEST(Sizes, that_no_field_gives_contradict) {
  const auto hidden = [](const std::string& field, int value) {
    return "config.json: " + field + ": is " + std::to_string(value) +
           ", but the experts of 'model.layers.3.mlp.experts' have H 2048";
  };
  const auto intermediate = [](const std::string& field, int value) {
    return "config.json: " + field + ": is " + std::to_string(value) +
           ", but the experts of 'model.layers.3.mlp.experts' have I 768";
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(contrary_in(R"({"hidden_size":4096,"moe_intermediate_size":768})"),
            Texts{hidden("hidden_size", 4096)});
  EXPECT_EQ(contrary_in(R"({"hidden_size":2048,"moe_intermediate_size":1536})"),
            Texts{intermediate("moe_intermediate_size", 1536)});
  EXPECT_EQ(contrary_in(R"({"hidden_size":4096,"moe_intermediate_size":1536})"),
            (Texts{hidden("hidden_size", 4096), intermediate("moe_intermediate_size", 1536)}));
  // A shared expert's width is not the others'.
  EXPECT_EQ(contrary_in(R"({"moe_intermediate_size":1536,"shared_expert_intermediate_size":768})"),
            Texts{intermediate("moe_intermediate_size", 1536)});
  EXPECT_EQ(contrary_in(R"({"intermediate_size":1536,"num_local_experts":8})"),
            Texts{intermediate("intermediate_size", 1536)});
  EXPECT_EQ(contrary_in(R"({"text_config":{"hidden_size":1000,"moe_intermediate_size":768}})"),
            Texts{hidden("text_config: hidden_size", 1000)});
  EXPECT_EQ(contrary_in(R"({"hidden_size":8192,"moe_latent_size":4096})"),
            Texts{hidden("hidden_size", 8192)});
}

TEST(Sizes, that_padding_would_explain_are_doubts) {
  const std::string tail = " 768, as where they were padded";
  for (const int size : {704, 720, 760, 767}) {
    const std::vector<std::string> said =
        contrary_in(R"({"moe_intermediate_size":)" + std::to_string(size) + "}");
    ASSERT_EQ(said.size(), 1U) << size;
    EXPECT_TRUE(said.front().starts_with("~config.json: moe_intermediate_size")) << said.front();
    EXPECT_TRUE(said.front().ends_with(tail)) << said.front();
  }
}

}  // namespace
}  // namespace slicecheck::checkpoint
