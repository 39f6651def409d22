#include "verify/gate_up.h"

#include <fmt/format.h>

#include <algorithm>

#include "verify/scalar_flaw.h"
#include "verify/sentence.h"

namespace slicecheck::verify {
namespace {

using experts::Scalar;

// Whether each g1_scale_c that a rank has of `expert` carries the ratio.
bool carried(const Subject& subject, const Evidence& evidence, std::int64_t expert) {
  constexpr auto scale_c = static_cast<std::size_t>(Scalar::g1_scale_c);
  const std::int64_t held = subject.layer.shape.experts_per_rank();
  return std::all_of(evidence.scalars.begin(), evidence.scalars.end(), [&](const auto& rank) {
    const bool holds = rank.first_expert && rank.rank == expert / held;
    return (!holds || carries_up(*subject.due, expert, rank.stock[scale_c][expert % held])) &&
           (rank.tp[scale_c].empty() || carries_up(*subject.due, expert, rank.tp[scale_c][expert]));
  });
}

}  // namespace

bool carries_up(const DueScalars& due, std::int64_t expert, float scale_c) {
  constexpr double ulp_max = 8;  // a checkpoint's values
  const float alone = experts::values_of(due.values, Scalar::g1_scale_c)[expert];
  return !due.up_by_gate.empty() &&
         near(scale_c, static_cast<double>(alone) * due.up_by_gate[expert], ulp_max);
}

std::optional<report::Finding> gate_up_mismatch(const Subject& subject, const Evidence& evidence) {
  report::Finding made;
  double largest = 1;
  bool all_carried = true;
  const std::size_t ratios = subject.due ? subject.due->up_by_gate.size() : 0;
  for (std::size_t e = 0; e < ratios; ++e) {
    const double ratio = subject.due->up_by_gate[e];
    if (ratio == 1 || !finite_positive(subject.due->up_by_gate[e])) continue;
    made.experts.push_back(static_cast<std::int64_t>(e));
    largest = std::max({largest, ratio, 1 / ratio});
    all_carried = all_carried && carried(subject, evidence, made.experts.back());
  }
  if (made.experts.empty()) return {};
  if (made.experts.size() == ratios) made.experts.clear();
  made.cause = "gate-up-scale-mismatch";
  made.severity = all_carried ? report::Severity::warning : report::Severity::error;
  made.side = report::Side::checkpoint;
  made.tensors = {"w1.weight_scale_2", "w3.weight_scale_2"};
  made.layer = subject.number;
  made.group = subject.group;
  made.text =
      fmt::format("w1 and w3 carry different weight scales: {}; the largest ratio is {:.6g}; {}",
                  listed_experts(made.experts), largest,
                  all_carried ? "g1_scale_c carries it, so each half is read with its own scale"
                              : "g1_scale_c does not carry it, so up is read with gate's scale");
  return made;
}

}  // namespace slicecheck::verify
