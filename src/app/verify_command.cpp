#include <fmt/format.h>

#include "app/command.h"
#include "app/dump_judge.h"
#include "app/dump_probe.h"
#include "app/evidence.h"
#include "app/probe_report.h"
#include "checkpoint/in_quotes.h"
#include "group/agree.h"

namespace slicecheck::app {
namespace {

constexpr std::string_view refusal = "cannot verify";

report::Fields case_of(const Context& context, const std::vector<DumpCase>& dumps) {
  const checkpoint::Manifest& first = dumps.front().manifest;
  report::Fields made = {{"experts", first.shape.experts},
                         {"hidden", first.shape.hidden},
                         {"intermediate", first.shape.intermediate},
                         {"tp", first.shape.tp},
                         {"slice", first.shape.slice()},
                         {"groups", dumps.front().groups()},
                         {"engine", first.engine},
                         {"transport", std::string(context.world.name())},
                         {"dumps", static_cast<std::int64_t>(dumps.size())}};
  if (first.payload) {
    made.emplace_back("payload", std::string(layout::name(first.payload->kind)));
    made.emplace_back("seed", first.payload->seed);
  }
  if (dumps.front().checkpoint != nullptr) {
    made.emplace_back("checkpoint",
                      std::string(checkpoint::name(dumps.front().checkpoint->format())));
  }
  return made;
}

/// The probe of a share's group, judged by the world's rank 0 alone: the rows of all its ranks are
/// one sum. `bytes` is what that rank found of the group's bytes.
Result<report::Report> probe_part(const Context& context, const DumpCase& dump, const Share& share,
                                  const report::Report& bytes) {
  if (!dump.parts.probe || context.world.rank() != 0) return report::Report{};
  Result<report::Report> made =
      dump_probe_report({dump.folder, dump.manifest, share.group, dump.layer, dump.first_group},
                        context.options.probe.rel_l2_max);
  if (!made.reason && is_named(bytes.findings)) drop_consequences(*made);
  return made;
}

/// What all processes found of a group's tensors, as the part of the world's rank 0; a dump without
/// tensors has none. What stands for itself is added to `found`. Collective over the world.
report::Report bytes_part(Context& context, const DumpCase& dump, const Share& share,
                          report::Report& found) {
  group::Group& world = context.world;
  if (!dump.parts.stock && !dump.parts.tp) return {};
  SharePart part = group::agreed(world, judged_share(dump, share, context.progress), refusal);
  report::append(found, std::move(part.report));
  const verify::Evidence all = gathered(world, part.evidence);
  const std::optional<verify::DueScalars> due = group::agreed(world, due_scalars(dump), refusal);
  if (world.rank() != 0) return {};
  return judged_group(dump, share.group, all, due, [&] { context.progress.moved(); });
}

/// Where several dumps are judged, each check and finding says of which it is.
void say_which(const DumpCase& dump, report::Report& found) {
  const std::string folder = checkpoint::shown(dump.folder);
  for (report::Check& check : found.checks) {
    check.text = check.text.empty() ? folder : fmt::format("{}: {}", folder, check.text);
  }
  for (report::Finding& finding : found.findings) {
    finding.text = fmt::format("{}: {}", folder, finding.text);
  }
}

}  // namespace

report::Report verify_command(Context& context) {
  group::Group& world = context.world;
  context.progress.phase("manifests");
  const std::vector<DumpCase> dumps = group::agreed(world, dump_cases(context.options), refusal);
  report::Report mine;
  mine.run_case = case_of(context, dumps);
  mine.ranks = {{world.rank(), 0, context.place.host, "", 0, {}}};
  context.progress.phase("verify");
  for (const Share& share : shares_of(dumps, world.rank(), world.size())) {
    const DumpCase& dump = dumps[share.dump];
    report::Report found;
    report::Report bytes = bytes_part(context, dump, share, found);
    report::Report probe = group::agreed(world, probe_part(context, dump, share, bytes), refusal);
    report::append(found, std::move(bytes));
    report::append(found, std::move(probe));
    if (dumps.size() > 1) say_which(dump, found);
    report::append(mine, std::move(found));
  }
  return mine;
}

}  // namespace slicecheck::app
