// The sizes that a config gives, held against the experts' H and I. Models name them in many ways
// (a latent width that the experts see in place of `hidden_size`; lists, one entry a layer or a
// modality; blocks with sizes of their own), so a size contradicts only where no number of the file
// under any such name is the tensors'.
#pragma once

#include "checkpoint/config.h"
#include "checkpoint/json.h"
#include "layout/shape.h"

namespace slicecheck::checkpoint {

/// The sizes in config.json. H is `hidden_size`; I is `moe_intermediate_size`, or where no field
/// speaks of experts' sizes and `num_local_experts` is there (Mixtral, gpt-oss, MiniMax),
/// `intermediate_size`; a `text_config` goes first.
ConfigSizes sizes_of(const JsonValue& tree, const std::string& file);

/// What a config says of sizes that its tensors do not have.
struct ContrarySizes {
  std::vector<Reason> wrong;   // with refused_cause
  std::vector<Reason> padded;  // the tensors are as large as padding to a multiple would make them
};

/// Of experts of `widths` that stand under `root`.
ContrarySizes contrary_sizes(const ConfigSizes& sizes, const layout::Widths& widths,
                             const std::string& root);

}  // namespace slicecheck::checkpoint
