// A checkpoint folder: which layers hold routed experts, and one layer's experts as plain ones. The
// format is told by the tensors' names; nothing in a file is trusted.
//
// Every Reason of this room is one line that names the file and the field. ending() says how it
// ends the program: what cannot be read as what it claims is unusable (2), what can be read and
// cannot be cut is refused (3).
#pragma once

#include "checkpoint/layer.h"

namespace slicecheck::checkpoint {

/// The cause that a Reason of this room carries where it refuses: readable experts of a kind that
/// is not supported. All other Reasons mean unusable input.
inline constexpr std::string_view refused_cause = "shape-unsupported";

/// How a Reason of this room ends the program: exit code 2 or 3.
enum class Ending { unusable, refused };
Ending ending(const Reason& reason);

/// The same reason, or none, as one of a checkpoint's layer.
Reason of_checkpoint(const Reason& reason, std::int64_t layer);

class Checkpoint {
 public:
  /// Opens a folder: its config, its index or its files' headers.
  /// Refuses when: there is no such folder, no safetensors in it, or its index or config is wrong.
  static Result<Checkpoint> open(const std::string& folder);

  /// The layers that hold routed experts, ascending, of whatever format.
  std::vector<std::int64_t> layers() const;

  /// The layer's experts, ready to be read.
  /// Refuses when: it has no experts or a flaw, or as layer_of().
  Result<Layer> layer(std::int64_t number);

  /// The layer with whatever flaws it has, to be audited.
  /// Refuses when: it has no experts, or as layer_of().
  Result<Layer> layer_with_flaws(std::int64_t number);

 private:
  Shards shards_;
  Config config_;
  std::map<std::int64_t, std::string> roots_;  // layer to root
};

}  // namespace slicecheck::checkpoint
