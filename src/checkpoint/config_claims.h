// What a config claims of the experts' numbers and scales, to be held against tensors that are
// NVFP4: another number of bits, another type or block contradicts them; and whether activations
// are quantised by scales that the checkpoint must hold. Only what a config says without doubt is a
// claim. Sources: Model-Optimizer, modelopt/torch/export/{quant_utils,convert_hf_config}.py
// ("NVFP4" has input scales, "W4A16_NVFP4" none); compressed-tensors' QuantizationArgs (`dynamic`
// "local": block scales at run time, a global scale in the checkpoint; true: none).
#pragma once

#include <memory>

#include "checkpoint/config.h"
#include "checkpoint/json.h"

namespace slicecheck::checkpoint {

/// Whether an upper-case quant_algo or format is one of NVFP4's, or says that it is told elsewhere.
bool is_nvfp4(std::string_view algorithm);
bool is_mixed(std::string_view algorithm);

/// "FILE: FIELD: WHY", with refused_cause.
Reason refused(const Quantization& quantization, std::string_view field, std::string_view why);

/// Reads config_groups: bits, type and block of the weights, and the activations.
/// Refuses when: a field has another type than it must.
Reason take_groups(const JsonValue& object, Quantization& quantization);

/// What a config says of a module's input scale: nothing, that there is none, or that it must be
/// there; and which field of which file says that.
struct InputClaim {
  enum class Kind : std::uint8_t { unsaid, none, due } kind = Kind::unsaid;
  std::string field;
};

/// A config's claims, ready to be asked for one module after another. The config outlives this.
class Claims {
 public:
  explicit Claims(const Config& config);
  ~Claims();

  /// Why `module`, whose tensors are NVFP4, is not by the config; or nothing. With refused_cause.
  Reason contradiction(const std::string& module) const;

  /// Due where one description says so and none says that there is none.
  InputClaim input(const std::string& module) const;

 private:
  class Description;
  std::vector<std::unique_ptr<Description>> descriptions_;
};

}  // namespace slicecheck::checkpoint
