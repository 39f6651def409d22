// A dump folder that is judged: what its manifest says, which files it has, and what its experts
// must be by the payload rule, by a checkpoint, or by its own stock taken as true.
#pragma once

#include <memory>

#include "app/options.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dump_files.h"
#include "verify/name.h"

namespace slicecheck::app {

struct DumpCase {
  std::string folder;
  checkpoint::Manifest manifest;
  checkpoint::DumpParts parts;
  std::int64_t layer = 0;  // the manifest's; where it has none, the folder's place in the command
  std::int64_t first_group = 0;  // in the report: dumps of one layer number their groups on
  std::shared_ptr<const checkpoint::Layer> checkpoint;  // of --checkpoint; null where none is given

  /// Whether anything but the dump itself says what the experts are.
  bool has_reference() const { return manifest.payload.has_value() || checkpoint != nullptr; }
  /// The payload of this layer, its number folded into the seed.
  std::optional<layout::Payload> payload() const;
  verify::Case shape() const;
  /// The launch's ranks of a group, by their rank in it.
  std::vector<int> ranks_of(std::int64_t group) const;
  std::int64_t groups() const { return manifest.world / manifest.shape.tp; }
};

/// The case of each folder that the options name.
/// Refuses when: a manifest is wrong or contradicts the options; files are missing; nothing says
/// what tp experts must be (all unusable); the experts cannot be cut (refused).
Result<std::vector<DumpCase>> dump_cases(const Options& options);

/// The scalars that the layer must have; nothing where only the dump knows.
/// Refuses when: the checkpoint lacks one.
Result<std::optional<verify::DueScalars>> due_scalars(const DumpCase& dump);

}  // namespace slicecheck::app
