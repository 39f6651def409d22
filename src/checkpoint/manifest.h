// The manifest of a dump folder, `slicecheck-dump/1`: what its files must be.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/reason.h"
#include "layout/payload.h"

namespace slicecheck::checkpoint {

inline constexpr std::string_view dump_format = "slicecheck-dump/1";

/// Which rank of which group a rank of the launch is.
struct GroupRank {
  std::int64_t group = 0;
  std::int64_t rank = 0;
  bool operator==(const GroupRank&) const = default;
};

/// One layer's dump. All counts are positive and tp divides world. Whether the experts can be cut
/// tp ways is layout::unsupported()'s to say.
struct Manifest {
  std::int64_t world = 0;
  layout::Shape shape;  // E, H, I, tp; of the tensors, padding included
  std::string engine;
  std::optional<std::int64_t> layer;
  /// The run's payload kind and seed: the layer is not folded into this seed.
  std::optional<layout::Payload> payload;
  std::optional<std::int64_t> tokens;
  std::optional<std::int64_t> top_k;
  layout::Widths plain;          // before padding; equal to the shape's where nothing is padded
  std::vector<GroupRank> ranks;  // [world]: by default groups of tp consecutive ranks
  bool operator==(const Manifest&) const = default;
};

/// The ranks of `world` as groups of `tp` consecutive ones.
std::vector<GroupRank> consecutive_groups(std::int64_t world, std::int64_t tp);

/// The manifest that `text` holds.
/// Refuses when: it is not JSON; a field is missing, of another type or out of range, or two
/// contradict each other. The Reason names the field.
Result<Manifest> manifest_of(std::string_view text);

/// The manifest as text, one field a line, in the order of the format. Fields that have their
/// default are left out. Two engines' manifests of one case differ in `engine` alone.
std::string manifest_text(const Manifest& manifest);

}  // namespace slicecheck::checkpoint
