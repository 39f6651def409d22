#include "reshard/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace slicecheck::reshard {
namespace {

constexpr double floors = 3;

bool is_served(const RouteNorms& route) { return route.ep_ranks == 1 && route.tp_missing < 0; }

bool is_finite(const RouteNorms& route) {
  return route.not_finite_ep < 0 && route.not_finite_tp < 0 && route.sum_not_finite == 0;
}

bool is_comparable(const RouteNorms& route) { return is_served(route) && is_finite(route); }

Norms norms_of_route(const RouteNorms& route) {
  Norms made;
  made.add(route);
  return made;
}

// The routes of a probe with their names.
struct Named {
  const std::vector<RouteNorms>& routes;
  const moe::Routing& routing;

  std::int64_t count() const { return static_cast<std::int64_t>(routes.size()); }
  std::int64_t expert(std::int64_t i) const {
    return routing.experts.empty() ? -1 : routing.experts[i];
  }
  std::int64_t token(std::int64_t i) const { return i / std::max<std::int64_t>(1, routing.top_k); }
  std::int64_t k(std::int64_t i) const { return i % std::max<std::int64_t>(1, routing.top_k); }
  std::string text(std::int64_t i) const {
    const std::string place = fmt::format("route (token {}, k {})", token(i), k(i));
    return expert(i) < 0 ? place : fmt::format("{} of expert {}", place, expert(i));
  }
};

// One fault for every route that `broken` says is so: how many, the first one by name, the experts.
template <typename Broken>
std::optional<std::int64_t> first_of(const Named& named, Broken broken, ProbeFault& fault) {
  std::optional<std::int64_t> first;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < named.count(); ++i) {
    if (!broken(named.routes[i])) continue;
    if (!first) first = i;
    ++count;
    const std::int64_t expert = named.expert(i);
    if (expert >= 0 &&
        std::find(fault.experts.begin(), fault.experts.end(), expert) == fault.experts.end()) {
      fault.experts.push_back(expert);
    }
  }
  std::sort(fault.experts.begin(), fault.experts.end());
  if (first) {
    fault.text =
        fmt::format("{} of {} routes, the first {}", count, named.count(), named.text(*first));
  }
  return first;
}

void judge_service(const Named& named, Judged& made) {
  ProbeFault nobody{"route-unserved", {}, {}, {}};
  if (first_of(
          named, [](const RouteNorms& r) { return r.ep_ranks == 0; }, nobody)) {
    nobody.text = fmt::format("no EP rank serves {}", nobody.text);
    made.route_faults.push_back(nobody);
  }
  ProbeFault missing{"route-unserved", {}, {}, {}};
  const auto lacks = first_of(
      named, [](const RouteNorms& r) { return r.tp_missing >= 0; }, missing);
  if (lacks) {
    missing.ranks = {named.routes[*lacks].tp_missing};
    missing.text = fmt::format("the TP experts left a route unserved: {}, on rank {}", missing.text,
                               missing.ranks[0]);
    made.route_faults.push_back(missing);
  }
  ProbeFault twice{"route-served-twice", {}, {}, {}};
  const auto doubled = first_of(
      named, [](const RouteNorms& r) { return r.ep_ranks > 1; }, twice);
  if (doubled) {
    const RouteNorms& route = named.routes[*doubled];
    twice.ranks = {route.ep_first, route.ep_second};
    twice.text = fmt::format("EP ranks {} and {} both serve {}", route.ep_first, route.ep_second,
                             twice.text);
    made.route_faults.push_back(twice);
  }
}

void judge_finiteness(const Named& named, Judged& made) {
  ProbeFault fault{"rows-not-finite", {}, {}, {}};
  const auto first = first_of(
      named, [](const RouteNorms& r) { return !is_finite(r); }, fault);
  if (!first) return;
  const RouteNorms& route = named.routes[*first];
  std::string where = "in the sum of the TP rows";
  if (route.not_finite_tp >= 0) {
    fault.ranks = {route.not_finite_tp};
    where = fmt::format("in the TP row of rank {}", route.not_finite_tp);
  } else if (route.not_finite_ep >= 0) {
    fault.ranks = {route.not_finite_ep};
    where = fmt::format("in the EP row of rank {}", route.not_finite_ep);
  }
  fault.text = fmt::format("NaN or infinity in {}, {}", fault.text, where);
  made.number_faults.push_back(fault);
}

std::map<std::int64_t, Norms> norms_by_expert(const Named& named) {
  std::map<std::int64_t, Norms> made;
  for (std::int64_t i = 0; i < named.count(); ++i) {
    if (named.expert(i) >= 0 && is_comparable(named.routes[i])) {
      made[named.expert(i)].add(named.routes[i]);
    }
  }
  return made;
}

void find_worst(const Named& named, const std::map<std::int64_t, Norms>& experts,
                const ProbeRule& rule, Judged& made) {
  for (std::int64_t i = 0; i < named.count(); ++i) {
    if (!is_comparable(named.routes[i])) continue;
    const double off = norms_of_route(named.routes[i]).rel_l2();
    if (!made.worst_route || off > made.worst_route->rel_l2) {
      made.worst_route = {named.token(i), named.k(i), named.expert(i), off};
    }
  }
  for (const auto& [expert, norms] : experts) {
    const WorstExpert one{expert, norms.rel_l2(), norms.bound(rule)};
    // In bounds: off / bound, without dividing by an exact probe's 0.
    if (!made.worst_expert ||
        one.rel_l2 * made.worst_expert->bound > made.worst_expert->rel_l2 * one.bound ||
        (rule.exact && one.rel_l2 > made.worst_expert->rel_l2)) {
      made.worst_expert = one;
    }
  }
}

void judge_reference(const Norms& all, const std::map<std::int64_t, Norms>& experts, Judged& made) {
  ProbeFault fault{"reference-zero", {}, {}, {}};
  for (const auto& [expert, norms] : experts) {
    if (norms.want == 0) fault.experts.push_back(expert);
  }
  if (made.compared == 0) {
    // Nothing is left to compare; where rows were broken, that is said already.
    if (!made.passed()) return;
    fault.text = "there is no route to compare";
  } else if (all.want == 0) {
    fault.experts.clear();
    fault.text = fmt::format("the EP rows of all {} routes are zero", made.compared);
  } else if (!fault.experts.empty()) {
    fault.text = fmt::format("the EP rows of {} experts are zero, the first expert {}",
                             fault.experts.size(), fault.experts[0]);
  } else {
    return;
  }
  made.number_faults.push_back(fault);
}

std::string bound_text(const ProbeRule& rule, const Norms& norms) {
  if (rule.exact) return "0 (exact)";
  if (rule.rel_l2_max) return fmt::format("{:.4g} (given)", *rule.rel_l2_max);
  return fmt::format("{:.4g} (3 floors of {:.4g})", norms.bound(rule), norms.floor());
}

void judge_bound(const Norms& all, const std::map<std::int64_t, Norms>& experts,
                 const ProbeRule& rule, Judged& made) {
  ProbeFault fault{"rel-l2-above-bound", {}, {}, {}};
  // Where there is nothing to compare with, that is what is said.
  const bool zero = std::any_of(made.number_faults.begin(), made.number_faults.end(),
                                [](const auto& one) { return one.cause == "reference-zero"; });
  for (const auto& [expert, norms] : experts) {
    if (norms.rel_l2() <= norms.bound(rule)) continue;
    ++made.above_bound;
    if (norms.want != 0) fault.experts.push_back(expert);
  }
  if (fault.experts.empty() && (zero || made.rel_l2 <= made.bound)) return;
  fault.text =
      fmt::format("rel L2 {:.4g} over all routes, bound {}", made.rel_l2, bound_text(rule, all));
  if (made.worst_expert) {
    fault.text +=
        fmt::format("; {} of {} experts above their bound, worst expert {}: {:.4g}, bound {:.4g}",
                    made.above_bound, experts.size(), made.worst_expert->expert,
                    made.worst_expert->rel_l2, made.worst_expert->bound);
  }
  if (made.worst_route) {
    fault.text += fmt::format("; worst route (token {}, k {}): {:.4g}", made.worst_route->token,
                              made.worst_route->k, made.worst_route->rel_l2);
  }
  if (fault.experts.size() == experts.size()) fault.experts.clear();
  made.number_faults.push_back(fault);
}

void count_wrong(const Named& named, const std::map<std::int64_t, Norms>& experts,
                 const ProbeRule& rule, Judged& made) {
  const bool all_above = made.above_bound == 0 && made.rel_l2 > made.bound;
  for (std::int64_t i = 0; i < named.count(); ++i) {
    if (!is_comparable(named.routes[i])) continue;
    const auto expert = experts.find(named.expert(i));
    const bool above =
        expert != experts.end() && expert->second.rel_l2() > expert->second.bound(rule);
    if (all_above || above) ++made.wrong;
  }
}

}  // namespace

void Norms::add(const RouteNorms& route) {
  difference += route.difference;
  want += route.want;
  rounding += route.rounding;
}

double Norms::rel_l2() const {
  if (difference == 0) return 0;
  return want == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(difference / want);
}

double Norms::floor() const { return want == 0 ? 0 : std::sqrt(rounding / 12 / want); }

double Norms::bound(const ProbeRule& rule) const {
  if (rule.exact) return 0;
  return rule.rel_l2_max ? *rule.rel_l2_max : floors * floor();
}

Norms norms_of_expert(const std::vector<RouteNorms>& routes, const moe::Routing& routing,
                      std::int64_t expert) {
  Norms made;
  for (const std::int64_t i : moe::routes_of(routing, expert)) {
    if (is_comparable(routes[i])) made.add(routes[i]);
  }
  return made;
}

Judged judged(const std::vector<RouteNorms>& routes, const moe::Routing& routing,
              const ProbeRule& rule) {
  const Named named{routes, routing};
  Judged made;
  made.routes = named.count();
  judge_service(named, made);
  judge_finiteness(named, made);
  Norms all;
  for (const RouteNorms& route : routes) {
    if (is_served(route)) ++made.served;
    if (!is_finite(route)) ++made.wrong;
    if (!is_comparable(route)) continue;
    ++made.compared;
    all.add(route);
  }
  const std::map<std::int64_t, Norms> experts = norms_by_expert(named);
  made.rel_l2 = all.rel_l2();
  made.floor = all.floor();
  made.bound = all.bound(rule);
  find_worst(named, experts, rule, made);
  judge_reference(all, experts, made);
  judge_bound(all, experts, rule, made);
  count_wrong(named, experts, rule, made);
  return made;
}

}  // namespace slicecheck::reshard
