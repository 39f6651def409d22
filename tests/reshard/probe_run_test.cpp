// Whole probes over threads: healthy experts pass with their controls seen, damage is seen, and an
// expert that is not covered or a control that cannot be reached says so.
#include "reshard/probe_run.h"

#include <gtest/gtest.h>

#include <functional>

#include "experts/payload.h"
#include "group/agree.h"
#include "group/local/local_group.h"
#include "reshard/reshard.h"

namespace slicecheck::reshard {
namespace {

using Change = std::function<void(ProbeExperts&, const group::Group&)>;

// The probes of payload experts, resharded over threads, changed on the way.
std::vector<Probed> probed(const layout::Shape& shape, const ProbeOptions& options,
                           const Change& change = {}) {
  std::vector<std::vector<Probed>> made(shape.tp);
  group::run_local({static_cast<int>(shape.tp)}, [&](group::Group& group) {
    made[group.rank()] =
        probe_experts(group, options, [&](const layout::Payload& payload) -> ProbeExperts {
          ProbeExperts given;
          given.stock = experts::payload_stock(payload, shape, group.rank());
          given.tp = reshard_nvfp4(given.stock, group, shape.experts);
          if (change) change(given, group);
          return given;
        });
  });
  for (const std::vector<Probed>& rank : made) {
    EXPECT_EQ(rank.size(), made[0].size());
    for (std::size_t i = 0; i < rank.size(); ++i) {
      EXPECT_EQ(rank[i].judged.rel_l2, made[0][i].judged.rel_l2);
      EXPECT_EQ(rank[i].controls[0].rel_l2, made[0][i].controls[0].rel_l2);
      EXPECT_EQ(rank[i].controls[1].predicted, made[0][i].controls[1].predicted);
    }
  }
  return made[0];
}

ProbeOptions both(std::uint64_t seed = 1) {
  ProbeOptions options;
  options.random = true;
  options.exact = true;
  options.seed = seed;
  return options;
}

// One k-tile a rank (I' = 64), H below and above I, one and several rounds, a last tile that wraps.
constexpr layout::Shape shapes[] = {{6, 640, 384, 3}, {6, 384, 640, 2}, {4, 128, 128, 2},
                                    {6, 128, 192, 3}, {2, 256, 512, 2}, {8, 256, 256, 4}};

class HealthyProbes : public testing::TestWithParam<layout::Shape> {};

TEST_P(HealthyProbes, pass_and_see_their_controls) {
  const layout::Shape shape = GetParam();
  for (const std::uint64_t seed : {1, 2}) {
    const std::vector<Probed> made = probed(shape, both(seed));
    ASSERT_EQ(made.size(), 2U);
    EXPECT_TRUE(made[0].judged.passed() && made[1].judged.passed());
    EXPECT_GT(made[0].judged.rel_l2, 0.8 * made[0].judged.floor);
    EXPECT_LT(made[0].judged.rel_l2, 1.2 * made[0].judged.floor);
    EXPECT_EQ(made[1].judged.rel_l2, 0);
    EXPECT_EQ(made[1].rounds, layout::exact_rounds(layout::stock_widths(shape)));
    for (const Probed& one : made) {
      for (const Control& each : one.controls) {
        EXPECT_TRUE(each.seen) << one.kind << " " << name(each.damage) << " p " << each.tiles
                               << ": " << each.predicted << " needed " << each.needed;
        EXPECT_GT(each.rel_l2, each.bound);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HealthyProbes, testing::ValuesIn(shapes));

TEST(ProbeRun, prediction_is_near_what_the_damage_does) {
  const std::vector<Probed> made = probed(shapes[0], both());
  for (const Control& each : made[0].controls) {
    EXPECT_GT(each.rel_l2, 0.5 * each.predicted);
    EXPECT_LT(each.rel_l2, 2 * each.predicted);
  }
}

// The scalars of two experts exchanged on one rank: the exact probe and the random one see both.
TEST(ProbeRun, wrong_scalars_are_seen_and_their_experts_named) {
  const std::vector<Probed> made =
      probed(shapes[0], both(), [](ProbeExperts& given, const group::Group& group) {
        if (group.rank() != 2) return;
        float* alphas = reinterpret_cast<float*>(given.tp.g2_alphas.data.get());
        std::swap(alphas[1], alphas[4]);
      });
  for (const Probed& one : made) {
    ASSERT_EQ(one.judged.number_faults.size(), 1U);
    EXPECT_EQ(one.judged.number_faults[0].cause, "rel-l2-above-bound");
    EXPECT_EQ(one.judged.number_faults[0].experts, (std::vector<std::int64_t>{1, 4}));
  }
}

// What the probe is not able to see, as the contract says: the bytes see it.
TEST(ProbeRun, slices_exchanged_alike_between_ranks_are_not_seen) {
  const layout::Shape shape = shapes[5];
  ProbeOptions options;
  options.random = true;
  const std::vector<Probed> made =
      probed(shape, options, [&](ProbeExperts& given, const group::Group& group) {
        const layout::Payload payload{layout::PayloadKind::numeric, 1, 0};
        if (group.rank() < 2) given.tp = experts::payload_tp(payload, shape, 1 - group.rank());
      });
  EXPECT_TRUE(made[0].judged.passed());
}

// With equal w2 scales an exchange of scale tiles changes nothing: the control must say so.
TEST(ProbeRun, damage_that_changes_nothing_is_a_control_not_seen) {
  ProbeOptions options;
  options.random = true;
  const std::vector<Probed> made =
      probed(shapes[0], options, [](ProbeExperts& given, const group::Group&) {
        const MutableBytes stock = host_bytes(given.stock.w2_sf);
        const MutableBytes tp = host_bytes(given.tp.w2_sf);
        std::fill(stock.begin(), stock.end(), 0x38);
        std::fill(tp.begin(), tp.end(), 0x38);
      });
  EXPECT_TRUE(made[0].judged.passed());
  EXPECT_FALSE(made[0].controls[0].seen);
  EXPECT_EQ(made[0].controls[0].predicted, 0);
  EXPECT_EQ(made[0].controls[0].tiles, 3);  // all of I / 64 = 6, in pairs
  EXPECT_TRUE(made[0].controls[1].seen);
}

// A bound so wide that no damage exceeds it makes the probe worthless, not passed.
TEST(ProbeRun, a_bound_that_nothing_can_exceed_is_a_control_not_seen) {
  ProbeOptions options;
  options.random = true;
  options.rel_l2_max = 100;
  const std::vector<Probed> made = probed(shapes[0], options);
  EXPECT_TRUE(made[0].judged.passed());
  EXPECT_FALSE(made[0].controls[0].seen);
  EXPECT_FALSE(made[0].controls[1].seen);
  EXPECT_EQ(made[0].controls[1].needed, 400);
}

// The damage of the controls, on plain experts: what the exchanged converted bytes must be.
experts::PlainExpert plain_expert() {
  return experts::payload_expert({layout::PayloadKind::numeric, 1, 0}, 2,
                                 layout::stock_widths(shapes[0]));
}

TpExpert tp_of(const group::Group& group) {
  const experts::TpExperts tp =
      experts::payload_tp({layout::PayloadKind::numeric, 1, 0}, shapes[0], group.rank());
  return tp_expert(moe::op_experts(tp), 2);
}

TEST(Control, gate_rows_are_those_of_an_expert_with_w1_and_w3_exchanged) {
  group::run_local({3}, [](group::Group& group) {
    TpExpert got = tp_of(group);
    exchange_gate_rows(got, 1);  // channels [64, 128) of the slice
    experts::PlainExpert due = experts::slice(plain_expert(), 3, group.rank());
    for (auto member : {&experts::PlainProjection::weight, &experts::PlainProjection::scale}) {
      ByteVector& gate = due.w1.*member;
      ByteVector& up = due.w3.*member;
      std::swap_ranges(gate.begin() + gate.size() / 2, gate.end(), up.begin() + up.size() / 2);
    }
    EXPECT_EQ(got.w13, experts::converted(due).w13);
    EXPECT_EQ(got.w13_sf, experts::converted(due).w13_sf);
  });
}

TEST(Control, scale_tiles_are_those_of_an_expert_with_w2s_columns_exchanged) {
  group::run_local({3}, [](group::Group& group) {
    TpExpert got = tp_of(group);
    exchange_scale_tiles(group, got, 1, 2);  // the last of rank 0, the first of rank 1
    experts::PlainExpert due = plain_expert();
    for (auto row = due.w2.scale.begin(); row != due.w2.scale.end(); row += 24) {
      std::swap_ranges(row + 4, row + 8, row + 8);
    }
    EXPECT_EQ(got.w2_sf, experts::converted(experts::slice(due, 3, group.rank())).w2_sf);
  });
}

TEST(ProbeRun, every_expert_gets_its_tokens) {
  const auto least = [](const ProbeOptions& options, bool exact, std::int64_t experts) {
    const moe::Routing routing = probe_routing(options, exact, experts);
    EXPECT_FALSE(moe::unroutable(routing, experts));
    std::size_t fewest = routing.experts.size();
    for (std::int64_t e = 0; e < experts; ++e) {
      fewest = std::min(fewest, moe::routes_of(routing, e).size());
    }
    return fewest;
  };
  EXPECT_EQ(least({}, true, 128), 4U);
  EXPECT_EQ(least({}, false, 6), 4U);
  ProbeOptions few;
  few.tokens = 1;
  few.top_k = 3;
  EXPECT_EQ(least(few, false, 10), 1U);
  EXPECT_EQ(least(few, true, 10), 4U);
  few.tokens = 100;
  EXPECT_EQ(probe_routing(few, true, 10).tokens, 100);
}

TEST(ProbeRun, options_that_do_not_suit_the_experts_are_refused) {
  ProbeOptions options;
  options.top_k = 7;
  EXPECT_EQ(unsuited(options, 6).text(), "--top-k 7 is more than the 6 experts");
  options.top_k = 6;
  EXPECT_FALSE(unsuited(options, 6));
  options.tokens = -1;
  EXPECT_EQ(unsuited(options, 6).text(), "--tokens -1 and --top-k 6 must not be below 0");
}

TEST(ProbeRun, tp_experts_of_another_shape_are_refused_by_all) {
  std::string text;
  try {
    probed(shapes[0], both(), [](ProbeExperts& given, const group::Group& group) {
      if (group.rank() == 1) given.tp.w2.extents[0] = 5;
    });
  } catch (const group::Refusal& refusal) {
    text = refusal.what();
  }
  EXPECT_EQ(text, "cannot probe the experts: tp w2 is U8 [5, 640, 64], expected [6, 640, 64]");
}

}  // namespace
}  // namespace slicecheck::reshard
