#include "moe/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/must.h"
#include "layout/payload.h"

namespace slicecheck::moe {
namespace {

constexpr std::uint64_t routing_kind = 11;

std::uint64_t routing_key(std::uint64_t seed) { return layout::word_key(seed, 0, routing_kind); }

// The experts in turn, K a token: neighbours in the order are different while K <= their number.
Routing in_turn(const RoutingPlan& plan, const std::vector<std::int64_t>& order) {
  must(plan.top_k <= static_cast<std::int64_t>(order.size()), "more routes a token than experts");
  Routing made{plan.tokens, plan.top_k, {}};
  for (std::int64_t i = 0; i < made.routes(); ++i) {
    made.experts.push_back(static_cast<std::int32_t>(order[i % order.size()]));
  }
  return made;
}

}  // namespace

Reason unroutable(const Routing& routing, std::int64_t experts) {
  const auto count = static_cast<std::int64_t>(routing.experts.size());
  if (count != routing.routes()) {
    return Reason(fmt::format("{} routes, expected {} tokens x {} routes", count, routing.tokens,
                              routing.top_k));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t expert = routing.experts[i];
    const std::int64_t token = i / routing.top_k;
    if (expert < 0 || expert >= experts) {
      return Reason(fmt::format("token {} goes to expert {} of {}", token, expert, experts));
    }
    for (std::int64_t j = token * routing.top_k; j < i; ++j) {
      if (routing.experts[j] == expert) {
        return Reason(fmt::format("token {} goes to expert {} twice, by routes {} and {}", token,
                                  expert, j % routing.top_k, i % routing.top_k));
      }
    }
  }
  return {};
}

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t key) {
  std::vector<std::int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = count - 1; i > 0; --i) {
    const auto j = static_cast<std::int64_t>(layout::weight_word(key, i) % (i + 1));
    std::swap(order[i], order[j]);
  }
  return order;
}

Routing covering(const RoutingPlan& plan) {
  return in_turn(plan, shuffled(plan.experts, routing_key(plan.seed)));
}

Routing skewed(const RoutingPlan& plan) {
  must(plan.top_k <= plan.experts, "more routes a token than experts");
  const std::uint64_t key = routing_key(plan.seed);
  const std::vector<std::int64_t> order = shuffled(plan.experts, key);
  Routing made{plan.tokens, plan.top_k, {}};
  for (std::int64_t i = 0; i < made.routes(); ++i) {
    // The trailing zeros of a word: 0 for a half of all words, 1 for a quarter, ...
    std::int64_t at = std::countr_zero(layout::weight_word(key, plan.experts + i)) % plan.experts;
    const auto token = made.experts.begin() + i / plan.top_k * plan.top_k;
    while (std::find(token, made.experts.end(), order[at]) != made.experts.end()) {
      at = (at + 1) % plan.experts;
    }
    made.experts.push_back(static_cast<std::int32_t>(order[at]));
  }
  return made;
}

Routing all_to_one(std::int64_t tokens, std::int32_t expert) {
  return {tokens, 1, std::vector<std::int32_t>(tokens, expert)};
}

Routing without(const RoutingPlan& plan, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> order = shuffled(plan.experts, routing_key(plan.seed));
  std::erase_if(order, [&](std::int64_t e) { return e >= first && e < first + count; });
  return in_turn(plan, order);
}

std::vector<std::int64_t> routes_of(const Routing& routing, std::int64_t expert) {
  std::vector<std::int64_t> routes;
  for (std::int64_t i = 0; i < routing.routes(); ++i) {
    if (routing.experts[i] == expert) routes.push_back(i);
  }
  return routes;
}

}  // namespace slicecheck::moe
