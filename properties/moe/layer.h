// A case's layer for the laws of the op and of the probe: every rank's experts, routes and rows.
#pragma once

#include <optional>

#include "properties/law.h"
#include "reshard/judge.h"

namespace slicecheck::properties {

/// Every rank's stock and tp experts of a payload, [tp] each.
struct Layer {
  std::vector<experts::StockExperts> stocks;
  std::vector<experts::TpExperts> tps;
};
Layer layer_of(const layout::Payload& payload, const layout::Shape& shape);

/// The case's payload as a kind that has numbers.
layout::Payload numbers_of(const Case& given, layout::PayloadKind kind, std::int64_t round);

/// The case's routes: 4 or more for every expert, skewed ones, none to the experts of
/// unserving_rank(), or all to chosen_expert().
moe::Routing any_routing(const Case& given, const Subject& subject);
std::int64_t unserving_rank(const Case& given);
std::int64_t chosen_expert(const Case& given);

/// 4 routes or more for every expert.
moe::Routing full_routing(const Case& given, const Subject& subject);

/// The hidden states of the case, quantised.
moe::Quantised hidden_of(const Case& given, const moe::Routing& routing);

/// Every rank's rows by route, [tp] each.
struct LayerRows {
  std::vector<moe::RouteRows> ep;
  std::vector<moe::RouteRows> tp;
};
LayerRows rows_of(const Case& given, const Subject& subject, const Layer& layer,
                  const moe::Routing& routing);

/// The norms of every route.
std::vector<reshard::RouteNorms> norms_of(const Subject& subject, const LayerRows& rows);

}  // namespace slicecheck::properties
