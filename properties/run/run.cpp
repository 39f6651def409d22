#include "properties/run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace slicecheck::properties {
namespace {

Broken smallest(const Law& law, const Plan& plan, const Subject& subject, Drawn from,
                std::string text) {
  Broken found{from.value, std::move(text), 0};
  while (found.shrinks < plan.shrinks) {
    const std::shared_ptr<Drawn> candidate = from.next_smaller();
    if (!candidate) break;
    ++found.shrinks;
    if (const Reason reason = law.broken(candidate->value, subject)) {
      found.given = candidate->value;
      found.text = reason.text();
      from = *candidate;
    }
  }
  return found;
}

void count_classes(const Law& law, const Limits& limits, const std::set<std::string>& seen,
                   Outcome& outcome) {
  for (const Dimension dimension : law.varies) {
    for (const std::string& each : classes(dimension, limits)) {
      (seen.contains(each) ? outcome.reached : outcome.missed).push_back(each);
    }
  }
}

}  // namespace

Outcome run(const Law& law, const Plan& plan, const Subject& subject) {
  Outcome outcome;
  outcome.law = law.name;
  std::set<std::string> seen;
  while (outcome.cases < plan.cases && !outcome.broken) {
    const Drawn each = drawn(law.draw, plan.limits, plan.seed, outcome.cases);
    ++outcome.cases;
    for (const Dimension dimension : law.varies) seen.insert(class_of(each.value, dimension));
    if (const Reason reason = law.broken(each.value, subject)) {
      outcome.broken = smallest(law, plan, subject, each, reason.text());
    }
  }
  count_classes(law, plan.limits, seen, outcome);
  return outcome;
}

std::string text(const Outcome& outcome) {
  std::string made =
      fmt::format("{} {}: {} cases, {} classes", outcome.law,
                  outcome.passed() ? "passed" : "failed", outcome.cases, outcome.reached.size());
  if (!outcome.missed.empty()) {
    made += fmt::format(", not reached: {}", fmt::join(outcome.missed, ", "));
  }
  if (outcome.broken) {
    made += fmt::format("; broken by {}: {}", text(outcome.broken->given), outcome.broken->text);
  }
  return made;
}

std::vector<Law> laws() {
  std::vector<Law> all = layout_laws();
  for (const Law& law : experts_laws()) all.push_back(law);
  return all;
}

}  // namespace slicecheck::properties
