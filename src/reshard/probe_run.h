// A run of probes over a group: routes and hidden states from the seed, the reference op on every
// rank's stock (EP) and tp experts, the verdict, and the controls that make it count.
//   random  numbers by the payload or the checkpoint; rel L2 within 3 floors
//   exact   payload exact, every round: w2 has a single 1.0 a row, so all ranks' rows but one are
//           zero, nothing is rounded differently, and rel L2 must be 0. It proves scalars, row
//           maps, slices and placement; which weight lies where is for the bytes to prove.
#pragma once

#include <functional>

#include "layout/payload.h"
#include "reshard/control.h"

namespace slicecheck::reshard {

/// Which probes, and of how many tokens. `tokens` 0: as many as give every expert 4 routes; a
/// smaller number is raised until every expert has 1 (random) or 4 (exact). `top_k` 0: 8 or E.
struct ProbeOptions {
  bool random = false;
  bool exact = false;
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  std::uint64_t seed = 1;
  std::optional<double> rel_l2_max;
};

/// Why the options do not suit E experts, or nothing: a top-k beyond them, numbers below 0.
Reason unsuited(const ProbeOptions& options, std::int64_t experts);

/// The routes of a probe: covering, so that every expert gets tokens. Checked by unsuited().
moe::Routing probe_routing(const ProbeOptions& options, bool exact, std::int64_t experts);

/// This rank's experts in host memory, the tp ones as the engine under test made them.
struct ProbeExperts {
  experts::StockExperts stock;
  experts::TpExperts tp;
};

/// Makes them for a payload: `exact` with its round, or `numeric`, which stands for the run's own
/// experts where those are a checkpoint's. Collective over the group; refuses together.
using ExpertsOf = std::function<ProbeExperts(const layout::Payload&)>;

/// What came of one kind of probe: of `exact` the worst of its rounds, and the weakest controls.
struct Probed {
  std::string kind;  // random or exact
  std::int64_t rounds = 1;
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  Judged judged;
  std::vector<Control> controls;  // one a Damage
};

/// Runs the probes. Collective over `group`; the same on every rank. Checked by unsuited().
/// Refuses when: the tp experts are not of the stock's shape; memory is out.
/// Law: Probe.exact_is_zero_over_the_reference_op
std::vector<Probed> probe_experts(group::Group& group, const ProbeOptions& options,
                                  const ExpertsOf& experts_of);

/// One probe of experts at hand with its controls, `first_tile` where those start. Collective.
Probed probe_once(group::Group& group, const ProbeExperts& given, const moe::Routing& routing,
                  const ProbeRule& rule, std::uint64_t seed, std::int64_t first_tile);

}  // namespace slicecheck::reshard
