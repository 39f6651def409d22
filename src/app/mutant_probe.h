// Whether a planted fault would have been seen by the numbers alone: the random and the exact probe
// of one process over a layer with the fault in it. Rows of what a fault leaves as it is are those
// of the healthy layer, so a fault in one expert costs that expert's rows.
#pragma once

#include <functional>
#include <list>

#include "faults/mutants.h"
#include "moe/op.h"
#include "report/report.h"
#include "reshard/judge.h"

namespace slicecheck::app {

/// Which probes call a layer wrong.
struct ProbeSight {
  bool random = false;
  bool exact = false;  // in any of its rounds
};

/// BF16 rows of every rank by route; empty where a rank does not serve it.
struct LayerRows {
  using Row = std::vector<std::uint16_t>;
  std::vector<std::vector<Row>> ep;  // [tp][routes]
  std::vector<std::vector<Row>> tp;
};

/// A change of a probe's rows.
using RowsFault = std::function<void(LayerRows& rows, const moe::Routing& routing)>;

/// Plants mutants in layers of payload `numeric` (random) and `exact` (every round) and probes
/// them.
class MutantProbe {
 public:
  ProbeSight sight(const faults::Mutant& mutant);

  /// What is said of the probe of a healthy layer of that shape and payload whose rows `plant` has
  /// changed.
  std::vector<report::Finding> said(const faults::Mutant& on, const RowsFault& plant);

  /// Healthy layers whose probe failed: there must be none.
  std::int64_t alarms() const { return alarms_; }

 private:
  struct Stage {
    faults::Layer healthy;
    std::optional<layout::Widths> data;
    moe::Routing routing;
    moe::Quantised hidden;
    LayerRows rows;
  };

  Stage& stage(const faults::Mutant& mutant, const layout::Payload& payload);
  bool seen(const faults::Mutant& mutant, const layout::Payload& payload);

  std::list<Stage> stages_;
  std::int64_t alarms_ = 0;
};

}  // namespace slicecheck::app
