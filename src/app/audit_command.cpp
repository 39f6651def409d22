// slicecheck audit: the scale contract of a checkpoint, layer by layer. Experts are spread over the
// ranks and read one at a time; block scales are read, weights are not.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "app/command.h"
#include "checkpoint/checkpoint.h"
#include "group/agree.h"
#include "verify/audit.h"
#include "verify/sentence.h"

namespace slicecheck::app {
namespace {

using checkpoint::Checkpoint;
using verify::AuditFact;

/// First and last layer of "3" or "3-60"; all where the text is empty.
Result<std::pair<std::int64_t, std::int64_t>> range_of(const std::string& text) {
  std::pair<std::int64_t, std::int64_t> made{0, std::int64_t{1} << 40};
  if (text.empty()) return made;
  const char* end = text.data() + text.size();
  std::from_chars_result read = std::from_chars(text.data(), end, made.first);
  made.second = made.first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, made.second);
  }
  if (read.ec != std::errc() || read.ptr != end || made.first > made.second || made.first < 0) {
    return Reason(fmt::format("usage: --layer {} is not a layer or a range of layers", text));
  }
  return made;
}

Result<std::vector<std::int64_t>> layers_of(const Checkpoint& opened, const std::string& text) {
  const auto range = range_of(text);
  if (range.reason) return range.reason;
  std::vector<std::int64_t> made;
  for (const std::int64_t layer : opened.layers()) {
    if (layer >= range->first && layer <= range->second) made.push_back(layer);
  }
  if (made.empty() && !text.empty()) {
    return Reason(fmt::format("usage: --layer {}: no such layer has routed experts", text));
  }
  return made;
}

verify::AuditedExpert scales_of(const checkpoint::Layer& layer, std::int64_t expert) {
  verify::AuditedExpert made;
  for (const layout::Projection projection : layout::projections) {
    const checkpoint::ProjectionScales& scales = layer.scales(expert, projection);
    made[static_cast<std::size_t>(projection)] = {scales.weight, scales.input};
  }
  return made;
}

report::Check line(std::int64_t layer, report::Status status, std::string text) {
  report::Check made;
  made.id = "scales.audit";
  made.layer = layer;
  made.status = status;
  made.text = std::move(text);
  return made;
}

/// "w3.weight_scale", "w1.input_scale".
std::string tensor_of(const checkpoint::Flaw& flaw) {
  constexpr std::array<std::string_view, 3> parts{"weight_scale", "weight_scale_2", "input_scale"};
  return fmt::format("{}.{}", layout::name(*flaw.projection),
                     parts[static_cast<std::size_t>(flaw.part)]);
}

/// Experts of a layer that are missing or too many, said once a cause.
std::vector<report::Finding> miscounted(const checkpoint::Layer& layer, std::int64_t number) {
  std::vector<report::Finding> made;
  for (const checkpoint::Flaw& flaw : layer.flaws()) {
    if (flaw.projection) continue;
    const auto same = [&](const report::Finding& one) { return one.cause == flaw.reason.cause(); };
    auto found = std::find_if(made.begin(), made.end(), same);
    if (found == made.end()) {
      found = made.emplace(made.end());
      found->cause = flaw.reason.cause();
      found->side = report::Side::checkpoint;
      found->layer = number;
      found->text = flaw.reason.text();
    }
    found->experts.push_back(flaw.expert);
  }
  for (report::Finding& one : made) one.text += "; " + verify::listed_experts(one.experts);
  return made;
}

/// One layer on one rank: every rank reads the second-level scales, each its own block scales.
class LayerAudit {
 public:
  LayerAudit(const Context& context, std::int64_t number, const checkpoint::Layer& layer)
      : context_(context), number_(number), layer_(layer) {}

  /// This rank's facts; the second-level scales are told by rank 0.
  Reason read(std::vector<AuditFact>& facts) {
    for (std::int64_t e = 0; e < layer_.experts(); ++e) {
      experts_.push_back(layer_.holds(e) ? scales_of(layer_, e) : verify::AuditedExpert());
    }
    if (context_.world.rank() == 0) judge_scales(facts);
    for (std::int64_t e = context_.world.rank(); e < layer_.experts(); e += context_.world.size()) {
      for (const layout::Projection projection : layout::projections) {
        if (!layer_.holds_block_scales(e, projection)) continue;
        const Result<ByteVector> scales = layer_.block_scales(e, projection);
        if (scales.reason) return scales.reason;
        verify::audit_blocks(number_, e, projection, *scales, facts);
      }
    }
    return {};
  }

  std::int64_t number() const { return number_; }
  const checkpoint::Layer& layer() const { return layer_; }

  /// The layer's one line; `wrong` experts have findings.
  report::Check line_of(std::int64_t wrong) const {
    const layout::Widths widths = layer_.widths();
    report::Check made =
        line(number_, wrong == 0 ? report::Status::passed : report::Status::failed,
             fmt::format("{}, E {}, H {}, I {}; tp {} can cut it", name(layer_.format()),
                         layer_.experts(), widths.hidden, widths.intermediate,
                         verify::cuttable(layer_.experts(), widths)));
    made.compared = layer_.experts();
    made.differing = wrong;
    const std::string maximum = verify::differing_maximum(experts_, context_.options.tp);
    if (!maximum.empty()) made.text += "; " + maximum;
    made.figures = {{"per_rank_maximum_differs", !maximum.empty()}};
    return made;
  }

 private:
  /// Scales that are absent or do not fit, and what the others are.
  void judge_scales(std::vector<AuditFact>& facts) const {
    std::set<std::pair<std::string, std::int64_t>> flawed;
    for (const checkpoint::Flaw& flaw : layer_.flaws()) {
      if (!flaw.projection) continue;
      const std::string tensor = tensor_of(flaw);
      flawed.emplace(tensor, flaw.expert);
      facts.push_back({number_, flaw.reason.cause(), tensor, flaw.expert, 0, flaw.reason.text()});
    }
    const bool inputs_due = std::any_of(experts_.begin(), experts_.end(), [](const auto& expert) {
      return std::any_of(expert.begin(), expert.end(),
                         [](const verify::AuditedScales& one) { return one.input.has_value(); });
    });
    std::vector<AuditFact> found;
    for (std::int64_t e = 0; e < layer_.experts(); ++e) {
      if (layer_.holds(e)) verify::audit_scales(number_, e, experts_[e], inputs_due, found);
    }
    // A scale that does not fit has no value to be missed.
    std::erase_if(found, [&](const AuditFact& fact) {
      return fact.cause == "scale-missing" && flawed.contains({fact.tensor, fact.expert});
    });
    facts.insert(facts.end(), found.begin(), found.end());
  }

  const Context& context_;
  std::int64_t number_;
  const checkpoint::Layer& layer_;
  std::vector<verify::AuditedExpert> experts_;
};

std::string text_of(const std::vector<AuditFact>& facts) {
  std::string text;
  for (const AuditFact& fact : facts) {
    text += fmt::format("{} {} {} {} {} {}\n", fact.layer, fact.cause, fact.tensor, fact.expert,
                        fact.number, fact.text);
  }
  return text;
}

void take(const std::string& text, std::vector<AuditFact>& facts) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    AuditFact fact;
    std::string number;
    fields >> fact.layer >> fact.cause >> fact.tensor >> fact.expert >> number;
    fields.get();
    std::getline(fields, fact.text);
    fact.number = std::strtod(number.c_str(), nullptr);
    facts.push_back(std::move(fact));
  }
}

/// A layer of other kinds of experts than NVFP4 ones is a line; what cannot be read ends the audit.
Reason unreadable(const Reason& reason, std::int64_t layer, bool tells, report::Report& mine) {
  if (checkpoint::ending(reason) != checkpoint::Ending::refused) return reason;
  if (tells) mine.checks.push_back(line(layer, report::Status::skipped, reason.text()));
  return {};
}

/// What all ranks' facts say of a layer: findings, and the layer's line.
void conclude(const LayerAudit& audit, const std::vector<AuditFact>& facts, report::Report& mine) {
  std::set<std::int64_t> wrong;
  for (const AuditFact& fact : facts) {
    if (fact.cause != "reciprocal-scale" && fact.cause != "block-scale-saturated") {
      wrong.insert(fact.expert);
    }
  }
  for (report::Finding& one : miscounted(audit.layer(), audit.number())) {
    wrong.insert(one.experts.begin(), one.experts.end());
    mine.findings.push_back(std::move(one));
  }
  for (report::Finding& one :
       verify::audit_findings(facts, {{audit.number(), audit.layer().experts()}})) {
    mine.findings.push_back(std::move(one));
  }
  mine.checks.push_back(audit.line_of(static_cast<std::int64_t>(wrong.size())));
}

/// All layers on this rank, in step with the others: one sharing of facts a layer. Collective.
Reason audit_layers(Context& context, Checkpoint& opened, const std::vector<std::int64_t>& numbers,
                    report::Report& mine) {
  const bool tells = context.world.rank() == 0;
  Reason failed;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::vector<AuditFact> facts;
    Result<checkpoint::Layer> layer =
        failed ? Result<checkpoint::Layer>(failed) : opened.layer_with_flaws(numbers[i]);
    std::optional<LayerAudit> audit;
    if (!failed && layer.reason) failed = unreadable(layer.reason, numbers[i], tells, mine);
    if (!layer.reason) {
      audit.emplace(context, numbers[i], *layer);
      failed = audit->read(facts);
    }
    std::vector<AuditFact> all;
    for (const std::string& text : group::share_texts(context.world, text_of(facts))) {
      take(text, all);
    }
    context.progress.step(static_cast<std::int64_t>(i) + 1,
                          static_cast<std::int64_t>(numbers.size()));
    if (tells && audit) conclude(*audit, all, mine);
  }
  return failed;
}

}  // namespace

report::Report audit_command(Context& context) {
  context.progress.phase("audit");
  Result<Checkpoint> opened = Checkpoint::open(context.options.paths.front());
  group::refuse_together(context.world, opened.reason, "cannot audit");
  const auto numbers = layers_of(*opened, context.options.experts.layer);
  group::refuse_together(context.world, numbers.reason, "cannot audit");
  report::Report mine;
  mine.run_case = {{"layers", static_cast<std::int64_t>(numbers->size())}};
  if (context.options.tp != 0) mine.run_case.emplace_back("tp", context.options.tp);
  const Reason failed = audit_layers(context, *opened, *numbers, mine);
  group::refuse_together(context.world, failed, "cannot audit");
  return mine;
}

}  // namespace slicecheck::app
