// From evidence to findings: each mistake is named once, by the cause that says most with least,
// and said as widely as it is true over tensors, experts and ranks.
#pragma once

#include <functional>

#include "experts/payload.h"
#include "report/report.h"
#include "verify/evidence.h"
#include "verify/wrong_items.h"

namespace slicecheck::verify {

/// The scalars that the layer must have, by payload or checkpoint; all E experts.
struct DueScalars {
  experts::Scalars values;
  bool exact = true;              // a payload's: bits. A checkpoint's: 8 ulp.
  std::vector<float> up_by_gate;  // s2[w3] / s2[w1] of each expert, or empty: 1
};

/// The layer that evidence is about.
struct Subject {
  Case layer;
  std::vector<int> ranks;  // global numbers of the group's ranks, [tp]
  int group = 0;
  std::int64_t number = 0;  // of the layer
  std::optional<layout::Payload> payload;
  std::optional<DueScalars> due;
  std::int64_t payload_layer = 0;  // L of the payload's seed
  std::function<void()> moved;     // called as naming goes on, or nothing
};

/// What is said of a group's evidence, and how many items of its scalars and scales differ.
struct Judgement {
  std::vector<report::Finding> findings;
  WrongItems items;
};

/// The findings of a group's evidence, errors before warnings, in a fixed order. A tp tensor that
/// is the exact cut of a wrong stock is not a second finding. At most `findings_max`.
Judgement judgement(const Subject& subject, const Evidence& evidence);
std::vector<report::Finding> findings(const Subject& subject, const Evidence& evidence);

inline constexpr std::size_t findings_max = 200;

}  // namespace slicecheck::verify
