// What the readers of the two kinds of layers share: the names under a layer's root, and the
// Reasons that name a tensor.
#pragma once

#include <set>

#include "checkpoint/config.h"
#include "checkpoint/layer.h"

namespace slicecheck::checkpoint {

/// A layer whose format is to be found out.
struct LayerNames {
  std::string root;
  std::string where;                    // how a Reason names the root
  std::vector<std::string_view> tails;  // what stands behind the root's dot, in order
};

bool any_contains(const std::vector<std::string_view>& tails, std::string_view part);

/// "FILE: 'TENSOR': WHY", with refused_cause.
Reason refusal(const Located& tensor, std::string_view why);

/// "FILE: 'TENSOR': is U8 [1], expected F32 []".
Reason unexpected(const Located& tensor, Element due, const Extents& extents);

/// Whether weights are bytes, as packed FP4 is.
bool packed(const Located& weight);

/// Why weights that are not packed are refused: where no others of the layer are, and where some
/// are.
Reason not_nvfp4(const Located& weight);
Reason not_as_others(const Located& weight);

/// Block scales of 32 elements beside weights of no layer that has any of 16.
Reason mxfp4(const Located& scale);

/// Experts with a bias.
Reason biased(const Located& bias);

/// A scale whose extents are not those that belong to its weights.
Reason misfit(const Located& scale, Element due, const Extents& extents);

/// gpt-oss's gate and up rows, which take turns; nothing for other models.
Reason interleaved(const LayerNames& names, const Config& config);

/// A layer of NVFP4 experts that nothing here reads, for this Reason; or why the config leaves it
/// out.
Result<Layer> unread(Format format, const LayerNames& names, const Config& config,
                     const Reason& reason);

/// The F32 value at `index` of a scale tensor that has so many.
Result<float> value_at(const Located& tensor, std::int64_t index);

/// One tensor a projection and expert (ModelOpt, compressed-tensors).
Result<Layer> per_expert_layer(Shards& shards, const LayerNames& layer, const Config& config);

/// One tensor for all experts, [E, 2I, H/2] and [E, H, I/2], gate rows first.
Result<Layer> fused_layer(Shards& shards, const LayerNames& names, const Config& config);

/// Why the config names another format than the layer's (unusable); or nothing.
Reason contradicted(const Config& config, const LayerNames& names, Format format);

/// A module of a layer, and the projections that it holds, by expert.
struct LayerModule {
  std::string name;
  std::vector<std::pair<std::int64_t, layout::Projection>> projections;
};

/// Holds a read layer against what the config says of its modules and sizes: input scales that are
/// due, and flaws and doubts where it says other than the tensors.
void add_claims(const Config& config, const LayerNames& names,
                const std::vector<LayerModule>& modules, const layout::Widths& widths,
                LayerPlaces& places);

/// The numbers of experts that the config counts, or that lie below the highest one, and that
/// `held` lacks; and those held beyond the config's count. At most `miscounted_max` of each kind.
std::vector<Flaw> miscounted(const Config& config, const LayerNames& names,
                             const std::set<std::int64_t>& held);
inline constexpr std::int64_t miscounted_max = 1000;

}  // namespace slicecheck::checkpoint
