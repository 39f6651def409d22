#include "checkpoint/config_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

constexpr std::int64_t nvfp4_block = 16;
constexpr std::int64_t nvfp4_bits = 4;
constexpr std::string_view nvfp4_type = "float";
// The one quant_algo whose activations are FP4 too without doubt; of the others that hold the name
// (W4A16_NVFP4, NVFP4_AWQ, W4A8_NVFP4_FP8) some or all exports have no such scale.
constexpr std::string_view both_algorithm = "NVFP4";
constexpr std::string_view packed_format = "NVFP4-PACK-QUANTIZED";

std::string other_number(std::int64_t is, std::int64_t due) {
  return fmt::format("is {}, NVFP4 has {}", is, due);
}

Reason take_weights(const JsonValue& object, ConfigGroup& group) {
  const JsonValue* weights = object.find("weights");
  if (weights == nullptr || weights->null()) return {};
  if (weights->object() == nullptr) return Reason("weights: is not an object");
  const Result<std::optional<std::int64_t>> bits = integer_in(*weights, "num_bits");
  const Result<std::optional<std::int64_t>> block = integer_in(*weights, "group_size");
  const Result<std::string> type = text_in(*weights, "type");
  for (const Reason& reason : {bits.reason, block.reason, type.reason}) {
    if (reason) return Reason(fmt::format("weights: {}", reason.text()));
  }
  group.num_bits = *bits;
  group.group_size = *block;
  group.type = lower(*type);
  return {};
}

// FP4 activations whose global scale is none of run time: `dynamic` is false, "local" or not said.
Reason take_inputs(const JsonValue& object, ConfigGroup& group) {
  const JsonValue* inputs = object.find("input_activations");
  if (inputs == nullptr || inputs->null()) return {};
  if (inputs->object() == nullptr) return Reason("input_activations: is not an object");
  const Result<std::optional<std::int64_t>> bits = integer_in(*inputs, "num_bits");
  if (bits.reason) return Reason(fmt::format("input_activations: {}", bits.reason.text()));
  const JsonValue* dynamic = inputs->find("dynamic");
  const JsonLeaf* leaf = dynamic == nullptr ? nullptr : std::get_if<JsonLeaf>(&dynamic->value);
  const bool kept = dynamic == nullptr || dynamic->null() ||
                    (leaf != nullptr && *leaf == JsonLeaf(false)) ||
                    (dynamic->text() != nullptr && *dynamic->text() == "local");
  group.inputs_scaled = kept && bits->value_or(nvfp4_bits) == nvfp4_bits;
  return {};
}

Result<ConfigGroup> group_of(const JsonMember& member) {
  ConfigGroup made;
  made.name = member.name;
  Result<std::vector<std::string>> targets = texts_in(member.value, "targets");
  Reason reason = targets.reason;
  if (!reason) reason = take_weights(member.value, made);
  if (!reason) reason = take_inputs(member.value, made);
  if (reason) return Reason(fmt::format("{}: {}", in_quotes(member.name), reason.text()));
  made.targets = std::move(*targets);
  return made;
}

// A module, or the innermost around it, that `is_known` knows; empty where it knows none.
template <typename Known>
std::string_view around(std::string_view module, const Known& is_known) {
  for (std::size_t end = module.size(); end != std::string_view::npos && end > 0;
       end = module.rfind('.', end - 1)) {
    if (is_known(module.substr(0, end))) return module.substr(0, end);
  }
  return {};
}

// A group's targets: modules, which stand for all inside them, expressions that a module itself
// must match, and classes of modules, which may be any.
class Targets {
 public:
  explicit Targets(const ConfigGroup& group) : any_(group.targets.empty()) {
    for (const std::string& target : group.targets) {
      if (target.starts_with(expression_mark)) {
        std::optional<Pattern> pattern =
            Pattern::expression(std::string_view(target).substr(expression_mark.size()));
        unread_ = unread_ || !pattern;
        if (pattern) patterns_.push_back(std::move(*pattern));
      } else if (target.find('.') == std::string::npos && target >= "A" && target < "[") {
        any_ = true;
      } else {
        names_.insert(target);
      }
    }
  }

  bool unread() const { return unread_; }
  bool any() const { return any_; }
  bool names(std::string_view module) const {
    const auto known = [this](std::string_view one) { return names_.contains(std::string(one)); };
    return !around(module, known).empty() ||
           std::any_of(patterns_.begin(), patterns_.end(),
                       [module](const Pattern& pattern) { return pattern.matches(module); });
  }

 private:
  std::unordered_set<std::string> names_;
  std::vector<Pattern> patterns_;
  bool any_ = false;
  bool unread_ = false;
};

// Why weights of this group are not NVFP4's.
Reason contrary(const Quantization& from, const ConfigGroup& group) {
  const auto is_other = [&](std::string_view field, const std::string& why) {
    const std::string path =
        fmt::format("config_groups: {}: weights: {}", in_quotes(group.name), field);
    return refused(from, path, why);
  };
  if (group.num_bits && *group.num_bits != nvfp4_bits) {
    return is_other("num_bits", other_number(*group.num_bits, nvfp4_bits));
  }
  if (!group.type.empty() && group.type != nvfp4_type) {
    return is_other("type",
                    fmt::format("is {}, NVFP4 has '{}'", in_quotes(group.type), nvfp4_type));
  }
  if (group.group_size && *group.group_size != nvfp4_block) {
    return is_other("group_size", other_number(*group.group_size, nvfp4_block));
  }
  return {};
}

}  // namespace

bool is_nvfp4(std::string_view algorithm) {
  return algorithm.find(both_algorithm) != std::string_view::npos;
}

bool is_mixed(std::string_view algorithm) {
  return algorithm == "MIXED_PRECISION" || algorithm == "MIXED-PRECISION";
}

Reason refused(const Quantization& quantization, std::string_view field, std::string_view why) {
  return Reason(fmt::format("{}: {}: {}", quantization.file, field, why), refused_cause);
}

Reason take_groups(const JsonValue& object, Quantization& quantization) {
  const JsonValue* groups = object.find("config_groups");
  if (groups == nullptr || groups->object() == nullptr) return {};
  for (const JsonMember& member : *groups->object()) {
    // A scheme's name with its targets: what it stands for is not said here.
    if (member.value.object() == nullptr) {
      quantization.groups.clear();
      return {};
    }
    Result<ConfigGroup> group = group_of(member);
    if (group.reason) return Reason(fmt::format("config_groups: {}", group.reason.text()));
    quantization.groups.push_back(std::move(*group));
  }
  return {};
}

// One of the config's descriptions. A list of layers says more than the groups made of it.
class Claims::Description {
 public:
  explicit Description(const Quantization& from) : from_(from) {
    for (const QuantizedLayer& layer : from.layers) layers_.emplace(layer.module, &layer);
    if (!layers_.empty()) return;
    for (const ConfigGroup& group : from.groups) targets_.emplace_back(group);
  }

  Reason contradiction(const std::string& module) const {
    if (from_.group_size && *from_.group_size != nvfp4_block && !is_mixed(from_.algorithm)) {
      return refused(from_, "group_size", other_number(*from_.group_size, nvfp4_block));
    }
    const QuantizedLayer* layer = layer_of(module);
    if (layer != nullptr && is_nvfp4(layer->algorithm) && layer->group_size.value_or(0) != 0 &&
        *layer->group_size != nvfp4_block) {
      return refused(from_,
                     fmt::format("quantized_layers: {}: group_size", in_quotes(layer->module)),
                     other_number(*layer->group_size, nvfp4_block));
    }
    Reason first;
    for (const ConfigGroup* group : groups_of(module)) {
      const Reason reason = contrary(from_, *group);
      if (!reason) return {};
      if (!first) first = reason;
    }
    return first;
  }

  InputClaim input(const std::string& module) const {
    if (!layers_.empty()) return of_layers(module);
    const std::vector<const ConfigGroup*> groups = groups_of(module);
    const auto scaled = [](const ConfigGroup* group) { return group->inputs_scaled; };
    if (!groups.empty() && !std::all_of(groups.begin(), groups.end(), scaled)) {
      return {InputClaim::Kind::none, ""};
    }
    if (!groups.empty()) {
      return due(fmt::format("config_groups: {}: input_activations are quantised by a scale",
                             in_quotes(groups.front()->name)));
    }
    if (from_.algorithm == both_algorithm) return due("quant_algo: NVFP4 quantises activations");
    if (!is_nvfp4(from_.algorithm) || from_.algorithm == packed_format) return {};
    return {InputClaim::Kind::none, ""};
  }

 private:
  InputClaim due(std::string_view what) const {
    return {InputClaim::Kind::due, fmt::format("{}: {}", from_.file, what)};
  }

  InputClaim of_layers(const std::string& module) const {
    const QuantizedLayer* layer = layer_of(module);
    if (layer == nullptr) return {};
    if (layer->algorithm != both_algorithm) return {InputClaim::Kind::none, ""};
    return due(
        fmt::format("quantized_layers: {}: NVFP4 quantises activations", in_quotes(layer->module)));
  }

  const QuantizedLayer* layer_of(const std::string& module) const {
    const std::string_view name =
        around(module, [this](std::string_view one) { return layers_.contains(one); });
    return name.empty() ? nullptr : layers_.at(name);
  }

  // The groups that may be a module's: those that name it; where none does, or an expression cannot
  // be read, all of NVFP4, since that is what the module is; where there are none, all groups.
  std::vector<const ConfigGroup*> groups_of(const std::string& module) const {
    std::vector<const ConfigGroup*> naming;
    std::vector<const ConfigGroup*> alike;
    std::vector<const ConfigGroup*> all;
    bool unread = false;
    bool any = false;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      all.push_back(&from_.groups[i]);
      if (!contrary(from_, *all.back())) alike.push_back(all.back());
      if (targets_[i].names(module)) naming.push_back(all.back());
      unread = unread || targets_[i].unread();
      any = any || targets_[i].any();
    }
    if (!unread && !naming.empty()) return naming;
    if (!alike.empty() || !any) return alike;
    return all;
  }

  const Quantization& from_;
  std::unordered_map<std::string_view, const QuantizedLayer*> layers_;
  std::vector<Targets> targets_;  // of each group
};

Claims::Claims(const Config& config) {
  for (const Quantization& one : config.quantizations) {
    descriptions_.push_back(std::make_unique<Description>(one));
  }
}

Claims::~Claims() = default;

Reason Claims::contradiction(const std::string& module) const {
  for (const auto& description : descriptions_) {
    Reason reason = description->contradiction(module);
    if (reason) return reason;
  }
  return {};
}

InputClaim Claims::input(const std::string& module) const {
  InputClaim made;
  for (const auto& description : descriptions_) {
    InputClaim one = description->input(module);
    if (one.kind == InputClaim::Kind::none) return one;
    if (made.kind == InputClaim::Kind::unsaid) made = std::move(one);
  }
  return made;
}

}  // namespace slicecheck::checkpoint
