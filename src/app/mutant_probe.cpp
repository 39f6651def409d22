#include "app/mutant_probe.h"

#include <algorithm>
#include <cstring>

#include "app/probe_report.h"
#include "faults/byte_faults.h"
#include "moe/hidden.h"

namespace slicecheck::app {
namespace {

using faults::Layer;
using layout::PayloadKind;

constexpr std::int64_t routes_each = 2;  // of an expert
constexpr std::int64_t top_k = 2;

moe::Quantised hidden_of(const Layer& layer, const moe::Routing& routing, std::int64_t rank) {
  const std::int64_t hidden = layer.shape.hidden;
  return moe::quantised(moe::hidden_states(layer.payload.seed, routing.tokens, hidden), hidden,
                        floats(layer.stocks[rank].a1_gscale).front());
}

// The rows of one expert, each to its route.
void put_rows(const moe::OpExperts& from, std::int64_t expert, const moe::Quantised& hidden,
              const moe::Routing& routing, std::vector<LayerRows::Row>& to) {
  const std::vector<std::int64_t> routes = moe::routes_of(routing, expert);
  std::vector<std::int64_t> tokens;
  for (const std::int64_t route : routes) tokens.push_back(route / routing.top_k);
  const std::vector<std::uint16_t> rows =
      moe::rows_of(from, expert, moe::intermediate_of(from, expert, hidden, tokens));
  const std::int64_t width = from.widths.hidden;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(i) * width;
    to[routes[i]].assign(begin, begin + width);
  }
}

bool same_part(const Tensor& a, const Tensor& b, std::int64_t at) {
  const std::int64_t each = a.bytes() / a.extents[0];
  return std::memcmp(a.data.get() + at * each, b.data.get() + at * each, each) == 0;
}

// Slot `at` of two records holds the same bytes and scalars.
template <typename Record>
bool same_expert(const Record& a, const Record& b, std::int64_t at) {
  const auto same = [&](auto which) {
    return same_part(experts::tensor_of(a, which), experts::tensor_of(b, which), at);
  };
  return std::all_of(layout::kinds.begin(), layout::kinds.end(), same) &&
         std::all_of(experts::all_scalars.begin(), experts::all_scalars.end(), same);
}

// What is known of the rows of `layer`: those of `healthy`, where this is given.
struct Known {
  const Layer* healthy = nullptr;
  const moe::Quantised* hidden = nullptr;
  const LayerRows* rows = nullptr;
};

LayerRows rows_of(const Layer& layer, const moe::Routing& routing, const Known& known) {
  const layout::Shape& shape = layer.shape;
  LayerRows made;
  if (known.rows != nullptr) made = *known.rows;
  made.ep.resize(shape.tp, std::vector<LayerRows::Row>(routing.routes()));
  made.tp.resize(shape.tp, std::vector<LayerRows::Row>(routing.routes()));
  for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
    const experts::StockExperts& stock = layer.stocks[rank];
    const experts::TpExperts& tp = layer.tps[rank];
    const experts::StockExperts* was = known.healthy ? &known.healthy->stocks[rank] : nullptr;
    const bool same_input = was != nullptr && same_part(stock.a1_gscale, was->a1_gscale, 0);
    const moe::Quantised hidden = same_input ? *known.hidden : hidden_of(layer, routing, rank);
    const bool same_place = same_input && stock.first_expert == was->first_expert;
    if (!same_place) made.ep[rank].assign(routing.routes(), {});
    for (std::int64_t local = 0; local < shape.experts_per_rank(); ++local) {
      if (same_place && same_expert(stock, *was, local)) continue;
      put_rows(moe::op_experts(stock), stock.first_expert + local, hidden, routing, made.ep[rank]);
    }
    for (std::int64_t e = 0; e < shape.experts; ++e) {
      if (same_input && same_expert(tp, known.healthy->tps[rank], e)) continue;
      put_rows(moe::op_experts(tp), e, hidden, routing, made.tp[rank]);
    }
  }
  return made;
}

reshard::Judged judged(const Layer& layer, const moe::Routing& routing, const LayerRows& rows) {
  const auto pointer = [](const LayerRows::Row& row) { return row.empty() ? nullptr : row.data(); };
  std::vector<reshard::RouteNorms> norms;
  for (std::int64_t route = 0; route < routing.routes(); ++route) {
    std::vector<reshard::RankRow> ranks;
    for (std::int64_t r = 0; r < layer.shape.tp; ++r) {
      ranks.push_back({pointer(rows.ep[r][route]), pointer(rows.tp[r][route])});
    }
    norms.push_back(reshard::norms_of(ranks, layer.shape.hidden));
  }
  const bool exact = layer.payload.kind == PayloadKind::exact;
  return reshard::judged(norms, routing, {exact, {}});
}

}  // namespace

MutantProbe::Stage& MutantProbe::stage(const faults::Mutant& mutant,
                                       const layout::Payload& payload) {
  for (Stage& one : stages_) {
    if (one.healthy.shape == mutant.shape && one.healthy.payload == payload &&
        one.data == mutant.data) {
      return one;
    }
  }
  const layout::Shape& shape = mutant.shape;
  Stage made{
      mutant.data ? faults::padded_layer(payload, shape, *mutant.data)
                  : faults::healthy_layer(payload, shape),
      mutant.data,
      moe::covering({shape.experts, routes_each * shape.experts / top_k, top_k, payload.seed}),
      {},
      {}};
  made.hidden = hidden_of(made.healthy, made.routing, 0);
  made.rows = rows_of(made.healthy, made.routing, {});
  alarms_ += !judged(made.healthy, made.routing, made.rows).passed();
  stages_.push_back(std::move(made));
  return stages_.back();
}

bool MutantProbe::seen(const faults::Mutant& mutant, const layout::Payload& payload) {
  const Stage& on = stage(mutant, payload);
  Layer layer = faults::copied(on.healthy);
  mutant.plant(layer);
  return !judged(layer, on.routing, rows_of(layer, on.routing, {&on.healthy, &on.hidden, &on.rows}))
              .passed();
}

std::vector<report::Finding> MutantProbe::said(const faults::Mutant& on, const RowsFault& plant) {
  const Stage& from = stage(on, on.payload);
  LayerRows rows = from.rows;
  plant(rows, from.routing);
  reshard::Probed probed;
  probed.kind = on.payload.kind == PayloadKind::exact ? "exact" : "random";
  probed.judged = judged(from.healthy, from.routing, rows);
  ProbePlace place;
  for (int rank = 0; rank < on.shape.tp; ++rank) place.ranks.push_back(rank);
  return probe_report({probed}, place).findings;
}

ProbeSight MutantProbe::sight(const faults::Mutant& mutant) {
  const std::uint64_t seed = mutant.payload.seed;
  ProbeSight made;
  made.random = seen(mutant, {PayloadKind::numeric, seed, 0});
  const std::int64_t rounds =
      layout::exact_rounds(mutant.data.value_or(layout::stock_widths(mutant.shape)));
  for (std::int64_t round = 0; round < rounds && !made.exact; ++round) {
    made.exact = seen(mutant, {PayloadKind::exact, seed, round});
  }
  return made;
}

}  // namespace slicecheck::app
