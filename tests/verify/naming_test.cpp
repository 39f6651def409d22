// Every mutant of the catalogue is caught, and called what it is: the right cause, side, tensors,
// experts and ranks, and nothing beside it. Healthy layers are called nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <set>

#include "faults/byte_faults.h"
#include "faults/layout_faults.h"
#include "faults/mutants.h"
#include "faults/scalar_faults.h"
#include "verify/name.h"

namespace slicecheck::verify {
namespace {

using faults::Expected;
using faults::Layer;
using faults::Mutant;

const Layer& healthy(const Mutant& mutant) {
  static std::vector<std::pair<Mutant, Layer>> layers;
  for (const auto& [key, layer] : layers) {
    if (key.shape == mutant.shape && key.payload == mutant.payload && key.data == mutant.data) {
      return layer;
    }
  }
  layers.emplace_back(mutant, mutant.data
                                  ? faults::padded_layer(mutant.payload, mutant.shape, *mutant.data)
                                  : faults::healthy_layer(mutant.payload, mutant.shape));
  return layers.back().second;
}

Subject subject_of(const Mutant& mutant, bool payload) {
  Subject subject;
  subject.layer = {mutant.shape, mutant.data};
  for (int r = 0; r < mutant.shape.tp; ++r) subject.ranks.push_back(r);
  if (payload) {
    const layout::Widths widths = mutant.data.value_or(layout::stock_widths(mutant.shape));
    subject.payload = mutant.payload;
    subject.due = DueScalars{
        experts::payload_scalars(mutant.payload.seed, 0, mutant.shape.experts, widths), true, {}};
  }
  return subject;
}

// The judge of a payload's layer is the same for all its mutants.
Judge& payload_judge(const Mutant& mutant) {
  struct Entry {
    Mutant mutant;
    std::unique_ptr<Reference> reference;
    std::unique_ptr<Judge> judge;
  };
  static std::vector<Entry> entries;
  for (const Entry& entry : entries) {
    if (entry.mutant.shape == mutant.shape && entry.mutant.payload == mutant.payload &&
        entry.mutant.data == mutant.data) {
      return *entry.judge;
    }
  }
  Entry made{mutant, std::make_unique<Reference>(Case{mutant.shape, mutant.data}, mutant.payload),
             nullptr};
  made.judge = std::make_unique<Judge>(*made.reference);
  entries.push_back(std::move(made));
  return *entries.back().judge;
}

// The evidence of every rank, sent as ranks that work apart send it.
Evidence gathered(Judge& judge, const Layer& layer, bool payload) {
  Evidence all;
  for (std::int64_t rank = 0; rank < layer.shape.tp; ++rank) {
    Evidence mine;
    (payload ? judge_stock : judge_true_stock)(judge, rank, layer.stocks[rank], mine);
    judge_tp(judge, rank, layer.tps[rank], mine);
    join(all, unpacked(packed(mine)));
  }
  return all;
}

std::vector<report::Finding> judged(const Mutant& mutant, const Layer& layer, bool payload) {
  const Subject subject = subject_of(mutant, payload);
  if (payload) return findings(subject, gathered(payload_judge(mutant), layer, true));
  Reference reference(subject.layer, loader_of(layer.stocks, subject.layer));
  Judge judge(reference);
  return findings(subject, gathered(judge, layer, false));
}

bool fits(const Expected& due, const report::Finding& finding) {
  const report::Side side = due.side == faults::Side::tp ? report::Side::tp : report::Side::stock;
  return finding.cause == due.cause && finding.side == side && finding.tensors == due.tensors &&
         finding.experts == due.experts &&
         finding.ranks == std::vector<int>(due.ranks.begin(), due.ranks.end()) &&
         (finding.severity == report::Severity::warning) == due.warning;
}

bool exactly(const Mutant& mutant, const std::vector<report::Finding>& found) {
  return found.size() == mutant.expected.size() &&
         std::all_of(mutant.expected.begin(), mutant.expected.end(), [&](const Expected& due) {
           return std::any_of(found.begin(), found.end(),
                              [&](const report::Finding& one) { return fits(due, one); });
         });
}

std::string listed(const std::vector<report::Finding>& found) {
  std::string text;
  for (const report::Finding& one : found) {
    text += "\n    " + one.cause + " " + std::string(report::name(one.side)) + " [";
    for (const auto& t : one.tensors) text += t + " ";
    text += "] experts [";
    for (const auto e : one.experts) text += std::to_string(e) + " ";
    text += "] ranks [";
    for (const auto r : one.ranks) text += std::to_string(r) + " ";
    text += "] also [";
    for (const auto& a : one.also_possible) text += a + " ";
    text += "] " + one.text;
  }
  return text;
}

class Named {
 public:
  void add(Mutant mutant, bool payload) {
    // Bytes that are no scales are none where nothing says that they are a payload's.
    if (!payload) mutant.payload.kind = layout::PayloadKind::numeric;
    Layer layer = faults::copied(healthy(mutant));
    mutant.plant(layer);
    const auto found = judged(mutant, layer, payload);
    ++count_;
    if (exactly(mutant, found)) return;
    ADD_FAILURE() << mutant.fault << " (" << mutant.pattern << ") E " << mutant.shape.experts
                  << " H " << mutant.shape.hidden << " payload " << payload << listed(found);
  }
  std::size_t count() const { return count_; }

 private:
  std::size_t count_ = 0;
};

TEST(Naming, mutants_of_a_payload_are_called_what_they_are) {
  Named named;
  // Every fifth; `slicecheck mutants` judges all of them.
  const std::vector<Mutant> all = faults::mutants(false);
  for (std::size_t i = 0; i < all.size(); i += 5) named.add(all[i], true);
  EXPECT_GT(named.count(), 150U);
}

TEST(Naming, mutants_beside_true_stocks_are_called_what_they_are) {
  Named named;
  std::map<std::string, int> times;
  constexpr int times_max = 1;  // of each fault; the index is built anew for each
  for (const Mutant& mutant : faults::mutants(false)) {
    if (mutant.needs_payload || mutant.fault == "payload-of-other-layer") continue;
    if (++times[mutant.fault] <= times_max) named.add(mutant, false);
  }
  EXPECT_GT(named.count(), 25U);
}

// Every tensor and scalar of a side by another seed is one mistake, whether the scales tell the
// seed by themselves or the weights must.
TEST(Naming, scalars_of_another_payload_join_its_tensors) {
  Named named;
  for (const Mutant& mutant : faults::mutants(false)) {
    const bool scalars = mutant.pattern.ends_with("with scalars");
    if (mutant.fault == "payload-of-other-layer" && scalars) named.add(mutant, true);
  }
  EXPECT_EQ(named.count(), 12U);
}

// A layer of seed 1 where the case says `due` and `number`: what is said of the bytes.
std::string said_of_seed_1(std::uint64_t due, std::int64_t number) {
  Mutant mutant;
  mutant.shape = faults::telling_shapes().front();
  mutant.payload = {layout::PayloadKind::bytes, layout::layer_seed(due, number), 0};
  const Layer layer = faults::healthy_layer({layout::PayloadKind::bytes, 1, 0}, mutant.shape);
  Subject subject = subject_of(mutant, true);
  subject.payload_layer = number;
  const auto found = findings(subject, gathered(payload_judge(mutant), layer, true));
  EXPECT_EQ(found.size(), 1U) << listed(found);
  if (found.empty()) return "";
  EXPECT_EQ(found.front().cause, "payload-of-other-layer");
  EXPECT_EQ(found.front().tensors.size(), 7U);
  return found.front().text;
}

TEST(Naming, another_layer_and_another_seed_are_said_as_they_are) {
  EXPECT_TRUE(said_of_seed_1(1, 5).ends_with(
      "; their seed is 1, that is layer 0 of seed 1, where layer 5 is due"));
  EXPECT_TRUE(said_of_seed_1(2, 0).ends_with("; their seed is 1, another than 2, which is due"));
}

// Whoever watches rank 0 sees it name a layer that is wrong all over.
TEST(Naming, moves_on_at_every_wrong_tensor) {
  Mutant mutant;
  mutant.shape = faults::telling_shapes().front();
  mutant.payload = {layout::PayloadKind::bytes, 2, 0};
  const Layer layer = faults::healthy_layer({layout::PayloadKind::bytes, 1, 0}, mutant.shape);
  const Evidence all = gathered(payload_judge(mutant), layer, true);
  ASSERT_GT(all.wrong.size(), 20U);
  Subject subject = subject_of(mutant, true);
  std::size_t steps = 0;
  subject.moved = [&] { ++steps; };
  EXPECT_FALSE(findings(subject, all).empty());
  EXPECT_GE(steps, all.wrong.size());
}

// The scalars of some experts alone: the tensors tell the seed, the places are not theirs.
TEST(Naming, scalars_of_another_payload_elsewhere_have_the_same_cause) {
  Mutant mutant;
  mutant.shape = faults::telling_shapes().front();
  mutant.payload = {layout::PayloadKind::bytes, 1, 0};
  Layer layer = faults::copied(healthy(mutant));
  faults::payload_of_other_layer(layer, {faults::Side::tp, {layout::Kind::w2}, {2}, {1}}, 3);
  faults::whole_payload_of_other_layer(layer, {faults::Side::tp, {layout::Kind::w13}, {4}, {1}}, 3);
  const auto found = judged(mutant, layer, true);
  ASSERT_EQ(found.size(), 2U) << listed(found);
  for (const report::Finding& one : found) EXPECT_EQ(one.cause, "payload-of-other-layer");
}

// Experts written at another stride leave gaps of zeros, or lie over each other.
TEST(Naming, a_drift_of_what_was_written_is_no_never_written) {
  for (const layout::Kind kind : layout::kinds) {
    for (const std::int64_t step : {64, 512, 1024, 1280}) {
      Mutant mutant;
      mutant.fault = "expert-offset-drift";
      mutant.pattern = std::string(layout::name(kind)) + " by " + std::to_string(step);
      mutant.shape = faults::telling_shapes().front();
      const faults::Where where{faults::Side::tp, {kind}, {1, 2, 3, 4, 5}, {1}};
      mutant.plant = [&](Layer& layer) { faults::expert_write_drift(layer, where, step); };
      mutant.expected = {{"expert-offset-drift",
                          faults::Side::tp,
                          {std::string(layout::name(kind))},
                          where.experts,
                          where.ranks}};
      Named named;
      named.add(mutant, true);
      named.add(mutant, false);
    }
  }
}

// A whole converted expert copied into every rank's room, as far as that goes.
TEST(Naming, tensors_that_were_not_cut_are_cut_along_the_wrong_axis) {
  for (const bool all_kinds : {false, true}) {
    Mutant mutant;
    mutant.fault = "wrong-axis-cut";
    mutant.pattern = "not cut";
    mutant.shape = faults::telling_shapes().front();
    const std::vector<layout::Kind> w2{layout::Kind::w2, layout::Kind::w2_sf};
    mutant.plant = [=](Layer& layer) {
      const faults::Where where{
          faults::Side::tp, all_kinds ? std::vector<layout::Kind>{} : w2, {2}, {}};
      for (const faults::Spot& spot : faults::spots(layer, where)) {
        const ByteVector whole =
            experts::bytes_of(faults::stock_expert(layer, spot.expert), spot.kind);
        const MutableBytes room = faults::bytes_at(layer, spot);
        std::copy_n(whole.begin(), room.size(), room.begin());
      }
    };
    mutant.expected = {{"wrong-axis-cut", faults::Side::tp, {"w2", "w2_sf"}, {2}, {}}};
    if (all_kinds) {  // the first rank's part of w13 is its front
      mutant.expected.push_back(
          {"wrong-axis-cut", faults::Side::tp, {"w13", "w13_sf"}, {2}, {1, 2}});
    }
    Named named;
    named.add(mutant, true);
    named.add(mutant, false);
  }
}

// Experts written too close together: each lies over the end of the one before it.
TEST(Naming, a_drift_that_writes_over_the_first_expert_is_one_drift) {
  constexpr std::int64_t step = 64;
  for (const layout::Kind kind : layout::kinds) {
    Mutant mutant;
    mutant.fault = "expert-offset-drift";
    mutant.pattern = layout::name(kind);
    mutant.shape = faults::telling_shapes().front();
    mutant.plant = [kind](Layer& layer) {
      const MutableBytes all = host_bytes(experts::tensor_of(layer.tps[2], kind));
      const ByteVector healthy(all.begin(), all.end());
      const auto each = static_cast<std::ptrdiff_t>(all.size()) / layer.shape.experts;
      for (std::ptrdiff_t e = 0; e < layer.shape.experts; ++e) {
        std::copy_n(healthy.begin() + e * each, each, all.begin() + e * (each - step));
      }
    };
    mutant.expected = {
        {"expert-offset-drift", faults::Side::tp, {std::string(layout::name(kind))}, {}, {2}}};
    Named named;
    named.add(mutant, true);
    named.add(mutant, false);
  }
}

const faults::LayoutEntry& entry_named(std::string_view name) {
  const auto& all = faults::layout_faults();
  return *std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
}

// A layout fault planted on a shape, judged by its payload.
std::vector<report::Finding> planted(std::string_view name, const layout::Shape& shape,
                                     const faults::Where& where) {
  Mutant mutant;
  mutant.shape = shape;
  Layer layer = faults::copied(healthy(mutant));
  faults::plant(layer, entry_named(name), where);
  return judged(mutant, layer, true);
}

// 16 scale columns: there the interleave is its own inverse. What the other scales say counts.
TEST(Naming, one_mistake_in_scales_of_16_columns_is_one_finding) {
  constexpr layout::Shape narrow_slice{8, 384, 1024, 4};
  constexpr layout::Shape narrow_hidden{6, 256, 384, 3};
  const std::vector<layout::Kind> both{layout::Kind::w13_sf, layout::Kind::w2_sf};
  for (const std::string name : {"scales-linear", "scales-interleaved-twice"}) {
    for (const layout::Shape& shape : {narrow_slice, narrow_hidden}) {
      for (const faults::Where& where : {faults::Where{faults::Side::tp, both, {}, {}},
                                         faults::Where{faults::Side::tp, both, {3}, {1}}}) {
        const auto found = planted(name, shape, where);
        ASSERT_EQ(found.size(), 1U) << listed(found);
        EXPECT_EQ(found[0].cause, name) << listed(found);
        EXPECT_EQ(found[0].tensors, (std::vector<std::string>{"w13_sf", "w2_sf"}));
        EXPECT_TRUE(found[0].also_possible.empty()) << listed(found);
      }
    }
    const auto found = planted(name, narrow_slice, {faults::Side::tp, {both[1]}, {}, {}});
    ASSERT_EQ(found.size(), 1U) << listed(found);
    EXPECT_EQ(found[0].cause, "scales-linear");
    EXPECT_EQ(found[0].also_possible, std::vector<std::string>{"scales-interleaved-twice"});
    EXPECT_TRUE(found[0].text.ends_with("(T1 (E 6, H 640, I 384, tp 3) would tell them apart)"))
        << found[0].text;
  }
}

// The shape that a text proposes: T1 or T2, or none.
std::optional<layout::Shape> proposed(const std::string& text) {
  const auto& shapes = faults::telling_shapes();
  if (text.find("(T1 (E 6, H 640, I 384, tp 3)") != std::string::npos) return shapes[0];
  if (text.find("(T2 (E 6, H 384, I 640, tp 2)") != std::string::npos) return shapes[1];
  return {};
}

// On the shape that a text proposes, the fault that was planted stands for itself.
TEST(Naming, a_shape_is_said_to_tell_causes_apart_where_it_does) {
  std::set<std::string> told;
  const std::vector<layout::Shape> shapes{{2, 128, 128, 2}, {4, 128, 256, 2}, {2, 256, 128, 2},
                                          {6, 256, 512, 2}, {6, 640, 384, 3}, {6, 384, 640, 2}};
  for (const layout::Shape& shape : shapes) {
    for (const faults::LayoutEntry& entry : faults::layout_faults()) {
      if (entry.cause == "wrong-axis-cut") continue;  // w2's are flat cuts on every shape
      for (const layout::Kind kind : entry.kinds) {
        const faults::Where where{faults::Side::tp, {kind}, {1}, {1}};
        for (const report::Finding& one : planted(entry.name, shape, where)) {
          const auto other = proposed(one.text);
          if (!other) continue;
          EXPECT_FALSE(shape == *other) << one.text;
          EXPECT_FALSE(one.also_possible.empty());
          told.insert(one.cause);
          for (const report::Finding& there : planted(entry.name, *other, where)) {
            for (const std::string& also : one.also_possible) {
              EXPECT_NE(there.cause, also == entry.cause ? one.cause : also) << there.text;
              EXPECT_EQ(std::count(there.also_possible.begin(), there.also_possible.end(), also), 0)
                  << one.text << "\n"
                  << there.text;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(told.size(), 1U);
}

// A flat cut of w2 is a cut along its other axis on every shape, a rank's slices are those of
// another's, and a few bytes that are no scales may have been corrupted.
TEST(Naming, no_shape_is_proposed_where_none_tells_causes_apart) {
  const auto said = [](const std::vector<report::Finding>& found, const std::string& cause,
                       const std::string& also) {
    ASSERT_EQ(found.size(), 1U) << listed(found);
    EXPECT_EQ(found[0].cause, cause);
    EXPECT_EQ(found[0].also_possible, std::vector<std::string>{also});
    EXPECT_FALSE(proposed(found[0].text)) << found[0].text;
  };
  const faults::Where w2{faults::Side::tp, {layout::Kind::w2}, {}, {}};
  const faults::Where scales{faults::Side::tp, {layout::Kind::w2_sf}, {2}, {1}};
  for (const layout::Shape& shape : faults::telling_shapes()) {
    said(planted("flat-cut", shape, w2), "flat-cut", "wrong-axis-cut");
    said(planted("wrong-slice/shifted", shape, {faults::Side::tp, {}, {}, {}}), "rank-order",
         "wrong-slice");
    Mutant mutant;
    mutant.shape = shape;
    mutant.payload.kind = layout::PayloadKind::numeric;
    Layer layer = faults::copied(healthy(mutant));
    faults::block_scales_set(layer, scales, 3, 0xFF);
    said(judged(mutant, layer, true), "block-scale-invalid", "bit-corruption");
  }
}

// Every byte of a side becomes another one, as if drawn.
void every_byte_changed(Layer& layer, faults::Side side) {
  std::uint64_t drawn = 1;
  for (const faults::Spot& spot : faults::spots(layer, {side, {}, {}, {}})) {
    for (std::uint8_t& byte : faults::bytes_at(layer, spot)) {
      drawn = layout::mix64(drawn + 1);
      byte = static_cast<std::uint8_t>(byte + 1 + drawn % 255);
    }
  }
}

// The bound of the T1 shape, in CPU time: with a payload, and with the index that is needed
// without.
TEST(Naming, takes_under_two_seconds_on_t1) {
  const faults::Where all{faults::Side::tp, {}, {}, {}};
  const std::vector<std::function<void(Layer&)>> damages{
      [&](Layer& layer) { faults::plant(layer, faults::layout_faults().front(), all); },
      [&](Layer& layer) { faults::rows_scrambled(layer, all, 3); },
      [](Layer& layer) { every_byte_changed(layer, faults::Side::tp); },
      [](Layer& layer) {
        every_byte_changed(layer, faults::Side::stock);
        every_byte_changed(layer, faults::Side::tp);
      }};
  Mutant mutant;
  mutant.shape = faults::telling_shapes().front();
  mutant.payload.kind = layout::PayloadKind::numeric;
  for (std::size_t i = 0; i < damages.size(); ++i) {
    Layer layer = faults::copied(healthy(mutant));
    damages[i](layer);
    for (const bool payload : {true, false}) {
      const std::clock_t start = std::clock();
      EXPECT_FALSE(judged(mutant, layer, payload).empty());
      EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2.0)
          << "damage " << i << ", payload " << payload;
    }
  }
}

TEST(Naming, healthy_layers_are_called_nothing) {
  for (const layout::Shape& shape : faults::telling_shapes()) {
    for (const layout::PayloadKind kind :
         {layout::PayloadKind::bytes, layout::PayloadKind::numeric, layout::PayloadKind::exact}) {
      Mutant healthy_one;
      healthy_one.shape = shape;
      healthy_one.payload = {kind, 5, 0};
      const Layer& layer = healthy(healthy_one);
      EXPECT_TRUE(judged(healthy_one, layer, true).empty());
      if (kind != layout::PayloadKind::bytes) {
        EXPECT_TRUE(judged(healthy_one, layer, false).empty());
      }
    }
  }
}

}  // namespace
}  // namespace slicecheck::verify
