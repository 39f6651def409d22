// slicecheck audit: the scale contract of a checkpoint, layer by layer. Experts are spread over the
// ranks and read one at a time; block scales are read, weights are not.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "app/command.h"
#include "checkpoint/checkpoint.h"
#include "group/agree.h"
#include "verify/audit.h"

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

/// One layer on one rank: every rank reads the second-level scales, each its own block scales.
class LayerAudit {
 public:
  LayerAudit(const Context& context, std::int64_t number, const checkpoint::Layer& layer)
      : context_(context), number_(number), layer_(layer) {}

  /// This rank's facts; the second-level scales are told by rank 0.
  Reason read(std::vector<AuditFact>& facts) {
    bool inputs_due = false;
    for (std::int64_t e = 0; e < layer_.experts(); ++e) {
      experts_.push_back(scales_of(layer_, e));
      for (const verify::AuditedScales& one : experts_.back()) inputs_due |= one.input.has_value();
    }
    if (context_.world.rank() == 0) {
      for (std::int64_t e = 0; e < layer_.experts(); ++e) {
        verify::audit_scales(number_, e, experts_[e], inputs_due, facts);
      }
    }
    for (std::int64_t e = context_.world.rank(); e < layer_.experts(); e += context_.world.size()) {
      for (const layout::Projection projection : layout::projections) {
        const Result<ByteVector> scales = layer_.block_scales(e, projection);
        if (scales.reason) return scales.reason;
        verify::audit_blocks(number_, e, projection, *scales, facts);
      }
    }
    return {};
  }

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
  const Context& context_;
  std::int64_t number_;
  const checkpoint::Layer& layer_;
  std::vector<verify::AuditedExpert> experts_;
};

std::string text_of(const std::vector<AuditFact>& facts) {
  std::string text;
  for (const AuditFact& fact : facts) {
    text += fmt::format("{} {} {} {} {}\n", fact.layer, fact.cause, fact.tensor, fact.expert,
                        fact.number);
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
    fact.number = std::strtod(number.c_str(), nullptr);
    facts.push_back(std::move(fact));
  }
}

/// The number behind the last `before` of a text.
std::optional<std::int64_t> number_behind(const std::string& text, std::string_view before) {
  const std::size_t at = text.rfind(before);
  if (at == std::string::npos) return {};
  return std::strtoll(text.c_str() + at + before.size(), nullptr, 10);
}

/// The experts that a Reason says are missing or too many: one that it names, or those between the
/// number that is due and the number that the layer holds.
std::vector<std::int64_t> experts_in(const std::string& text) {
  constexpr std::size_t listed_max = 1000;
  if (const auto expert = number_behind(text, ": expert ")) return {*expert};
  const auto due = number_behind(text, ": is ");
  const auto held = number_behind(text, " holds ");
  std::vector<std::int64_t> made;
  if (!due || !held) return made;
  for (std::int64_t e = std::min(*due, *held); e < std::max(*due, *held); ++e) {
    if (made.size() == listed_max) break;
    made.push_back(e);
  }
  return made;
}

report::Finding absent(std::int64_t layer, const Reason& reason) {
  report::Finding made;
  made.cause = reason.cause();
  made.side = report::Side::checkpoint;
  made.layer = layer;
  made.text = reason.text();
  made.experts = experts_in(reason.text());
  return made;
}

bool is_finding(const Reason& reason) { return reason.cause().starts_with("expert-"); }

/// A layer that cannot be read as NVFP4 experts: experts that are not all there are a finding,
/// other kinds of experts a line; anything else ends the audit.
Reason unreadable(const Reason& reason, std::int64_t layer, bool tells, report::Report& mine) {
  if (is_finding(reason)) {
    if (tells) {
      mine.findings.push_back(absent(layer, reason));
      mine.checks.push_back(line(layer, report::Status::failed, reason.text()));
    }
    return {};
  }
  if (checkpoint::ending(reason) != checkpoint::Ending::refused) return reason;
  if (tells) mine.checks.push_back(line(layer, report::Status::skipped, reason.text()));
  return {};
}

/// All layers on this rank, in step with the others: one sharing of facts a layer. Collective.
Reason audit_layers(Context& context, Checkpoint& opened, const std::vector<std::int64_t>& numbers,
                    report::Report& mine) {
  const bool tells = context.world.rank() == 0;
  Reason failed;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::vector<AuditFact> facts;
    Result<checkpoint::Layer> layer =
        failed ? Result<checkpoint::Layer>(failed) : opened.layer(numbers[i]);
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
    if (!tells || !audit) continue;
    const std::vector<report::Finding> found =
        verify::audit_findings(all, {{numbers[i], layer->experts()}});
    std::vector<bool> wrong(static_cast<std::size_t>(layer->experts()), false);
    for (const AuditFact& fact : all) {
      if (fact.cause != "reciprocal-scale" && fact.cause != "block-scale-saturated") {
        wrong[fact.expert] = true;
      }
    }
    mine.findings.insert(mine.findings.end(), found.begin(), found.end());
    mine.checks.push_back(audit->line_of(std::count(wrong.begin(), wrong.end(), true)));
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
