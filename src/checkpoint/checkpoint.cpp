#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <set>

#include "checkpoint/in_quotes.h"
#include "checkpoint/names.h"

namespace slicecheck::checkpoint {
namespace {

// Everything of a root before its layer's number: "model.", "mtp.".
std::string stem_of(const ExpertsRoot& root) {
  return root.name.substr(0, root.name.find(fmt::format("layers.{}.", root.layer)));
}

// A model's own layers and those of a draft model behind it (`mtp.layers.0`) share numbers: the
// stem with the most layers is the model's.
Result<std::map<std::int64_t, std::string>> roots_of(const Shards& shards) {
  std::map<std::string, std::map<std::int64_t, std::string>> by_stem;
  for (const auto& [tensor, shard] : shards.names()) {
    const std::optional<ExpertsRoot> root = experts_root(tensor);
    if (!root) continue;
    const auto [at, added] = by_stem[stem_of(*root)].emplace(root->layer, root->name);
    if (!added && at->second != root->name) {
      return Reason(fmt::format("{}: layer {} has experts under {} and {}", shown(shards.folder()),
                                root->layer, in_quotes(at->second), in_quotes(root->name)));
    }
  }
  std::map<std::int64_t, std::string> most;
  for (auto& [stem, layers] : by_stem) {
    if (layers.size() > most.size()) most = std::move(layers);
  }
  return most;
}

}  // namespace

Ending ending(const Reason& reason) {
  return reason.cause() == refused_cause ? Ending::refused : Ending::unusable;
}

Reason of_checkpoint(const Reason& reason, std::int64_t layer) {
  if (!reason) return reason;
  Where where = reason.where();
  where.side = "checkpoint";
  where.layer = layer;
  return Reason(reason.text(), reason.cause(), where);
}

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  Result<Shards> shards = Shards::open(folder);
  if (shards.reason) return shards.reason;
  Checkpoint made;
  made.shards_ = std::move(*shards);
  Result<Config> config = config_of(folder);
  if (config.reason) return config.reason;
  made.config_ = std::move(*config);
  Result<std::map<std::int64_t, std::string>> roots = roots_of(made.shards_);
  if (roots.reason) return roots.reason;
  made.roots_ = std::move(*roots);
  return made;
}

std::vector<std::int64_t> Checkpoint::layers() const {
  std::vector<std::int64_t> numbers;
  for (const auto& [number, root] : roots_) numbers.push_back(number);
  return numbers;
}

Result<Layer> Checkpoint::layer(std::int64_t number) {
  Result<Layer> made = layer_with_flaws(number);
  if (made.reason) return of_checkpoint(made.reason, number);
  if (made->flawed()) return of_checkpoint(made->flawed(), number);
  return made;
}

Result<Layer> Checkpoint::layer_with_flaws(std::int64_t number) {
  const auto at = roots_.find(number);
  if (at == roots_.end()) {
    return Reason(
        fmt::format("{}: layer {}: holds no routed experts", shown(shards_.folder()), number));
  }
  return layer_of(shards_, at->second, config_);
}

}  // namespace slicecheck::checkpoint
