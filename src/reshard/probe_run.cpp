#include "reshard/probe_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "group/agree.h"
#include "moe/hidden.h"

namespace slicecheck::reshard {
namespace {

constexpr std::int64_t routes_default = 4;  // an expert
constexpr std::int64_t top_k_default = 8;

// The first expert with routes.
std::int64_t first_routed(const moe::Routing& routing) {
  return *std::min_element(routing.experts.begin(), routing.experts.end());
}

// The worse of two rounds: one that failed, else the one further off.
bool is_worse(const Judged& a, const Judged& b) {
  if (a.passed() != b.passed()) return !a.passed();
  return a.rel_l2 > b.rel_l2;
}

// The weaker of two controls: one that was not seen, else the one less above its bound.
bool is_weaker(const Control& a, const Control& b) {
  if (a.seen != b.seen) return !a.seen;
  return a.rel_l2 < b.rel_l2;
}

void add_round(Probed& all, const Probed& round) {
  ++all.rounds;
  if (is_worse(round.judged, all.judged)) all.judged = round.judged;
  for (std::size_t i = 0; i < all.controls.size(); ++i) {
    if (is_weaker(round.controls[i], all.controls[i])) all.controls[i] = round.controls[i];
  }
}

layout::Shape shape_of(const ProbeExperts& given, const group::Group& group) {
  return experts::shape_of(given.stock, group.size());
}

}  // namespace

Reason unsuited(const ProbeOptions& options, std::int64_t experts) {
  if (options.top_k > experts) {
    return Reason(fmt::format("--top-k {} is more than the {} experts", options.top_k, experts));
  }
  if (options.top_k < 0 || options.tokens < 0) {
    return Reason(fmt::format("--tokens {} and --top-k {} must not be below 0", options.tokens,
                              options.top_k));
  }
  return {};
}

moe::Routing probe_routing(const ProbeOptions& options, bool exact, std::int64_t experts) {
  const std::int64_t top_k = options.top_k != 0 ? options.top_k : std::min(top_k_default, experts);
  const std::int64_t least = exact || options.tokens == 0 ? routes_default : 1;
  const std::int64_t covering_tokens = (least * experts + top_k - 1) / top_k;
  return moe::covering({experts, std::max(options.tokens, covering_tokens), top_k, options.seed});
}

Probed probe_once(group::Group& group, const ProbeExperts& given, const moe::Routing& routing,
                  const ProbeRule& rule, std::uint64_t seed, std::int64_t first_tile) {
  const layout::Shape shape = shape_of(given, group);
  group::refuse_together(group, experts::misshapen(given.tp, shape), "cannot probe the experts");
  const float global = load<float>(given.stock.a1_gscale.data.get());
  const moe::Quantised hidden =
      moe::quantised(moe::hidden_states(seed, routing.tokens, shape.hidden), shape.hidden, global);
  const moe::OpExperts tp = moe::op_experts(given.tp);
  // moe::fused_rows(), an expert a step: the op on the host may take minutes.
  const auto rows_of = [&](const moe::OpExperts& from, const moe::Placement& placement) {
    moe::PermutedRows made = moe::unwritten_rows(routing, {from.first, from.count, shape.experts},
                                                 shape.hidden, placement);
    for (std::int64_t e = from.first; e < from.first + from.count; ++e) {
      moe::write_rows(made, from, e, hidden, routing);
      group.moved();
    }
    return moe::route_rows(made);
  };
  const moe::RouteRows ep_rows = rows_of(moe::op_experts(given.stock), {8, seed});
  const moe::RouteRows tp_rows = rows_of(tp, {16, seed + 1});
  const std::vector<RouteNorms> norms = route_norms(group, ep_rows, tp_rows);
  const std::int64_t expert = first_routed(routing);
  const ControlInput input{
      tp,        hidden, routing, ep_rows, rule, expert, norms_of_expert(norms, routing, expert),
      first_tile};
  Probed made{rule.exact ? "exact" : "random", 1, routing.tokens, routing.top_k,
              judged(norms, routing, rule),    {}};
  for (const Damage damage : {Damage::scale_tiles, Damage::gate_rows}) {
    made.controls.push_back(control(group, input, damage));
  }
  return made;
}

std::vector<Probed> probe_experts(group::Group& group, const ProbeOptions& options,
                                  const ExpertsOf& experts_of) {
  std::vector<Probed> made;
  if (options.random) {
    const ProbeExperts given = experts_of({layout::PayloadKind::numeric, options.seed, 0});
    const moe::Routing routing = probe_routing(options, false, shape_of(given, group).experts);
    made.push_back(probe_once(group, given, routing, {false, options.rel_l2_max}, options.seed, 0));
  }
  std::int64_t rounds = options.exact ? 1 : 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const ProbeExperts given = experts_of({layout::PayloadKind::exact, options.seed, round});
    const layout::Shape shape = shape_of(given, group);
    rounds = layout::exact_rounds(layout::stock_widths(shape));
    const std::int64_t first = round * shape.hidden % shape.intermediate / layout::slice_multiple;
    const moe::Routing routing = probe_routing(options, true, shape.experts);
    Probed one = probe_once(group, given, routing, {true, {}}, options.seed, first);
    if (round == 0) {
      made.push_back(std::move(one));
    } else {
      add_round(made.back(), one);
    }
  }
  return made;
}

}  // namespace slicecheck::reshard
