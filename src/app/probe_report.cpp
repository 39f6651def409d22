#include "app/probe_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace slicecheck::app {
namespace {

using report::Status;

Status status_of(bool holds) { return holds ? Status::passed : Status::failed; }

report::Check check_of(std::string id, const ProbePlace& place) {
  report::Check made;
  made.id = std::move(id);
  made.group = place.group_number;
  made.layer = place.layer;
  return made;
}

report::Finding finding_of(const reshard::ProbeFault& fault, const ProbePlace& place) {
  report::Finding made;
  made.cause = fault.cause;
  made.side = report::Side::probe;
  made.text = fault.text;
  for (const int rank : fault.ranks) made.ranks.push_back(place.ranks[rank]);
  made.experts = fault.experts;
  made.layer = place.layer;
  made.group = place.group_number;
  return made;
}

// Every route served as it must be, over all probes.
report::Check routes_check(const std::vector<reshard::Probed>& probes, const ProbePlace& place) {
  report::Check made = check_of("probe.routes", place);
  for (const reshard::Probed& probe : probes) {
    made.compared += probe.judged.routes;
    made.differing += probe.judged.routes - probe.judged.served;
    if (made.text.empty() && !probe.judged.route_faults.empty()) {
      made.text = probe.judged.route_faults[0].text;
    }
  }
  made.status = status_of(made.text.empty());
  if (made.compared == 0 && made.text.empty()) {
    made.status = Status::not_run;
    made.text = "there is no route";
  }
  return made;
}

report::Check numbers_check(const reshard::Probed& probe, const ProbePlace& place) {
  const reshard::Judged& judged = probe.judged;
  report::Check made = check_of("probe." + probe.kind, place);
  made.compared = judged.compared;
  made.differing = judged.wrong;
  made.status = status_of(judged.number_faults.empty());
  if (!judged.number_faults.empty()) made.text = judged.number_faults[0].text;
  made.figures = {{"tokens", probe.tokens},
                  {"top_k", probe.top_k},
                  {"rounds", probe.rounds},
                  {"rel_l2", judged.rel_l2},
                  {"floor", judged.floor},
                  {"bound", judged.bound},
                  {"experts_above_bound", judged.above_bound}};
  return made;
}

report::Check control_check(const reshard::Probed& probe, const reshard::Control& control,
                            const ProbePlace& place) {
  report::Check made =
      check_of(fmt::format("control.{}.{}", probe.kind, name(control.damage)), place);
  made.compared = 1;
  made.differing = control.seen ? 0 : 1;
  made.status = status_of(control.seen);
  if (!control.seen) {
    made.text = fmt::format(
        "damage to {} of expert {} was not seen: rel L2 {:.4g}, bound {:.4g}, predicted {:.4g}, "
        "needed {:.4g}",
        name(control.damage), control.expert, control.rel_l2, control.bound, control.predicted,
        control.needed);
  }
  made.figures = {{"expert", control.expert},       {"tiles", control.tiles},
                  {"predicted", control.predicted}, {"needed", control.needed},
                  {"rel_l2", control.rel_l2},       {"bound", control.bound}};
  return made;
}

report::Probe numbers_of(const reshard::Probed& probe, const ProbePlace& place) {
  const reshard::Judged& judged = probe.judged;
  report::Probe made;
  made.kind = probe.kind;
  made.group = place.group_number;
  made.rel_l2 = judged.rel_l2;
  made.floor = judged.floor;
  made.bound = judged.bound;
  if (judged.worst_route) {
    const reshard::WorstRoute& worst = *judged.worst_route;
    made.worst_route = {worst.token, worst.k, worst.expert, worst.rel_l2};
  }
  if (judged.worst_expert) {
    const reshard::WorstExpert& worst = *judged.worst_expert;
    made.worst_expert = {worst.expert, worst.rel_l2, worst.bound};
  }
  return made;
}

bool is_consequence(const report::Finding& finding) {
  return finding.cause == "rel-l2-above-bound" || finding.cause == "rows-not-finite" ||
         finding.cause == "reference-zero";
}

}  // namespace

bool is_named(const std::vector<report::Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const report::Finding& finding) {
    return finding.severity == report::Severity::error;
  });
}

void drop_consequences(report::Report& probe) { std::erase_if(probe.findings, is_consequence); }

report::Report probe_report(const std::vector<reshard::Probed>& probes, const ProbePlace& place) {
  report::Report made;
  if (probes.empty()) return made;
  made.checks.push_back(routes_check(probes, place));
  for (const reshard::Probed& probe : probes) {
    made.checks.push_back(numbers_check(probe, place));
    for (const reshard::Control& control : probe.controls) {
      made.checks.push_back(control_check(probe, control, place));
    }
    for (const reshard::ProbeFault& fault : probe.judged.route_faults) {
      made.findings.push_back(finding_of(fault, place));
    }
    for (const reshard::ProbeFault& fault : probe.judged.number_faults) {
      made.findings.push_back(finding_of(fault, place));
    }
    made.probes.push_back(numbers_of(probe, place));
  }
  return made;
}

}  // namespace slicecheck::app
