// golden/refusals.json: what is refused, and the exact sentence, worked out by hand from the seed.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "experts/payload.h"

namespace slicecheck::experts {
namespace {

using nlohmann::json;

json golden() {
  std::ifstream file(SLICECHECK_SOURCE_DIR "/golden/refusals.json");
  return json::parse(file);
}

Dtype dtype_named(const std::string& text) {
  for (const Dtype each : {Dtype::u8, Dtype::f8_e4m3, Dtype::f32, Dtype::bf16, Dtype::i32}) {
    if (name(each) == text) return each;
  }
  ADD_FAILURE() << "no dtype " << text;
  return Dtype::u8;
}

Tensor& tensor_named(StockExperts& stock, const std::string& text) {
  for (const layout::Kind kind : layout::kinds) {
    if (layout::name(kind) == text) return tensor_of(stock, kind);
  }
  for (const Scalar scalar : all_scalars) {
    if (name(scalar) == text) return tensor_of(stock, scalar);
  }
  return text == "a1_gscale" ? stock.a1_gscale : stock.a2_gscale;
}

// Sound but for the changes: only types, extents and strides matter, the bytes are never read.
StockExperts stock_of(const json& base, const json& entry) {
  const std::int64_t held = entry.value("held", base.at("held").get<std::int64_t>());
  const layout::Shape one{held, entry.value("hidden", base.at("hidden").get<std::int64_t>()),
                          entry.value("intermediate", base.at("intermediate").get<std::int64_t>()),
                          1};
  StockExperts stock = stock_of(one, payload_scalars(1, 0, held, layout::stock_widths(one)), 0);
  for (const json& change : entry.value("changes", json::array())) {
    Tensor& tensor = tensor_named(stock, change.at("tensor"));
    tensor = host_tensor(dtype_named(change.at("dtype")), change.at("extents").get<Extents>());
    tensor.strides = change.value("strides", Extents());
  }
  return stock;
}

Reason refusal(const json& base, const json& entry) {
  StockExperts stock = stock_of(base, entry);
  const std::int64_t tp = entry.at("tp");
  if (entry.at("source") != "misplaced") return unsupported(stock, tp);
  stock.first_expert = entry.at("first_expert");
  EXPECT_FALSE(unsupported(stock, tp)) << "a misplaced stock must be sound otherwise";
  return misplaced(stock, entry.at("rank"), tp, entry.at("experts"));
}

TEST(Refusals, each_golden_case_is_refused_with_its_exact_sentence) {
  const json file = golden();
  ASSERT_GE(file.at("cases").size(), 50U);
  for (const json& entry : file.at("cases")) {
    const Reason reason = refusal(file.at("base"), entry);
    const std::string said = reason ? reason.text() : "not refused";
    EXPECT_EQ(said, entry.at("sentence").get<std::string>()) << entry.at("name");
  }
}

TEST(Refusals, causes_are_names_of_the_catalogue) {
  const json file = golden();
  for (const json& entry : file.at("cases")) {
    const std::string text = entry.at("sentence");
    const bool linear = text.find("linear placement") != std::string::npos;
    EXPECT_EQ(refusal(file.at("base"), entry).cause(),
              linear ? "not-linear-placement" : "shape-unsupported")
        << text;
  }
}

TEST(Refusals, the_base_itself_is_not_refused) {
  const json file = golden();
  StockExperts stock = stock_of(file.at("base"), json::object());
  EXPECT_FALSE(unsupported(stock, 2));
  EXPECT_FALSE(misplaced(stock, 0, 2, 4));
  stock.first_expert = 2;
  EXPECT_FALSE(misplaced(stock, 1, 2, 4));
}

}  // namespace
}  // namespace slicecheck::experts
