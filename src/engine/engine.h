// Engines under test behind one interface: each makes a rank's tp experts out of what the ranks
// hold. Built in are `reference` (no communication: each slice is made from the plain experts),
// `collective` (the seed over a group) and `streamed` (the seed, packing while it exchanges).
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "experts/payload.h"
#include "group/group.h"

namespace slicecheck::engine {

/// What an engine is given on each rank. The stock lies in the group's space; `plain_slice` and
/// `scalars` are the source of all experts, for an engine that does without communication.
struct EngineInput {
  const experts::StockExperts& stock;
  std::int64_t experts = 0;  // E
  std::function<Result<experts::PlainExpert>(std::int64_t expert, std::int64_t d)> plain_slice;
  std::function<Result<experts::Scalars>(std::int64_t first, std::int64_t count)> scalars;
};

/// An engine. `run` returns the rank's tp experts in the group's space. Collective over the group;
/// refuses by refuse_together().
struct Engine {
  std::string_view name;
  std::function<experts::TpExperts(const EngineInput& input, group::Group& group)> run;
};

/// Finds an engine by its name.
using Lookup = std::function<std::optional<Engine>(std::string_view name)>;

/// The built-in engine of that name, or nothing.
std::optional<Engine> built_in(std::string_view name);

/// The tp experts of this rank, each slice converted from the plain expert: the reference.
/// Collective over `group` (to agree), host memory or device.
experts::TpExperts reference(const EngineInput& input, group::Group& group);

/// The tp experts of this rank by the seed's exchange (reshard_nvfp4). Collective over `group`.
experts::TpExperts collective(const EngineInput& input, group::Group& group);

/// The same, packing while it exchanges (streamed_nvfp4). Collective over `group`.
experts::TpExperts streamed(const EngineInput& input, group::Group& group);

}  // namespace slicecheck::engine
