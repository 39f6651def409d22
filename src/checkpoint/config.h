// What a checkpoint says of itself beside its tensors: config.json and hf_quant_config.json. Both
// may be absent; then the tensors' names alone tell. The tensors decide what a layer is, the config
// may only contradict: then the layer is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/reason.h"
#include "checkpoint/pattern.h"

namespace slicecheck::checkpoint {

/// An entry of quantized_layers. A block of 0 is none that was said.
struct QuantizedLayer {
  std::string module;
  std::string algorithm;  // quant_algo; upper case
  std::optional<std::int64_t> group_size;
};

/// An entry of config_groups: what the modules that it names are made of.
struct ConfigGroup {
  std::string name;
  std::vector<std::string> targets;  // modules, `re:` expressions, or classes; none: all modules
  std::optional<std::int64_t> num_bits;    // these three of the weights
  std::string type;                        // lower case
  std::optional<std::int64_t> group_size;  // of a block
  bool inputs_scaled = false;  // activations are FP4, by a scale that the checkpoint holds
};

/// One description of how the weights were quantised, by the file it stands in.
struct Quantization {
  std::string file;
  std::string method;                // "modelopt", "compressed-tensors", ...; lower case
  std::string algorithm;             // quant_algo or format; upper case
  std::vector<std::string> ignored;  // exclude_modules or ignore
  std::vector<QuantizedLayer> layers;
  std::vector<ConfigGroup> groups;
  std::optional<std::int64_t> group_size;
};

/// A size that a config gives, and the file and field that say so.
struct ConfigSize {
  std::int64_t value = 0;
  std::string field;
};

/// The sizes that may be experts' H and I: the fields that say them, and every number of the file,
/// however deep, whose name may be another one's that says them.
struct ConfigSizes {
  std::optional<ConfigSize> hidden;
  std::optional<ConfigSize> intermediate;
  std::unordered_set<std::int64_t> hidden_like;
  std::unordered_set<std::int64_t> intermediate_like;
};

struct Config {
  std::vector<Quantization> quantizations;
  std::string model_type;
  /// The number of routed experts, and the file and field that say so.
  std::optional<std::int64_t> experts;
  std::string experts_field;
  ConfigSizes sizes;
};

/// The configs of a folder.
/// Refuses when: one is not JSON, or a field has another type than it must; the Reason names both.
Result<Config> config_of(const std::string& folder);

/// config.json's and hf_quant_config.json's text, each for itself: what config_of() reads.
Reason take_config(std::string_view text, const std::string& file, Config& config);
Reason take_quantization(std::string_view text, const std::string& file, Config& config);

/// A quantisation's ignore list, ready to be asked. ModelOpt's entries are shell wildcards,
/// compressed-tensors' exact names or `re:` expressions; an entry covers the modules inside the one
/// that it names. An expression beyond Pattern::expression() matches nothing.
class IgnoreList {
 public:
  explicit IgnoreList(const Quantization& quantization);

  /// The entry that covers `module`; nothing where none does.
  std::optional<std::string> entry_of(std::string_view module) const;

 private:
  std::unordered_set<std::string> names_;
  std::vector<std::pair<std::string, Pattern>> patterns_;
};

/// A module, by its place among those asked about, that is not NVFP4 by the config, and why. The
/// Reason has refused_cause.
struct LeftOut {
  std::size_t module = 0;
  Reason reason;
};

/// Which of a layer's modules, the first of which holds all the others, an ignore list or a list of
/// layers leaves out.
/// Refuses when: that is all of them, or the config knows another algorithm than NVFP4.
Result<std::vector<LeftOut>> left_out(const Config& config,
                                      const std::vector<std::string>& modules);

}  // namespace slicecheck::checkpoint
