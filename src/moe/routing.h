// Routes: token t goes to K different experts. The generators make what a probe has to cover, each
// from a seed alone, so that every rank makes the same routes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/reason.h"

namespace slicecheck::moe {

/// The experts of T tokens, [T, K]: route i = t K + k goes to experts[i].
struct Routing {
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  std::vector<std::int32_t> experts;

  std::int64_t routes() const { return tokens * top_k; }
};

/// How many tokens and routes a token, of how many experts, drawn from which seed.
struct RoutingPlan {
  std::int64_t experts = 0;
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  std::uint64_t seed = 1;
};

/// Why these routes are none of E experts: not T K of them, an expert outside [0, E), or one expert
/// twice for a token. Nothing when they are.
Reason unroutable(const Routing& routing, std::int64_t experts);

/// Every expert in turn, in an order drawn from the seed: each gets floor(T K / E) routes or one
/// more. Checked by unroutable(): K <= E, here and below. Law: Routing.covering_serves_every_expert
Routing covering(const RoutingPlan& plan);

/// Each expert about half as often as the one before it, in an order drawn from the seed.
Routing skewed(const RoutingPlan& plan);

/// Every token to one expert, K = 1.
Routing all_to_one(std::int64_t tokens, std::int32_t expert);

/// Experts [first, first + count) get none: a rank whose experts these are serves nothing. The
/// others are covered in turn.
Routing without(const RoutingPlan& plan, std::int64_t first, std::int64_t count);

/// The routes of one expert, ascending.
std::vector<std::int64_t> routes_of(const Routing& routing, std::int64_t expert);

/// The numbers 0 .. count - 1 in an order drawn from the key (Fisher and Yates).
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t key);

}  // namespace slicecheck::moe
