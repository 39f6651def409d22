#include "tests/reshard/reshard_laws.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "experts/payload.h"
#include "group/agree.h"
#include "reshard/reshard.h"
#include "tests/reshard/scarce_group.h"

namespace slicecheck::reshard {
namespace {

using experts::StockExperts;
using experts::TpExperts;

constexpr layout::Payload payload{layout::PayloadKind::bytes, 7, 0};

/// A way of the exchange, the kinds that it has packed at once, what it calls their memory, and the
/// calls of the group by which they travel.
struct Way {
  std::string name;
  TpExperts (*reshard)(const StockExperts&, group::Group&, std::int64_t);
  std::vector<layout::Kind> packed;
  std::string purpose;
  int calls = 0;
};

layout::Shape small(const group::Group& group) {
  return {2 * group.size(), 256, 64 * group.size(), group.size()};
}

Bytes bytes(const Tensor& tensor) { return host_bytes(tensor); }

bool same(const Tensor& a, const Tensor& b) {
  const Bytes left = bytes(a);
  const Bytes right = bytes(b);
  return a.dtype == b.dtype && a.extents == b.extents &&
         std::equal(left.begin(), left.end(), right.begin(), right.end());
}

template <typename Record>
void expect_same(const Record& got, const Record& want) {
  for (const layout::Kind kind : layout::kinds) {
    EXPECT_TRUE(same(tensor_of(got, kind), tensor_of(want, kind))) << layout::name(kind);
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    EXPECT_TRUE(same(tensor_of(got, scalar), tensor_of(want, scalar))) << name(scalar);
  }
}

void gives_each_rank_its_slice_of_every_expert(group::Group& group, const Way& way) {
  const std::int64_t n = group.size();
  // The widths of the catalogue of faults (H 640, I' 128), and the smallest that cut.
  for (const layout::Shape& shape :
       {layout::Shape{2 * n, 640, 128 * n, n}, layout::Shape{n, 128, 64 * n, n},
        layout::Shape{3 * n, 384, 192 * n, n}}) {
    for (const layout::PayloadKind kind :
         {layout::PayloadKind::bytes, layout::PayloadKind::numeric, layout::PayloadKind::exact}) {
      // The reference is slow: at eight ranks one payload must do.
      if (n > 4 && kind != layout::PayloadKind::bytes) continue;
      const layout::Payload made{kind, 5, 0};
      const StockExperts stock = experts::payload_stock(made, shape, group.rank());
      const TpExperts tp = way.reshard(stock, group, shape.experts);
      expect_same(tp, experts::payload_tp(made, shape, group.rank()));
      expect_same(stock, experts::payload_stock(made, shape, group.rank()));
      EXPECT_EQ(tp.intermediate, shape.slice());
      EXPECT_EQ(tp.num_experts, shape.experts);
    }
  }
}

void keeps_to_its_packed_tensors_and_one_exchange_a_kind(group::Group& group, const Way& way) {
  const layout::Shape shape = small(group);
  const StockExperts stock = experts::payload_stock(payload, shape, group.rank());
  ScarceGroup counted(group, -1);
  const TpExperts tp = way.reshard(stock, counted, shape.experts);
  std::int64_t result = 0;
  for (const layout::Kind kind : layout::kinds) result += tensor_of(tp, kind).bytes();
  for (const experts::Scalar scalar : experts::all_scalars) result += tensor_of(tp, scalar).bytes();
  std::int64_t packed = 0;
  for (const layout::Kind kind : way.packed) packed += tensor_of(stock, kind).bytes();
  EXPECT_LE(counted.space().peak_bytes(), result + packed);
  EXPECT_GE(counted.space().peak_bytes(), result);
  EXPECT_EQ(counted.exchanges(), 4);
  EXPECT_EQ(counted.calls(), way.calls);
  EXPECT_EQ(counted.gathers(), 3);
}

/// What a reshard ended with: its refusal's sentence, or nothing.
struct Ending {
  std::string text;
  group::Agreed agreed;
};

Ending ending(const Way& way, const StockExperts& stock, group::Group& group,
              std::int64_t experts) {
  try {
    const TpExperts made = way.reshard(stock, group, experts);
  } catch (const group::Refusal& refused) {
    return {refused.what(), refused.agreed()};
  }
  return {};
}

/// A rank's experts on their way into a reshard.
struct Input {
  StockExperts stock;
  layout::Shape shape;
  std::int64_t experts = 0;
  std::int64_t rank = 0;
};

/// A way to spoil one rank's experts, and the sentence that all ranks must then give.
struct Spoil {
  std::string_view name;
  std::string_view cause;
  std::function<void(Input&)> plant;
  std::function<std::string(const Input&)> sentence;
};

std::string number(std::int64_t value) { return std::to_string(value); }

std::string dims(const std::vector<std::int64_t>& extents) { return slicecheck::text(extents); }

Spoil spoiled_dtype() {
  return {"dtype", "shape-unsupported", [](Input& in) { in.stock.w13_sf.dtype = Dtype::u8; },
          [](const Input& in) {
            const std::string extents = dims({2, 2 * in.shape.intermediate, in.shape.hidden / 16});
            return "w13_sf is U8 " + extents + ", expected F8_E4M3 " + extents;
          }};
}

Spoil spoiled_extents() {
  return {"extents", "shape-unsupported", [](Input& in) { in.stock.w2.extents.back() += 1; },
          [](const Input& in) {
            return "w2 is U8 " + dims({2, in.shape.hidden, in.shape.intermediate / 2 + 1}) +
                   ", expected U8 " + dims({2, in.shape.hidden, in.shape.intermediate / 2});
          }};
}

Spoil spoiled_dims() {
  return {"dims", "shape-unsupported",
          [](Input& in) {
            in.stock.w13.extents = {4, 4};
          },
          [](const Input&) { return "the w13 weight must be [experts, rows, columns]"; }};
}

Spoil spoiled_strides() {
  return {"strides", "shape-unsupported",
          [](Input& in) {
            in.stock.w2_sf.strides = {1, 2, 3};
          },
          [](const Input&) { return "w2_sf is not contiguous"; }};
}

Spoil spoiled_data() {
  return {"data", "shape-unsupported", [](Input& in) { in.stock.a2_gscale.data = nullptr; },
          [](const Input&) { return "a2_gscale has no data, expected 4 bytes"; }};
}

Spoil spoiled_scalar_extents() {
  return {"scalar_extents", "shape-unsupported",
          [](Input& in) {
            in.stock.a1_gscale = host_floats({256, 256});
          },
          [](const Input&) { return "a1_gscale is F32 [2], expected F32 [1]"; }};
}

Spoil spoiled_experts() {
  return {"experts", "shape-unsupported", [](Input& in) { in.experts += 1; },
          [](const Input& in) {
            return number(in.shape.tp) + " ranks x 2 experts is not " +
                   number(in.shape.experts + 1) + " experts";
          }};
}

Spoil spoiled_placement() {
  return {"placement", "not-linear-placement", [](Input& in) { in.stock.first_expert += 2; },
          [](const Input& in) {
            return "rank " + number(in.rank) + " holds experts from " + number(2 * in.rank + 2) +
                   ", not " + number(2 * in.rank) + " (linear placement)";
          }};
}

/// Gives the rank tensors of other widths, sound but for what the widths say; their bytes are not
/// read.
void widen(Input& in, std::int64_t hidden, std::int64_t intermediate) {
  const layout::Shape other{in.shape.experts, hidden, intermediate, in.shape.tp};
  const std::int64_t held = other.experts_per_rank();
  in.stock = experts::stock_of(
      other,
      experts::payload_scalars(payload.seed, in.rank * held, held, layout::stock_widths(other)),
      in.rank * held);
}

Spoil spoiled_slice() {
  return {"slice", "shape-unsupported",
          [](Input& in) { widen(in, in.shape.hidden, 32 * in.shape.tp); },
          [](const Input& in) {
            return "intermediate slice 32 and hidden " + number(in.shape.hidden) +
                   " must be multiples of 64 and 128";
          }};
}

Spoil spoiled_split() {
  return {"split", "shape-unsupported",
          [](Input& in) { widen(in, in.shape.hidden, 64 * in.shape.tp + 16); },
          [](const Input& in) {
            const std::int64_t wide = 64 * in.shape.tp + 16;
            if (wide % in.shape.tp == 0) {
              return "intermediate slice " + number(wide / in.shape.tp) + " and hidden " +
                     number(in.shape.hidden) + " must be multiples of 64 and 128";
            }
            return "intermediate " + number(wide) + " does not split " + number(in.shape.tp) +
                   " ways";
          }};
}

std::string held(std::int64_t hidden, const Input& in) {
  return "hidden " + number(hidden) + ", intermediate " + number(in.shape.intermediate) + " and " +
         number(in.shape.experts) + " experts";
}

Spoil spoiled_hidden() {
  return {"hidden", "shape-differs-across-ranks",
          [](Input& in) { widen(in, 128, in.shape.intermediate); },
          [](const Input& in) {
            // Of two ranks neither is the minority: the lower one's value counts as most.
            const bool tie = in.shape.tp == 2 && in.rank == 0;
            return "the experts' shapes differ across ranks: most have " +
                   held(tie ? 128 : 256, in) + ", but rank " + number(tie ? 1 : in.rank) + " has " +
                   held(tie ? 256 : 128, in);
          }};
}

Spoil spoiled_global_scale() {
  return {"global_scale", "input-scale-differs-across-ranks",
          [](Input& in) { in.stock.a1_gscale = host_floats({300}); },
          [](const Input& in) {
            const bool tie = in.shape.tp == 2 && in.rank == 0;
            const std::string mine = "300 (0x43960000)";
            const std::string most = "256 (0x43800000)";
            return "the experts' global input scales differ across ranks: a1_gscale is " +
                   (tie ? mine : most) + ", but rank " + number(tie ? 1 : in.rank) + " has " +
                   (tie ? most : mine);
          }};
}

Spoil spoiled_global_bit() {
  return {"global_bit", "input-scale-differs-across-ranks",
          [](Input& in) { in.stock.a2_gscale = host_floats({std::nextafter(16.0F, 17.0F)}); },
          [](const Input& in) {
            const bool tie = in.shape.tp == 2 && in.rank == 0;
            const std::string mine = "16.000002 (0x41800001)";
            const std::string most = "16 (0x41800000)";
            return "the experts' global input scales differ across ranks: a2_gscale is " +
                   (tie ? mine : most) + ", but rank " + number(tie ? 1 : in.rank) + " has " +
                   (tie ? most : mine);
          }};
}

Spoil spoiled_derived(std::string_view name, float value, std::string class_and_bits) {
  return {name, "scale-not-finite-positive",
          [value](Input& in) {
            std::vector<float> values = floats(in.stock.g2_alphas);
            values.back() = value;
            in.stock.g2_alphas = host_floats(values);
          },
          [class_and_bits](const Input& in) {
            return "g2_alphas of expert " + number(2 * in.rank + 1) + " is " + class_and_bits +
                   ", expected a finite positive normal number";
          }};
}

Spoil spoiled_global_value() {
  return {"global_nan", "scale-not-finite-positive",
          [](Input& in) { in.stock.a1_gscale = host_floats({std::nanf("")}); },
          [](const Input&) {
            return "a1_gscale is NaN: nan (0x7fc00000), expected a finite positive normal number";
          }};
}

std::vector<Spoil> spoils() {
  const float infinity = std::numeric_limits<float>::infinity();
  return {spoiled_dtype(),
          spoiled_extents(),
          spoiled_dims(),
          spoiled_strides(),
          spoiled_data(),
          spoiled_scalar_extents(),
          spoiled_experts(),
          spoiled_placement(),
          spoiled_slice(),
          spoiled_split(),
          spoiled_hidden(),
          spoiled_global_scale(),
          spoiled_global_bit(),
          spoiled_global_value(),
          spoiled_derived("zero", 0, "zero: 0 (0x00000000)"),
          spoiled_derived("negative", -0.5F, "negative: -0.5 (0xbf000000)"),
          spoiled_derived("denormal", 1e-40F, "denormal: 1e-40 (0x000116c2)"),
          spoiled_derived("infinite", infinity, "infinite: inf (0x7f800000)")};
}

void refuses_what_is_wrong_with_any_rank_on_all(group::Group& group, const Way& way) {
  const layout::Shape shape = small(group);
  const StockExperts sound = experts::payload_stock(payload, shape, group.rank());
  for (const Spoil& spoil : spoils()) {
    for (int rank = 0; rank < group.size(); ++rank) {
      Input input{sound, shape, shape.experts, group.rank()};
      if (group.rank() == rank) spoil.plant(input);
      const Ending end = ending(way, input.stock, group, input.experts);
      const std::string want = spoil.sentence({{}, shape, shape.experts, rank});
      EXPECT_EQ(end.text, "Expert TP cannot reshard the stock experts: " + want)
          << spoil.name << " on rank " << rank;
      EXPECT_EQ(end.agreed.reasons.size(), 1U) << spoil.name;
      if (end.agreed.reasons.empty()) continue;
      EXPECT_EQ(end.agreed.reasons[0].reason.cause(), spoil.cause);
    }
  }
  // The group goes on as if nothing had been.
  expect_same(way.reshard(sound, group, shape.experts),
              experts::payload_tp(payload, shape, group.rank()));
}

void counts_the_ranks_that_refuse(group::Group& group, const Way& way) {
  const layout::Shape shape = small(group);
  StockExperts stock = experts::payload_stock(payload, shape, group.rank());
  stock.w2_sf.strides = {1, 2, 3};
  const Ending end = ending(way, stock, group, shape.experts);
  const int more = group.size() - 1;
  EXPECT_EQ(end.text, "Expert TP cannot reshard the stock experts: w2_sf is not contiguous, and " +
                          number(more) + " more rank" + (more == 1 ? "" : "s"));
  EXPECT_EQ(end.agreed.reasons.size(), static_cast<std::size_t>(group.size()));
}

void names_the_whole_minority(group::Group& group, const Way& way) {
  const bool odd = group.rank() >= group.size() - (group.size() - 1) / 2;
  const layout::Shape shape = small(group);
  StockExperts stock = experts::payload_stock(payload, shape, group.rank());
  if (odd) stock.a1_gscale = host_floats({300});
  const Ending end = ending(way, stock, group, shape.experts);
  std::vector<int> ranks;
  for (const group::RankReason& each : end.agreed.reasons) ranks.push_back(each.rank);
  std::vector<int> want;
  for (int r = group.size() - (group.size() - 1) / 2; r < group.size(); ++r) want.push_back(r);
  EXPECT_EQ(ranks, want);
  for (const int rank : want) {
    EXPECT_NE(end.text.find("rank " + number(rank) + " has 300"), std::string::npos) << end.text;
  }
}

void refuses_when_memory_is_out_on_any_rank(group::Group& group, const Way& way) {
  const layout::Shape shape = small(group);
  const StockExperts stock = experts::payload_stock(payload, shape, group.rank());
  const std::vector<std::string> purposes{
      "scalars in a row", "tp w13",        "tp w13_sf",    "tp w2",    "tp w2_sf",
      "tp g1_alphas",     "tp g1_scale_c", "tp g2_alphas", way.purpose};
  for (int number = 0; number < static_cast<int>(purposes.size()); ++number) {
    const int rank = number % group.size();
    ScarceGroup scarce(group, group.rank() == rank ? number : -1);
    const Ending end = ending(way, stock, scarce, shape.experts);
    EXPECT_EQ(end.text,
              "Expert TP cannot reshard the stock experts: no room for " + purposes[number]);
    for (const group::RankReason& each : end.agreed.reasons) {
      EXPECT_EQ(each.reason.cause(), "out-of-memory");
      EXPECT_EQ(each.rank, rank);
    }
  }
}

void refuses_experts_of_nothing(group::Group& group, const Way& way) {
  StockExperts stock = experts::payload_stock(payload, small(group), group.rank());
  for (const layout::Kind kind : layout::kinds) tensor_of(stock, kind).extents[0] = 0;
  for (const experts::Scalar scalar : experts::all_scalars) tensor_of(stock, scalar).extents = {0};
  stock.first_expert = 0;
  EXPECT_NE(ending(way, stock, group, 0).text.find("hold nothing"), std::string::npos);
}

void check_global_scales_is_nothing_where_all_agree(group::Group& group) {
  StockExperts stock = experts::payload_stock(payload, small(group), group.rank());
  EXPECT_FALSE(group::agree(group, check_global_scales(stock, group)));
  if (group.rank() == group.size() - 1) stock.a2_gscale = host_floats({17});
  const Reason mine = check_global_scales(stock, group);
  EXPECT_EQ(static_cast<bool>(mine), group.rank() == group.size() - 1);
  EXPECT_TRUE(group::agree(group, mine));
}

}  // namespace

std::vector<Law> laws() {
  const std::vector<Way> ways{{"seed", reshard_nvfp4, {layout::Kind::w13}, "the packed w13", 4},
                              {"streamed",
                               streamed_nvfp4,
                               {layout::kinds.begin(), layout::kinds.end()},
                               "the packed experts",
                               3}};
  const std::vector<std::pair<std::string, void (*)(group::Group&, const Way&)>> each{
      {"gives_each_rank_its_slice_of_every_expert", gives_each_rank_its_slice_of_every_expert},
      {"keeps_to_its_packed_tensors_and_one_exchange_a_kind",
       keeps_to_its_packed_tensors_and_one_exchange_a_kind},
      {"refuses_what_is_wrong_with_any_rank_on_all", refuses_what_is_wrong_with_any_rank_on_all},
      {"counts_the_ranks_that_refuse", counts_the_ranks_that_refuse},
      {"names_the_whole_minority", names_the_whole_minority},
      {"refuses_when_memory_is_out_on_any_rank", refuses_when_memory_is_out_on_any_rank},
      {"refuses_experts_of_nothing", refuses_experts_of_nothing}};
  std::vector<Law> all;
  for (const Way& way : ways) {
    for (const auto& [name, law] : each) {
      all.push_back(
          {way.name + "_" + name, [way, act = law](group::Group& group) { act(group, way); }});
    }
  }
  all.push_back({"check_global_scales_is_nothing_where_all_agree",
                 check_global_scales_is_nothing_where_all_agree});
  return all;
}

}  // namespace slicecheck::reshard
