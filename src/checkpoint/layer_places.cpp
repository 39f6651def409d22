#include "checkpoint/layer_places.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config_sizes.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

// What stands behind the root's dot, in order: "0.gate_proj.weight", "gate_up_proj".
std::vector<std::string_view> tails_of(const Shards& shards, const std::string& root) {
  std::vector<std::string_view> tails;
  const std::string from = root + ".";
  for (auto at = shards.names().lower_bound(from);
       at != shards.names().end() && at->first.starts_with(from); ++at) {
    tails.push_back(std::string_view(at->first).substr(from.size()));
  }
  return tails;
}

// What names alone tell: experts that are MXFP4.
Reason other_blocks(Shards& shards, const LayerNames& names) {
  for (const std::string_view tail : names.tails) {
    if (!tail.ends_with("_blocks")) continue;
    const Result<Located> tensor = shards.find(fmt::format("{}.{}", names.root, tail));
    if (tensor.reason) return tensor.reason;
    return refusal(*tensor, "the experts are MXFP4, not NVFP4");
  }
  return {};
}

}  // namespace

bool any_contains(const std::vector<std::string_view>& tails, std::string_view part) {
  return std::any_of(tails.begin(), tails.end(), [part](std::string_view tail) {
    return tail.find(part) != std::string_view::npos;
  });
}

Reason refusal(const Located& tensor, std::string_view why) {
  return Reason(fmt::format("{}: {}: {}", tensor.file->name(), in_quotes(tensor.entry->name), why),
                refused_cause);
}

Reason unexpected(const Located& tensor, Element due, const Extents& extents) {
  return Reason(fmt::format("{}: {}: is {}, expected {} {}", tensor.file->name(),
                            in_quotes(tensor.entry->name), text(*tensor.entry), name(due),
                            text(extents)));
}

bool packed(const Located& weight) { return weight.entry->element == Element::u8; }

Reason not_nvfp4(const Located& weight) {
  return refusal(weight, fmt::format("the experts are {}, not NVFP4", name(weight.entry->element)));
}

Reason not_as_others(const Located& weight) {
  return refusal(weight, fmt::format("is {}, not packed FP4 (U8) as others of the layer",
                                     text(*weight.entry)));
}

Reason mxfp4(const Located& scale) {
  return refusal(scale, "a scale for each 32 elements: the experts are MXFP4, not NVFP4");
}

Reason biased(const Located& bias) {
  return refusal(bias, "experts with biases are not supported");
}

Reason misfit(const Located& scale, Element due, const Extents& extents) {
  return Reason(unexpected(scale, due, extents).text(), "scale-extent-mismatch");
}

Reason interleaved(const LayerNames& names, const Config& config) {
  if (config.model_type != "gpt_oss") return {};
  return Reason(
      fmt::format("{}: gate and up rows are interleaved in gpt-oss, not supported", names.where),
      refused_cause);
}

Result<Layer> unread(Format format, const LayerNames& names, const Config& config,
                     const Reason& reason) {
  if (Reason contrary = contradicted(config, names, format)) return contrary;
  const Result<std::vector<LeftOut>> out = left_out(config, {names.root});
  if (out.reason) return out.reason;
  return Layer(format, names.root, {},
               {{}, {{reason, all_experts, {}, ProjectionPart::weights}}, {}});
}

Result<float> value_at(const Located& tensor, std::int64_t index) {
  std::uint8_t word[sizeof(float)];
  Reason reason = tensor.file->read(*tensor.entry, index * std::int64_t{sizeof word}, word);
  if (reason) return reason;
  return load<float>(word);
}

Reason contradicted(const Config& config, const LayerNames& names, Format format) {
  for (const Quantization& quantization : config.quantizations) {
    if (quantization.method.empty()) continue;
    const bool compressed = quantization.method == "compressed-tensors";
    if (compressed == (format == Format::compressed_tensors)) continue;
    return Reason(fmt::format("{}: quant_method: is {}, but the tensors of {} are {}'s",
                              quantization.file, in_quotes(quantization.method),
                              in_quotes(names.root), name(format)));
  }
  return {};
}

void add_claims(const Config& config, const LayerNames& names,
                const std::vector<LayerModule>& modules, const layout::Widths& widths,
                LayerPlaces& places) {
  const Claims claims(config);
  std::vector<Flaw> contrary;
  std::size_t contrary_modules = 0;
  for (const LayerModule& module : modules) {
    const Reason reason = claims.contradiction(module.name);
    if (reason) ++contrary_modules;
    const InputClaim input = claims.input(module.name);
    for (const auto& [e, projection] : module.projections) {
      places.experts.at(e)[static_cast<std::size_t>(projection)].input = input;
      if (reason) contrary.push_back({reason, e, projection, ProjectionPart::weights});
    }
  }
  if (contrary_modules == modules.size() && !contrary.empty()) {
    contrary = {{contrary.front().reason, all_experts, {}, ProjectionPart::weights}};
  }
  places.flaws.insert(places.flaws.end(), contrary.begin(), contrary.end());
  ContrarySizes sizes = contrary_sizes(config.sizes, widths, names.root);
  for (const Reason& reason : sizes.wrong) {
    places.flaws.push_back({reason, all_experts, {}, ProjectionPart::weights});
  }
  places.doubts = std::move(sizes.padded);
}

std::vector<Flaw> miscounted(const Config& config, const LayerNames& names,
                             const std::set<std::int64_t>& held) {
  const auto count = static_cast<std::int64_t>(held.size());
  const std::int64_t due = config.experts.value_or(held.empty() ? 0 : *held.rbegin() + 1);
  const auto said = [&](std::int64_t e, std::string_view what) {
    if (!config.experts || *config.experts == count) {
      return fmt::format("{}: expert {} is {}", names.where, e, what);
    }
    return fmt::format("{}: is {}, but {} holds {} experts", config.experts_field, *config.experts,
                       in_quotes(names.root), count);
  };
  std::vector<Flaw> made;
  for (std::int64_t e = 0; e < due && std::ssize(made) < miscounted_max; ++e) {
    if (held.contains(e)) continue;
    made.push_back({Reason(said(e, "missing"), "expert-missing"), e, {}, ProjectionPart::weights});
  }
  std::int64_t more = 0;
  for (auto e = held.lower_bound(due); e != held.end() && more < miscounted_max; ++e, ++more) {
    made.push_back(
        {Reason(said(*e, "one too many"), "expert-duplicated"), *e, {}, ProjectionPart::weights});
  }
  return made;
}

Result<Layer> layer_of(Shards& shards, const std::string& root, const Config& config) {
  const LayerNames names{root, fmt::format("{}: {}", shown(shards.folder()), in_quotes(root)),
                         tails_of(shards, root)};
  Reason reason = other_blocks(shards, names);
  if (reason) return reason;
  const bool fused = std::any_of(names.tails.begin(), names.tails.end(), [](std::string_view tail) {
    return tail.starts_with("gate_up_proj");
  });
  return fused ? fused_layer(shards, names, config) : per_expert_layer(shards, names, config);
}

}  // namespace slicecheck::checkpoint
