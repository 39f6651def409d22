#include <fmt/format.h>

#include "app/command.h"
#include "app/dump_judge.h"
#include "app/dump_probe.h"
#include "app/probe_report.h"
#include "group/agree.h"

namespace slicecheck::app {
namespace {

constexpr std::string_view refusal = "cannot verify";

/// Throws on every rank where any of them has a reason; else the value. Collective.
template <typename T>
T agreed(group::Group& world, Result<T> result) {
  group::refuse_together(world, result.reason, refusal);
  return std::move(*result);
}

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
    made.emplace_back("seed", fmt::format("{}", first.payload->seed));
  }
  if (dumps.front().checkpoint != nullptr) {
    made.emplace_back("checkpoint",
                      std::string(checkpoint::name(dumps.front().checkpoint->format())));
  }
  return made;
}

void append(report::Report& to, report::Report from) {
  std::move(from.checks.begin(), from.checks.end(), std::back_inserter(to.checks));
  std::move(from.findings.begin(), from.findings.end(), std::back_inserter(to.findings));
  std::move(from.probes.begin(), from.probes.end(), std::back_inserter(to.probes));
  to.verdict = report::worst(to.verdict, from.verdict);
}

/// The evidence of all ranks. Collective.
verify::Evidence gathered(group::Group& world, const verify::Evidence& mine) {
  const ByteVector bytes = verify::packed(mine);
  verify::Evidence all;
  const std::vector<std::string> parts =
      group::share_texts(world, std::string(bytes.begin(), bytes.end()));
  for (const std::string& part : parts) {
    verify::join(
        all, verify::unpacked({reinterpret_cast<const std::uint8_t*>(part.data()), part.size()}));
  }
  return all;
}

/// The probe of a share's group, judged by the world's rank 0 alone: the rows of all its ranks are
/// one sum. `bytes` is what that rank found of the group's bytes.
Result<report::Report> probe_part(const Context& context, const DumpCase& dump, const Share& share,
                                  const report::Report& bytes) {
  if (!dump.parts.probe || context.world.rank() != 0) return report::Report{};
  Result<report::Report> made = dump_probe_report(
      {dump.folder, dump.manifest, share.group, dump.layer}, context.options.probe.rel_l2_max);
  if (!made.reason && is_named(bytes.findings)) drop_consequences(*made);
  return made;
}

/// What all processes found of a group's tensors, as the part of the world's rank 0; a dump without
/// tensors has none. Collective over the world.
report::Report bytes_part(Context& context, const DumpCase& dump, const Share& share,
                          report::Report& mine) {
  group::Group& world = context.world;
  if (!dump.parts.stock && !dump.parts.tp) return {};
  SharePart part = agreed(world, judged_share(dump, share, context.progress));
  append(mine, std::move(part.report));
  const verify::Evidence all = gathered(world, part.evidence);
  const std::optional<verify::DueScalars> due = agreed(world, due_scalars(dump));
  if (world.rank() != 0) return {};
  return judged_group(dump, share.group, all, due);
}

}  // namespace

report::Report verify_command(Context& context) {
  group::Group& world = context.world;
  context.progress.phase("manifests");
  const std::vector<DumpCase> dumps = agreed(world, dump_cases(context.options));
  report::Report mine;
  mine.run_case = case_of(context, dumps);
  mine.ranks = {{world.rank(), 0, context.place.host, "", 0, {}}};
  context.progress.phase("verify");
  for (const Share& share : shares_of(dumps, world.rank(), world.size())) {
    const DumpCase& dump = dumps[share.dump];
    report::Report bytes = bytes_part(context, dump, share, mine);
    report::Report probe = agreed(world, probe_part(context, dump, share, bytes));
    append(mine, std::move(bytes));
    append(mine, std::move(probe));
  }
  return mine;
}

}  // namespace slicecheck::app
