#include "properties/moe/layer.h"

#include "moe/hidden.h"

namespace slicecheck::properties {
namespace {

// K routes a token and as many tokens as give every expert 4.
moe::RoutingPlan plan_of(const Case& given) {
  const std::int64_t top_k = std::min<std::int64_t>(3, given.shape.experts);
  const std::int64_t tokens = (4 * given.shape.experts + top_k - 1) / top_k;
  return {given.shape.experts, tokens, top_k, given.payload.seed};
}

}  // namespace

Layer layer_of(const layout::Payload& payload, const layout::Shape& shape) {
  Layer made;
  for (std::int64_t r = 0; r < shape.tp; ++r) {
    made.stocks.push_back(experts::payload_stock(payload, shape, r));
    made.tps.push_back(experts::payload_tp(payload, shape, r));
  }
  return made;
}

layout::Payload numbers_of(const Case& given, layout::PayloadKind kind, std::int64_t round) {
  return {kind, given.payload.seed, round};
}

moe::Routing any_routing(const Case& given, const Subject& subject) {
  moe::RoutingPlan plan = plan_of(given);
  const std::int64_t held = given.shape.experts_per_rank();
  switch (given.routes) {
    case Routes::skewed:
      return subject.skewed(plan);
    case Routes::without:
      plan.top_k = std::min(plan.top_k, plan.experts - held);
      return subject.without(plan, unserving_rank(given) * held, held);
    case Routes::all_to_one:
      return moe::all_to_one(plan.tokens, static_cast<std::int32_t>(chosen_expert(given)));
    case Routes::covering:
      break;
  }
  return subject.covering(plan);
}

std::int64_t unserving_rank(const Case& given) {
  return static_cast<std::int64_t>(given.payload.seed % given.shape.tp);
}

std::int64_t chosen_expert(const Case& given) {
  return static_cast<std::int64_t>(given.payload.seed % given.shape.experts);
}

moe::Routing full_routing(const Case& given, const Subject& subject) {
  return subject.covering(plan_of(given));
}

moe::Quantised hidden_of(const Case& given, const moe::Routing& routing) {
  const std::int64_t hidden = given.shape.hidden;
  return moe::quantised(moe::hidden_states(given.payload.seed, routing.tokens, hidden), hidden,
                        256);
}

LayerRows rows_of(const Case& given, const Subject& subject, const Layer& layer,
                  const moe::Routing& routing) {
  const moe::Quantised hidden = hidden_of(given, routing);
  const std::int64_t all = given.shape.experts;
  LayerRows made;
  for (std::int64_t r = 0; r < given.shape.tp; ++r) {
    made.ep.push_back(subject.route_rows(subject.fused_rows(
        moe::op_experts(layer.stocks[r]), all, hidden, routing, {8, given.payload.seed})));
    made.tp.push_back(subject.route_rows(
        subject.fused_rows(moe::op_experts(layer.tps[r]), all, hidden, routing, {16, 1})));
  }
  return made;
}

std::vector<reshard::RouteNorms> norms_of(const Subject& subject, const LayerRows& rows) {
  std::vector<reshard::RouteNorms> made;
  for (std::int64_t i = 0; i < rows.ep[0].routes(); ++i) {
    std::vector<reshard::RankRow> ranks;
    for (std::size_t r = 0; r < rows.ep.size(); ++r) {
      ranks.push_back({rows.ep[r].local[i] != 0 ? rows.ep[r].row(i) : nullptr,
                       rows.tp[r].local[i] != 0 ? rows.tp[r].row(i) : nullptr});
    }
    made.push_back(subject.norms_of(ranks, rows.ep[0].hidden));
  }
  return made;
}

}  // namespace slicecheck::properties
