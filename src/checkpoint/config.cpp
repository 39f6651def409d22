#include "checkpoint/config.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config_claims.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/config_sizes.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t config_bytes_max = std::int64_t{16} << 20;

// {"quantized_layers": {module: {"quant_algo": "NVFP4"}}}
Reason take_layers(const JsonValue& object, Quantization& quantization) {
  const JsonValue* layers = object.find("quantized_layers");
  if (layers == nullptr || layers->null()) return {};
  if (layers->object() == nullptr) return Reason("quantized_layers: is not an object");
  for (const JsonMember& layer : *layers->object()) {
    Result<std::string> algorithm = text_in(layer.value, "quant_algo");
    if (algorithm.reason) {
      return Reason(
          fmt::format("quantized_layers: {}: {}", in_quotes(layer.name), algorithm.reason.text()));
    }
    const Result<std::optional<std::int64_t>> group_size = integer_in(layer.value, "group_size");
    if (group_size.reason) {
      return Reason(
          fmt::format("quantized_layers: {}: {}", in_quotes(layer.name), group_size.reason.text()));
    }
    quantization.layers.push_back({layer.name, upper(*algorithm), *group_size});
  }
  return {};
}

Result<Quantization> quantization_of(const JsonValue& object, const std::string& file) {
  if (object.object() == nullptr) return Reason("is not an object");
  Quantization made;
  made.file = file;
  Result<std::string> method = text_in(object, "quant_method");
  if (method.reason) return method.reason;
  made.method = lower(*method);
  Result<std::string> algorithm = text_in(object, "quant_algo");
  if (!algorithm.reason && algorithm->empty()) algorithm = text_in(object, "format");
  if (algorithm.reason) return algorithm.reason;
  made.algorithm = upper(*algorithm);
  for (const std::string_view name : {"ignore", "exclude_modules"}) {
    Result<std::vector<std::string>> entries = texts_in(object, name);
    if (entries.reason) return entries.reason;
    made.ignored.insert(made.ignored.end(), entries->begin(), entries->end());
  }
  const Result<std::optional<std::int64_t>> group_size = number_in(object, "group_size");
  if (group_size.reason) return group_size.reason;
  made.group_size = *group_size;
  Reason reason = take_layers(object, made);
  if (!reason) reason = take_groups(object, made);
  if (reason) return reason;
  return made;
}

Reason take_experts(const JsonValue& object, const std::string& file, Config& config) {
  constexpr std::array<std::string_view, 3> names{"num_experts", "n_routed_experts",
                                                  "num_local_experts"};
  for (const std::string_view name : names) {
    if (config.experts) break;
    const Result<std::optional<std::int64_t>> value = number_in(object, name);
    if (value.reason) return value.reason;
    if (!*value) continue;
    config.experts = *value;
    config.experts_field = fmt::format("{}: {}", file, name);
  }
  return {};
}

// A file of the folder as text; nothing where there is none.
Result<std::optional<std::string>> text_beside(const std::string& folder, const std::string& file) {
  const std::string path = folder + "/" + file;
  std::error_code failed;
  if (fs::symlink_status(path, failed).type() == fs::file_type::not_found) {
    return std::optional<std::string>();
  }
  Reason reason = outside(folder, file);
  if (reason) return Reason(fmt::format("{}: {}", shown(path), reason.text()));
  Result<std::string> text = text_of(path, config_bytes_max);
  if (text.reason) return text.reason;
  return std::optional<std::string>(std::move(*text));
}

Reason other_algorithm(const Quantization& quantization) {
  const std::string& algorithm = quantization.algorithm;
  // A mixed checkpoint says it layer by layer, or not at all: then the tensors tell.
  if (!algorithm.empty() && !is_mixed(algorithm) && !is_nvfp4(algorithm)) {
    return refused(quantization, "quantization",
                   fmt::format("the experts are {}, not NVFP4", in_quotes(algorithm)));
  }
  const std::string& method = quantization.method;
  const bool known = method.empty() || method.starts_with("modelopt") ||
                     method == "compressed-tensors" || method.find("nvfp4") != std::string::npos;
  if (algorithm.empty() && !known) {
    return refused(quantization, "quant_method",
                   fmt::format("the experts are {}, not NVFP4", in_quotes(method)));
  }
  return {};
}

// Why one quantisation leaves modules out, by its list of layers or its ignore list.
class Exceptions {
 public:
  explicit Exceptions(const Quantization& quantization)
      : quantization_(quantization), ignored_(quantization) {
    for (const QuantizedLayer& layer : quantization.layers) {
      if (!is_nvfp4(layer.algorithm)) others_.emplace(layer.module, layer.algorithm);
    }
  }

  Reason reason_for(const std::string& module) const {
    const auto other = others_.find(module);
    if (other != others_.end()) {
      return refused(quantization_, "quantized_layers",
                     fmt::format("{} is {}, not NVFP4", in_quotes(module),
                                 in_quotes(std::string(other->second))));
    }
    const std::optional<std::string> entry = ignored_.entry_of(module);
    if (!entry) return {};
    return refused(
        quantization_, "ignore",
        fmt::format("{} leaves {} as it was, not NVFP4", in_quotes(*entry), in_quotes(module)));
  }

 private:
  const Quantization& quantization_;
  IgnoreList ignored_;
  std::unordered_map<std::string_view, std::string_view> others_;
};

}  // namespace

IgnoreList::IgnoreList(const Quantization& quantization) {
  for (const std::string& entry : quantization.ignored) {
    if (entry.starts_with(expression_mark)) {
      std::optional<Pattern> pattern =
          Pattern::expression(std::string_view(entry).substr(expression_mark.size()));
      if (pattern) patterns_.emplace_back(entry, std::move(*pattern));
    } else if (entry.find_first_of("*?[") != std::string::npos) {
      patterns_.emplace_back(entry, Pattern::wildcard(entry));
    } else {
      names_.insert(entry);
    }
  }
}

std::optional<std::string> IgnoreList::entry_of(std::string_view module) const {
  for (std::size_t end = module.size(); end != std::string_view::npos && end > 0;
       end = module.rfind('.', end - 1)) {
    const std::string around(module.substr(0, end));
    if (names_.contains(around)) return around;
    for (const auto& [entry, pattern] : patterns_) {
      if (pattern.matches(around)) return entry;
    }
  }
  return {};
}

Reason take_quantization(std::string_view text, const std::string& file, Config& config) {
  const Result<JsonValue> tree = json_of(text);
  if (tree.reason) return tree.reason;
  if (tree->object() == nullptr) return Reason("is not an object");
  const JsonValue* inner = tree->find("quantization");
  if (inner == nullptr) return Reason("quantization: is missing");
  Result<Quantization> quantization = quantization_of(*inner, file);
  if (quantization.reason) {
    return Reason(fmt::format("quantization: {}", quantization.reason.text()));
  }
  config.quantizations.push_back(std::move(*quantization));
  return {};
}

Reason take_config(std::string_view text, const std::string& file, Config& config) {
  const Result<JsonValue> tree = json_of(text);
  if (tree.reason) return tree.reason;
  if (tree->object() == nullptr) return Reason("is not an object");
  Result<std::string> type = text_in(*tree, "model_type");
  if (type.reason) return type.reason;
  config.model_type = *type;
  config.sizes = sizes_of(*tree, file);
  // Multimodal models keep the language model's own config inside.
  const JsonValue* inner = tree->find("text_config");
  for (const JsonValue* object : {&*tree, inner}) {
    if (object == nullptr) continue;
    Reason reason = take_experts(*object, file, config);
    if (reason) return reason;
    const JsonValue* quantization = object->find("quantization_config");
    if (quantization == nullptr || quantization->null()) continue;
    Result<Quantization> made = quantization_of(*quantization, file);
    if (made.reason) {
      return Reason(fmt::format("quantization_config: {}", made.reason.text()));
    }
    config.quantizations.push_back(std::move(*made));
  }
  return {};
}

Result<Config> config_of(const std::string& folder) {
  Config made;
  constexpr std::string_view main_file = "config.json";
  for (const std::string_view name : {main_file, std::string_view("hf_quant_config.json")}) {
    const std::string file(name);
    const Result<std::optional<std::string>> text = text_beside(folder, file);
    if (text.reason) return text.reason;
    if (!*text) continue;
    const std::string where = shown(fmt::format("{}/{}", folder, file));
    Reason reason = name == main_file ? take_config(**text, where, made)
                                      : take_quantization(**text, where, made);
    if (reason) return Reason(fmt::format("{}: {}", where, reason.text()));
  }
  return made;
}

Result<std::vector<LeftOut>> left_out(const Config& config,
                                      const std::vector<std::string>& modules) {
  std::map<std::size_t, Reason> out;
  for (const Quantization& quantization : config.quantizations) {
    Reason reason = other_algorithm(quantization);
    if (reason) return reason;
    const Exceptions exceptions(quantization);
    for (std::size_t m = 0; m < modules.size(); ++m) {
      reason = exceptions.reason_for(modules[m]);
      if (reason) out.emplace(m, reason);
    }
  }
  const bool all = out.contains(0) || (out.size() == modules.size() - 1 && !out.empty());
  if (all) return out.begin()->second;
  std::vector<LeftOut> made;
  for (const auto& [module, reason] : out) made.push_back({module, reason});
  return made;
}

}  // namespace slicecheck::checkpoint
