#include "app/layer_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "verify/sentence.h"

namespace slicecheck::app {
namespace {

using checkpoint::ProjectionPart;
using verify::AuditFact;

verify::AuditedExpert scales_of(const checkpoint::Layer& layer, std::int64_t expert) {
  verify::AuditedExpert made;
  for (const layout::Projection projection : layout::projections) {
    const checkpoint::ProjectionScales& scales = layer.scales(expert, projection);
    const checkpoint::InputClaim& claim = layer.input_claim(expert, projection);
    std::optional<std::string> due;
    if (claim.kind == checkpoint::InputClaim::Kind::due) due = claim.field;
    made[static_cast<std::size_t>(projection)] = {scales.weight, scales.input, due};
  }
  return made;
}

// Where the config says nothing, an input scale is due beside others of the layer.
void add_due(const checkpoint::Layer& layer, std::vector<verify::AuditedExpert>& experts) {
  const bool any = std::any_of(experts.begin(), experts.end(), [](const auto& expert) {
    return std::any_of(expert.begin(), expert.end(),
                       [](const verify::AuditedScales& one) { return one.input.has_value(); });
  });
  for (std::int64_t e = 0; any && e < layer.experts(); ++e) {
    for (const layout::Projection projection : layout::projections) {
      if (layer.input_claim(e, projection).kind != checkpoint::InputClaim::Kind::unsaid) continue;
      experts[e][static_cast<std::size_t>(projection)].input_due = "";
    }
  }
}

/// What is wrong with a layer's experts as a whole, missing or too many ones, said once a cause.
std::vector<report::Finding> miscounted(const checkpoint::Layer& layer, std::int64_t number) {
  std::vector<report::Finding> made;
  for (const checkpoint::Flaw& flaw : layer.flaws()) {
    if (flaw.projection) continue;
    // Experts are counted; what is said of all of them is each its own.
    const bool all = flaw.expert == checkpoint::all_experts;
    const auto same = [&](const report::Finding& one) {
      return !all && !one.experts.empty() && one.cause == flaw.reason.cause();
    };
    auto found = std::find_if(made.begin(), made.end(), same);
    if (found == made.end()) {
      found = made.emplace(made.end());
      found->cause = flaw.reason.cause();
      found->side = report::Side::checkpoint;
      found->layer = number;
      found->text = flaw.reason.text();
    }
    if (flaw.expert != checkpoint::all_experts) found->experts.push_back(flaw.expert);
  }
  for (report::Finding& one : made) one.text += "; " + verify::listed_experts(one.experts);
  return made;
}

// A finding of the layer as a whole.
report::Finding whole_finding(const Reason& reason, std::int64_t layer) {
  report::Finding made;
  made.cause = reason.cause();
  made.side = report::Side::checkpoint;
  made.layer = layer;
  made.text = fmt::format("layer {}: {}", layer, reason.text());
  return made;
}

}  // namespace

report::Check audit_line(std::int64_t layer, report::Status status, std::string text) {
  report::Check made;
  made.id = "scales.audit";
  made.layer = layer;
  made.status = status;
  made.text = std::move(text);
  return made;
}

LayerAudit::LayerAudit(std::int64_t number, const checkpoint::Layer& layer)
    : number_(number), layer_(layer) {
  for (std::int64_t e = 0; e < layer_.experts(); ++e) {
    experts_.push_back(layer_.holds(e) ? scales_of(layer_, e) : verify::AuditedExpert());
  }
  add_due(layer_, experts_);
}

Result<std::vector<AuditFact>> LayerAudit::facts(int rank, int size) const {
  std::vector<AuditFact> made;
  if (rank == 0) judge_scales(made);
  for (std::int64_t e = rank; e < layer_.experts(); e += size) {
    for (const layout::Projection projection : layout::projections) {
      if (!layer_.holds_block_scales(e, projection)) continue;
      const Result<ByteVector> scales = layer_.block_scales(e, projection);
      if (scales.reason) return scales.reason;
      verify::audit_blocks(number_, e, projection, *scales, made);
    }
  }
  return made;
}

// Scales that are absent or do not fit, and what the others are.
void LayerAudit::judge_scales(std::vector<AuditFact>& facts) const {
  std::set<std::pair<std::string, std::int64_t>> flawed;
  for (const checkpoint::Flaw& flaw : layer_.flaws()) {
    if (!flaw.projection) continue;
    const std::string tensor = checkpoint::part_name(*flaw.projection, flaw.part);
    flawed.emplace(tensor, flaw.expert);
    // Weights that are not NVFP4 have no scales to be missed.
    if (flaw.part == ProjectionPart::weights) {
      for (const ProjectionPart scale :
           {ProjectionPart::weight_scale, ProjectionPart::input_scale}) {
        flawed.emplace(checkpoint::part_name(*flaw.projection, scale), flaw.expert);
      }
    }
    facts.push_back({number_, flaw.reason.cause(), tensor, flaw.expert, 0, flaw.reason.text()});
  }
  std::vector<AuditFact> found;
  for (std::int64_t e = 0; e < layer_.experts(); ++e) {
    if (layer_.holds(e)) verify::audit_scales(number_, e, experts_[e], found);
  }
  verify::audit_together(number_, experts_, found);
  // A scale that does not fit has no value to be missed.
  std::erase_if(found, [&](const AuditFact& fact) {
    return fact.cause == "scale-missing" && flawed.contains({fact.tensor, fact.expert});
  });
  facts.insert(facts.end(), found.begin(), found.end());
}

report::Report LayerAudit::said(const std::vector<AuditFact>& all, std::int64_t tp) const {
  std::set<std::int64_t> wrong;
  for (const AuditFact& fact : all) {
    if (fact.cause != "reciprocal-scale" && fact.cause != "block-scale-saturated") {
      wrong.insert(fact.expert);
    }
  }
  report::Report made;
  made.findings = miscounted(layer_, number_);
  if (const Reason reason = uncut(tp)) {
    made.findings.push_back(whole_finding(reason, number_));
  }
  for (const report::Finding& one : made.findings) {
    wrong.insert(one.experts.begin(), one.experts.end());
    for (std::int64_t e = 0; one.experts.empty() && e < layer_.experts(); ++e) wrong.insert(e);
  }
  for (const Reason& doubt : layer_.doubts()) {
    made.findings.push_back(whole_finding(doubt, number_));
    made.findings.back().severity = report::Severity::warning;
  }
  for (report::Finding& one : verify::audit_findings(all, {{number_, layer_.experts()}})) {
    made.findings.push_back(std::move(one));
  }
  made.checks.push_back(line_of(static_cast<std::int64_t>(wrong.size()), tp));
  return made;
}

// Why the ranks that --tp asks about, or any, cannot cut a layer that was read; or nothing. How
// many experts there should be is open where some are missing or too many.
Reason LayerAudit::uncut(std::int64_t tp) const {
  const bool counted =
      std::all_of(layer_.flaws().begin(), layer_.flaws().end(), [](const checkpoint::Flaw& flaw) {
        return flaw.projection || flaw.expert == checkpoint::all_experts;
      });
  if (layer_.experts() == 0 || (tp == 0 && !counted)) return {};
  return verify::uncut(layer_.experts(), layer_.widths(), tp);
}

report::Check LayerAudit::line_of(std::int64_t wrong, std::int64_t tp) const {
  const layout::Widths widths = layer_.widths();
  if (layer_.experts() == 0) {
    report::Check unread = audit_line(number_, report::Status::failed,
                                      fmt::format("{}, not read", name(layer_.format())));
    unread.compared = unread.differing = 1;
    return unread;
  }
  report::Check made =
      audit_line(number_, wrong == 0 ? report::Status::passed : report::Status::failed,
                 fmt::format("{}, E {}, H {}, I {}; tp {} can cut it", name(layer_.format()),
                             layer_.experts(), widths.hidden, widths.intermediate,
                             verify::cuttable(layer_.experts(), widths, tp)));
  made.compared = layer_.experts();
  made.differing = wrong;
  const std::string maximum = verify::differing_maximum(experts_, tp);
  if (!maximum.empty()) made.text += "; " + maximum;
  made.figures = {{"per_rank_maximum_differs", !maximum.empty()}};
  return made;
}

}  // namespace slicecheck::app
