#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "app/command.h"
#include "app/device.h"
#include "app/dump.h"
#include "app/judge.h"
#include "app/probes.h"
#include "app/source.h"
#include "app/verdicts.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "group/agree.h"
#include "reshard/reshard.h"

namespace slicecheck::app {
namespace {

report::Check passed(std::string_view id, const Context& context, std::int64_t layer,
                     std::int64_t compared) {
  report::Check made;
  made.id = id;
  made.group = context.group_number;
  made.layer = layer;
  made.status = report::Status::passed;
  made.compared = compared;
  return made;
}

report::Fields case_of(const Context& context, const Source& source) {
  const layout::Shape& shape = source.shape;
  report::Fields made = {{"experts", shape.experts},
                         {"hidden", shape.hidden},
                         {"intermediate", shape.intermediate},
                         {"tp", shape.tp},
                         {"slice", shape.slice()},
                         {"groups", std::int64_t{context.world.size() / context.group.size()}},
                         {"engine", context.options.engine},
                         {"transport", std::string(context.group.name())}};
  if (source.payload) {
    made.emplace_back("payload", source.name);
    made.emplace_back("seed", context.options.seed);
  } else {
    made.emplace_back("checkpoint", source.name);
    made.emplace_back("layer", source.layer);
  }
  return made;
}

report::RankEntry rank_entry(const Context& context, const experts::StockExperts& stock) {
  return {context.world.rank(),       context.group_number, context.place.host,
          device_text(context.group), stock.first_expert,   {}};
}

/// A reason that was found in these experts, or none: where a checkpoint has them, it is wrong.
Reason own(const Source& source, const Reason& reason) {
  return source.payload ? reason : checkpoint::of_checkpoint(reason, source.layer);
}

/// The checks of what an engine is given; where one does not hold, all refuse. Collective over the
/// group.
std::vector<report::Check> sound(const Context& context, const Source& source,
                                 const experts::StockExperts& stock) {
  group::Group& group = context.group;
  const std::int64_t held = source.shape.experts_per_rank();
  Reason reason = experts::unsupported(stock, group.size());
  if (!reason) {
    reason = experts::misplaced(stock, group.rank(), group.size(), source.shape.experts);
  }
  if (!reason) reason = reshard::not_finite_positive(stock, group.space());
  group::refuse_together(group, own(source, reason), reshard::refusal);
  group::refuse_together(group, own(source, reshard::check_global_scales(stock, group)),
                         reshard::refusal);
  return {passed("shape", context, source.layer, 9),
          passed("placement", context, source.layer, held),
          passed("scales.global", context, source.layer, 2)};
}

/// Digests of the stock's nine tensors: an engine must leave its inputs as they are.
std::vector<Digest> digests(const experts::StockExperts& stock, memory::Space& space,
                            Progress& progress) {
  std::vector<Digest> made;
  const auto add = [&](const Tensor& tensor) {
    made.push_back(space.digest(tensor.data.get(), tensor.bytes()));
    progress.moved();
  };
  for (const layout::Kind kind : layout::kinds) add(experts::tensor_of(stock, kind));
  for (const experts::Scalar scalar : experts::all_scalars) add(experts::tensor_of(stock, scalar));
  add(stock.a1_gscale);
  add(stock.a2_gscale);
  return made;
}

report::Check unchanged(const Context& context, std::int64_t layer,
                        const std::vector<Digest>& before, const std::vector<Digest>& after) {
  report::Check made =
      passed("inputs-unchanged", context, layer, static_cast<std::int64_t>(before.size()));
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i]) ++made.differing;
  }
  if (made.differing > 0) {
    made.status = report::Status::failed;
    made.text = "the engine changed its stock";
  }
  return made;
}

Result<engine::Engine> engine_of(const Context& context) {
  const std::string& name = context.options.engine;
  std::optional<engine::Engine> made = context.engines(name);
  if (made) return std::move(*made);
  return Reason(fmt::format("engine {} is not known: reference, collective or streamed", name));
}

/// What all ranks of the launch settle before any group acts for itself: from then on a group that
/// refuses does so alone, and meets the others when the parts are gathered. Collective over the
/// world.
Source settled(const Context& context) {
  group::Group& world = context.world;
  Source source =
      group::agreed(world, source_of(context.options, context.group.size()), "cannot start");
  source.plain = [plain = source.plain, &context](std::int64_t expert) {
    context.progress.moved();
    return plain(expert);
  };
  source.plain_slice = [slice = source.plain_slice, &context](std::int64_t expert, std::int64_t d) {
    context.progress.moved();
    return slice(expert, d);
  };
  Reason uncut = layout::unsupported(source.shape);
  if (!uncut) uncut = unshared(source.shape);
  group::refuse_together(world, own(source, uncut), reshard::refusal);
  group::refuse_together(
      world, reshard::unsuited(probe_options(context.options, source), source.shape.experts),
      "usage");
  return source;
}

/// An engine's tp experts whose bytes nobody may read, since they are not what the shape says: a
/// finding of this rank, or none where only another rank's are. Nothing after it is run.
void add_misshapen(report::Report& mine, const Context& context, const Source& source,
                   const Reason& reason) {
  report::Check check = passed("shape", context, source.layer, 7);
  if (reason) {
    check.status = report::Status::failed;
    check.differing = 1;
    report::Finding made;
    made.cause = reason.cause();
    made.text = reason.text();
    made.ranks = {context.world.rank()};
    made.layer = source.layer;
    made.group = context.group_number;
    mine.findings.push_back(std::move(made));
  }
  mine.checks.push_back(std::move(check));
}

/// What is found fails a check, also where bytes and scalars are what they are due: block scales
/// that are none are equal on both sides.
void add_failed_checks(report::Report& mine, const Context& context,
                       const verify::WrongItems& items) {
  std::set<std::string> counted;  // of scales.*: each rank has counted its scalars.* itself
  for (const report::Finding& finding : mine.findings) {
    if (finding.severity != report::Severity::error) continue;
    for (const std::string& tensor : finding.tensors) {
      report::Check check = passed(check_failed_by(finding, tensor), context, finding.layer, 0);
      check.status = report::Status::failed;
      const bool first = check.id.starts_with("scales.") && counted.insert(check.id).second;
      if (first) check.differing = items.of(check.id);
      mine.checks.push_back(std::move(check));
    }
  }
}

/// The part of a rank that could not write its dump: an error of the run, not a verdict on bytes.
void add_unwritten(report::Report& mine, const Context& context, const Reason& reason) {
  if (!reason) return;
  report::Check check = passed("dump", context, 0, 1);
  check.status = report::Status::failed;
  check.differing = 1;
  check.text = reason.text();
  mine.checks.push_back(std::move(check));
  mine.verdict = report::Verdict::error;
}

}  // namespace

std::vector<std::string> reshard_checks() {
  std::vector<std::string> made{"shape", "placement", "scales.global", "inputs-unchanged"};
  for (const layout::Kind kind : layout::kinds) made.push_back(bytes_check(kind));
  for (const experts::Scalar scalar : experts::all_scalars) made.push_back(scalars_check(scalar));
  return made;
}

report::Report reshard_command(Context& context) {
  group::Group& group = context.group;
  memory::Space& space = group.space();
  Progress& progress = context.progress;
  const engine::Engine engine = group::agreed(context.world, engine_of(context), "usage");
  const Source source = settled(context);
  const Dump dump(context, source);
  dump.claim();

  report::Report mine;
  mine.run_case = case_of(context, source);
  progress.phase("stock");
  context.keep(mine);
  const experts::StockExperts stock =
      group::agreed(group, stock_of(source, group.rank(), space), "cannot make the stock experts");
  mine.ranks = {rank_entry(context, stock)};
  mine.checks = sound(context, source, stock);

  progress.phase("reshard");
  context.keep(mine);
  const std::vector<Digest> before = digests(stock, space, progress);
  const experts::TpExperts tp =
      engine.run({stock, source.shape.experts, source.plain_slice, source.scalars}, group);
  mine.checks.push_back(unchanged(context, source.layer, before, digests(stock, space, progress)));
  const Reason misshapen = experts::misshapen(tp, source.shape);
  if (group::agree(group, misshapen)) {
    add_misshapen(mine, context, source, misshapen);
    return mine;
  }

  progress.phase("verify");
  context.keep(mine);
  const JudgedRank judged{stock, tp, group.rank(), context.group_number};
  Compared found = group::agreed(group, compared(judged, source, space, progress), "cannot verify");
  std::move(found.checks.begin(), found.checks.end(), std::back_inserter(mine.checks));
  verify::Judgement judgement = named(context, source, found.evidence);
  mine.findings = std::move(judgement.findings);
  add_failed_checks(mine, context, judgement.items);
  add_unwritten(mine, context, dump.write(stock, tp));

  progress.phase("probe");
  context.keep(mine);
  report::append(mine, probed(context, source, engine, {stock, tp}, mine.findings));
  return mine;
}

}  // namespace slicecheck::app
