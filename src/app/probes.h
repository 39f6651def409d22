// The probes of the reshard command: which ones the options and the experts ask for, over experts
// that the engine under test makes again for each payload.
#pragma once

#include "app/command.h"
#include "app/source.h"
#include "engine/engine.h"
#include "reshard/probe_run.h"

namespace slicecheck::app {

/// Which probes a run makes: --probe, or exact for a payload and random for a checkpoint.
reshard::ProbeOptions probe_options(const Options& options, const Source& source);

/// What the run has made of its own experts, in the group's space.
struct Resharded {
  const experts::StockExperts& stock;
  const experts::TpExperts& tp;
};

/// The probes' checks, findings and numbers, as the part of the group's rank 0; empty on the
/// others. Where a rank has `findings` of the bytes already, what the probe sees of them is not a
/// second finding. Collective over context.group; refuses by refuse_together().
report::Report probed(Context& context, const Source& source, const engine::Engine& engine,
                      const Resharded& made, const std::vector<report::Finding>& findings);

}  // namespace slicecheck::app
