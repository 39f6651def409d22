// The verdict over a probe's routes, stricter than the seed's one number: every route served by
// exactly one EP rank and by every TP rank, every served row finite, and rel L2 within a bound over
// all routes and over each expert's alone, where a wrong expert does not drown in many right ones.
//
// The bound is 3 floors. The floor is what roundings alone make of healthy rows: a rounding to BF16
// of spacing ulp has variance ulp^2 / 12, so floor^2 = sum ulp^2 / 12 over the EP row, every
// partial row and the result, / sum want^2. Healthy rows lie at 0.9 to 1.1 floors; 3 leaves room
// for rows of few elements, and one wrong tile of an expert exceeds it.
#pragma once

#include "reshard/probe.h"

namespace slicecheck::reshard {

/// How rel L2 is judged. An exact probe allows 0; `rel_l2_max` stands in place of the floors.
struct ProbeRule {
  bool exact = false;
  std::optional<double> rel_l2_max;
};

/// Sums over some routes, and what follows from them.
struct Norms {
  double difference = 0;
  double want = 0;
  double rounding = 0;

  void add(const RouteNorms& route);
  double rel_l2() const;  // 0 where nothing differs, infinite where something does and want is 0
  double floor() const;
  double bound(const ProbeRule& rule) const;
};

/// A finding of the probe; `ranks` of the group and `experts` it is about, empty: all.
struct ProbeFault {
  std::string cause;
  std::string text;
  std::vector<int> ranks;
  std::vector<std::int64_t> experts;
};

/// Where rel L2 is largest. `expert` is -1 where the routes' experts are not known.
struct WorstRoute {
  std::int64_t token = 0;
  std::int64_t k = 0;
  std::int64_t expert = -1;
  double rel_l2 = 0;
};
struct WorstExpert {
  std::int64_t expert = 0;
  double rel_l2 = 0;
  double bound = 0;
};

/// The verdict over all routes. Numbers are over the routes that could be compared.
struct Judged {
  std::int64_t routes = 0;
  std::int64_t served = 0;       // routes served by one EP rank and by all TP ranks
  std::int64_t compared = 0;     // and with finite rows
  std::int64_t wrong = 0;        // routes not finite, or above the bound with their expert or all
  std::int64_t above_bound = 0;  // experts above their bound
  double rel_l2 = 0;
  double floor = 0;
  double bound = 0;
  std::optional<WorstRoute> worst_route;
  std::optional<WorstExpert> worst_expert;  // by rel L2 in bounds
  std::vector<ProbeFault> route_faults;     // route-unserved, route-served-twice
  std::vector<ProbeFault> number_faults;    // rows-not-finite, reference-zero, rel-l2-above-bound

  bool passed() const { return route_faults.empty() && number_faults.empty(); }
};

/// Judges the routes. `routing` names them: top_k tells token from k, experts may be empty where
/// they are not known, and then the verdict is over all alone.
/// Law: Probe.floor_is_what_roundings_make
Judged judged(const std::vector<RouteNorms>& routes, const moe::Routing& routing,
              const ProbeRule& rule);

/// The norms of one expert's routes.
Norms norms_of_expert(const std::vector<RouteNorms>& routes, const moe::Routing& routing,
                      std::int64_t expert);

}  // namespace slicecheck::reshard
