// One layer's routed experts in a checkpoint, whatever its format: where every plain matrix lies,
// and the scales beside them. Only the bytes asked for are read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config_claims.h"
#include "checkpoint/shards.h"
#include "experts/payload.h"

namespace slicecheck::checkpoint {

/// modelopt: one tensor a projection and expert. compressed_tensors: the same with reciprocal
/// global scales. fused: one tensor for all experts, gate rows first.
enum class Format { modelopt, compressed_tensors, fused };

/// "ModelOpt", "compressed-tensors", "fused".
std::string_view name(Format format);

/// The second-level scales of one projection of one expert, as multipliers; nothing where the
/// checkpoint has none.
struct ProjectionScales {
  std::optional<float> weight;  // s2
  std::optional<float> input;   // sa
};

/// A byte matrix inside a tensor of a file: `begin` bytes into it.
struct MatrixPlace {
  Located tensor;
  std::int64_t begin = 0;
  layout::Matrix matrix;
};

/// Where one projection of one expert lies, and its scales, and what the config says of its input
/// scale. A matrix that is not there has no file.
struct ProjectionPlace {
  MatrixPlace weight;
  MatrixPlace scale;
  ProjectionScales scales;
  InputClaim input;
};

/// By layout::Projection.
using ExpertPlace = std::array<ProjectionPlace, 3>;

/// The tensors of a projection: its weights, a bias, block scales, and the two scales of the second
/// level.
enum class ProjectionPart : std::uint8_t { weights, bias, blocks, weight_scale, input_scale };

inline constexpr std::int64_t all_experts = -1;

/// "w3.weight_scale", "w1.weight_scale_2", "w2.input_scale", "w2.weight": how findings call one.
std::string part_name(layout::Projection projection, ProjectionPart part);

/// What keeps a layer from being whole though the rest of it can be read: an expert that is not
/// there or one too many, a projection that is not NVFP4 beside others that are, a bias, block
/// scales that are absent, a scale whose extents are not its weights'; or that the layer as a whole
/// is of a kind of NVFP4 experts that nothing here reads, or is not what the config says of it.
struct Flaw {
  Reason reason;            // names the file and the field; its cause is the catalogue's
  std::int64_t expert = 0;  // or all_experts
  std::optional<layout::Projection> projection;  // nothing: the expert as a whole
  ProjectionPart part = ProjectionPart::blocks;
};

/// The experts of a layer in their order, and what is wrong with them; and what may be: doubts.
struct LayerPlaces {
  std::vector<ExpertPlace> experts;
  std::vector<Flaw> flaws;
  std::vector<Reason> doubts;
};

/// Reads experts of one layer; shares the open files. Not for two threads at once.
class Layer {
 public:
  Layer(Format format, std::string root, layout::Widths widths, LayerPlaces places);

  Format format() const { return format_; }
  /// `model.layers.3.mlp.experts`.
  const std::string& root() const { return root_; }
  layout::Widths widths() const { return widths_; }
  /// E.
  std::int64_t experts() const { return static_cast<std::int64_t>(places_.experts.size()); }

  /// What is wrong with it. Whole experts, slices of them and scalars are made of a layer without
  /// flaws alone: else the first flaw's Reason is the answer.
  const std::vector<Flaw>& flaws() const { return places_.flaws; }

  /// What keeps nobody from reading it but may be wrong: another size in the config, which padding
  /// would explain.
  const std::vector<Reason>& doubts() const { return places_.doubts; }

  /// The first flaw's Reason, and where it is; nothing where there is none.
  Reason flawed() const;

  /// Whether anything of expert e is there; whether a projection's block scales are, of the extents
  /// due.
  bool holds(std::int64_t e) const;
  bool holds_block_scales(std::int64_t e, layout::Projection projection) const;

  /// Plain expert e, whole.
  Result<experts::PlainExpert> expert(std::int64_t e) const;

  /// The block scales of a projection of expert e, linear; its weights are not read.
  Result<ByteVector> block_scales(std::int64_t e, layout::Projection projection) const;

  /// Slice d of tp of plain expert e, as a TP loader reads it: rows of w1 and w3, columns of w2.
  /// Equals experts::slice(expert(e), tp, d). I' % 16 == 0.
  /// Law: Layer.a_slice_read_is_a_slice_of_what_is_read
  Result<experts::PlainExpert> expert_slice(std::int64_t e, std::int64_t tp, std::int64_t d) const;

  /// The scales of a projection as the checkpoint has them.
  const ProjectionScales& scales(std::int64_t e, layout::Projection projection) const;

  /// What the config says of an input scale.
  const InputClaim& input_claim(std::int64_t e, layout::Projection projection) const;

  /// The scalars of experts [first, first + count) as the stock holds them: input scales are the
  /// largest over all E experts (and over w1 and w3), one gscale its reciprocal; g1_alphas takes
  /// w1's weight scale where w3's differs, as vLLM does. A NaN anywhere makes its maximum NaN.
  /// Refuses when: one is absent (scale-missing).
  Result<experts::Scalars> scalars(std::int64_t first, std::int64_t count) const;

 private:
  Result<float> largest_input(layout::Projection from, layout::Projection to) const;
  Reason missing(std::int64_t e, layout::Projection projection, std::string_view which,
                 std::string_view tail) const;

  Format format_;
  std::string root_;
  layout::Widths widths_;
  LayerPlaces places_;
};

/// The layer whose experts stand under `root`, its format told by its tensors' names.
/// Refuses when: weights are missing or of other extents, a tensor has another type, or the config
/// names another format (unusable); the experts are not NVFP4 at all (refused). Experts and scales
/// that are absent or do not fit are the layer's flaws, and so is that NVFP4 experts have biases.
/// Ones that are not gated, transposed or interleaved are a layer of no expert with that flaw.
Result<Layer> layer_of(Shards& shards, const std::string& root, const Config& config);

}  // namespace slicecheck::checkpoint
