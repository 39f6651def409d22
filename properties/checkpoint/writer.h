// Checkpoints of a case: its payload's experts with scales of their own, written in one of the
// three formats.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "experts/payload.h"
#include "properties/generators/case.h"

namespace slicecheck::properties {

/// The global scales of a case's checkpoint, as multipliers that their reciprocals give back, so
/// that every format can hold them. w1 and w3 share their weight scale; all input scales differ.
struct CheckpointScales {
  std::vector<float> w13;                    // weight scales, [E]
  std::vector<float> w2;                     // [E]
  std::array<std::vector<float>, 3> inputs;  // input scales by layout::Projection, [E]
};
CheckpointScales checkpoint_scales(const Case& given);

/// The scalars that the stock must hold: the largest input scale over all experts, products in
/// FP32.
experts::Scalars due_scalars(const CheckpointScales& scales, std::int64_t first,
                             std::int64_t count);

/// The layer's number in the checkpoint of a case.
std::int64_t layer_number(const Case& given);

/// Writes the case's checkpoint into an empty folder, sharded 1 to 3 ways by the seed.
Reason write_checkpoint(const std::string& folder, const Case& given);

}  // namespace slicecheck::properties
