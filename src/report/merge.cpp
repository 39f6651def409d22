#include <algorithm>
#include <array>
#include <iterator>

#include "report/report.h"

namespace slicecheck::report {
namespace {

int badness(Status status) {
  // not-run, skipped, passed, warning, failed: what was seen outweighs what was not.
  constexpr std::array<int, 5> order{2, 4, 3, 1, 0};
  return order[static_cast<std::size_t>(status)];
}

void add(std::vector<Check>& checks, const Check& check) {
  const auto same = std::find_if(checks.begin(), checks.end(), [&](const Check& c) {
    return c.id == check.id && c.group == check.group && c.layer == check.layer;
  });
  if (same == checks.end()) {
    checks.push_back(check);
    return;
  }
  same->compared += check.compared;
  same->differing += check.differing;
  if (badness(check.status) > badness(same->status)) {
    same->status = check.status;
    same->text = check.text;
    same->figures = check.figures;
  }
}

bool differ_in_ranks_alone(const Finding& a, const Finding& b) {
  return a.cause == b.cause && a.severity == b.severity && a.side == b.side && a.text == b.text &&
         a.tensors == b.tensors && a.experts == b.experts && a.layer == b.layer &&
         a.group == b.group && a.also_possible == b.also_possible;
}

void add(std::vector<Finding>& findings, const Finding& finding) {
  const auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) {
    return differ_in_ranks_alone(f, finding);
  });
  if (same == findings.end()) {
    findings.push_back(finding);
    return;
  }
  same->explained = std::min(same->explained, finding.explained);
  for (const int rank : finding.ranks) {
    const auto at = std::lower_bound(same->ranks.begin(), same->ranks.end(), rank);
    if (at == same->ranks.end() || *at != rank) same->ranks.insert(at, rank);
  }
  if (!same->first || (finding.first && finding.first->rank < same->first->rank)) {
    same->first = finding.first;
  }
}

}  // namespace

void append(Report& to, Report from) {
  std::move(from.checks.begin(), from.checks.end(), std::back_inserter(to.checks));
  std::move(from.findings.begin(), from.findings.end(), std::back_inserter(to.findings));
  std::move(from.probes.begin(), from.probes.end(), std::back_inserter(to.probes));
  to.verdict = worst(to.verdict, from.verdict);
}

Report merged(const std::vector<Report>& parts) {
  Report made;
  for (const Report& part : parts) {
    if (made.command.empty()) made.command = part.command;
    if (made.run_case.empty()) made.run_case = part.run_case;
    if (made.run.timings.empty()) made.run = part.run;
    for (const Check& check : part.checks) add(made.checks, check);
    for (const Finding& finding : part.findings) add(made.findings, finding);
    made.probes.insert(made.probes.end(), part.probes.begin(), part.probes.end());
    made.ranks.insert(made.ranks.end(), part.ranks.begin(), part.ranks.end());
    made.verdict = worst(made.verdict, part.verdict);
  }
  return made;
}

}  // namespace slicecheck::report
