// slicecheck audit: the scale contract of a checkpoint, layer by layer. Experts are spread over the
// ranks and read one at a time; block scales are read, weights are not.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "app/command.h"
#include "app/layer_audit.h"
#include "checkpoint/checkpoint.h"
#include "group/agree.h"

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
  if (tells) mine.checks.push_back(audit_line(layer, report::Status::skipped, reason.text()));
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
        failed ? Result<checkpoint::Layer>(failed) : opened.layer_with_flaws(numbers[i]);
    std::optional<LayerAudit> audit;
    if (!failed && layer.reason) failed = unreadable(layer.reason, numbers[i], tells, mine);
    if (!layer.reason) {
      audit.emplace(numbers[i], *layer);
      Result<std::vector<AuditFact>> read =
          audit->facts(context.world.rank(), context.world.size());
      failed = read.reason;
      if (!failed) facts = std::move(*read);
    }
    std::vector<AuditFact> all;
    for (const std::string& text : group::share_texts(context.world, text_of(facts))) {
      take(text, all);
    }
    context.progress.step(static_cast<std::int64_t>(i) + 1,
                          static_cast<std::int64_t>(numbers.size()));
    if (tells && audit) report::append(mine, audit->said(all, context.options.tp));
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
