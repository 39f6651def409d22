// The names under which checkpoints keep routed experts: a root (`model.layers.3.mlp.experts`),
// then one tensor a projection and expert, or one for all experts. Source: headers of public NVFP4
// checkpoints; vLLM, SGLang and TensorRT-LLM loaders.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "layout/shape.h"

namespace slicecheck::checkpoint {

/// Where a layer's experts stand: everything up to and with the segment `experts`.
struct ExpertsRoot {
  std::string name;
  std::int64_t layer = 0;
};

/// The root that `tensor` belongs to; nothing where it is no routed expert's. `shared_experts` are
/// not routed.
std::optional<ExpertsRoot> experts_root(std::string_view tensor);

/// How a format calls the four tensors of a projection.
struct Suffixes {
  std::string_view weight;
  std::string_view scale;
  std::string_view scale_2;
  std::string_view input_scale;
};

/// One tensor a projection and expert: ROOT.{e}.{projection}{suffix}.
inline constexpr Suffixes modelopt_suffixes{".weight", ".weight_scale", ".weight_scale_2",
                                            ".input_scale"};
inline constexpr Suffixes compressed_suffixes{".weight_packed", ".weight_scale",
                                              ".weight_global_scale", ".input_global_scale"};
/// One tensor for all experts: ROOT.gate_up_proj{suffix}, ROOT.down_proj{suffix}.
inline constexpr Suffixes fused_suffixes{"", "_weight_scale", "_weight_scale_2", "_input_scale"};

/// The names of w1, w3 and w2, by layout::Projection.
using ProjectionNames = std::array<std::string_view, 3>;
inline constexpr std::array<ProjectionNames, 3> projection_names{
    {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}, {"gate", "up", "down"}}};

}  // namespace slicecheck::checkpoint
