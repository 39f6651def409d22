#include "app/probes.h"

#include <numeric>

#include "app/on_host.h"
#include "app/probe_report.h"
#include "group/agree.h"

namespace slicecheck::app {
namespace {

reshard::ProbeExperts on_host(const Resharded& made, memory::Space& space) {
  return {app::on_host(made.stock, space), app::on_host(made.tp, space)};
}

// The group's ranks by their number in the launch.
std::vector<int> ranks_of(const Context& context) {
  std::vector<int> made(context.group.size());
  std::iota(made.begin(), made.end(), context.first_rank());
  return made;
}

// The run's own experts serve where they are what the probe asks for; a checkpoint's always are
// those of the random probe.
bool is_runs_own(const Source& source, const layout::Payload& payload) {
  if (source.payload) return *source.payload == payload;
  return payload.kind == layout::PayloadKind::numeric;
}

// The experts of another payload, resharded by the engine under test. Collective.
reshard::ProbeExperts made_again(Context& context, const Source& source,
                                 const engine::Engine& engine) {
  memory::Space& space = context.group.space();
  const Result<experts::StockExperts> stock = stock_of(source, context.group.rank(), space);
  group::refuse_together(context.group, stock.reason, "cannot make the probe's experts");
  const experts::TpExperts tp =
      engine.run({*stock, source.shape.experts, source.plain_slice, source.scalars}, context.group);
  return on_host(Resharded{*stock, tp}, space);
}

}  // namespace

reshard::ProbeOptions probe_options(const Options& options, const Source& source) {
  const ProbeChoice given = options.probe.choice;
  const ProbeChoice unasked = source.payload ? ProbeChoice::exact : ProbeChoice::random;
  const ProbeChoice choice = given == ProbeChoice::automatic ? unasked : given;
  reshard::ProbeOptions made;
  made.random = choice == ProbeChoice::random || choice == ProbeChoice::both;
  made.exact = choice == ProbeChoice::exact || choice == ProbeChoice::both;
  made.tokens = options.probe.tokens;
  made.top_k = options.probe.top_k;
  made.seed = options.seed;
  made.rel_l2_max = options.probe.rel_l2_max;
  return made;
}

report::Report probed(Context& context, const Source& source, const engine::Engine& engine,
                      const Resharded& made, const std::vector<report::Finding>& findings) {
  group::Group& group = context.group;
  const auto experts_of = [&](const layout::Payload& payload) {
    if (is_runs_own(source, payload)) return on_host(made, group.space());
    return made_again(context, payload_source(payload, source.shape), engine);
  };
  const std::vector<reshard::Probed> probes =
      reshard::probe_experts(group, probe_options(context.options, source), experts_of);
  const bool named = group.least(is_named(findings) ? 0 : 1) == 0;
  if (group.rank() != 0) return {};
  report::Report mine =
      probe_report(probes, {context.group_number, ranks_of(context), source.layer});
  if (named) drop_consequences(mine);
  return mine;
}

}  // namespace slicecheck::app
