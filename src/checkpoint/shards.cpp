#include "checkpoint/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "checkpoint/in_quotes.h"
#include "checkpoint/json.h"

namespace slicecheck::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view index_file = "model.safetensors.index.json";
constexpr std::string_view single_file = "model.safetensors";
constexpr std::string_view map_key = "weight_map";

// {"metadata": anything, "weight_map": {tensor: file}}; other members are not looked at.
class IndexEvents : public JsonEvents {
 public:
  Reason opened(char bracket) override {
    if (depth_ == 0 && bracket != '{') return Reason("is not an object");
    if (depth_ == 1 && key_ == map_key) {
      if (bracket != '{') return Reason("weight_map: is not an object");
      in_map_ = true;
    } else if (in_map_) {
      return Reason(fmt::format("weight_map: {}: is not a string", in_quotes(key_)));
    }
    ++depth_;
    return {};
  }
  Reason key(std::string name) override {
    if (depth_ == 1 || in_map_) key_ = std::move(name);
    return {};
  }
  Reason leaf(JsonLeaf value) override {
    if (depth_ == 0) return Reason("is not an object");
    if (depth_ == 1 && key_ == map_key) return Reason("weight_map: is not an object");
    if (!in_map_) return {};
    auto* file = std::get_if<std::string>(&value);
    if (file == nullptr) {
      return Reason(fmt::format("weight_map: {}: is not a string", in_quotes(key_)));
    }
    map_.emplace(key_, std::move(*file));
    return {};
  }
  Reason closed() override {
    --depth_;
    if (in_map_) seen_ = true;
    in_map_ = false;
    return {};
  }

  bool seen() const { return seen_; }
  std::map<std::string, std::string> take() { return std::move(map_); }

 private:
  std::map<std::string, std::string> map_;
  std::string key_;
  int depth_ = 0;
  bool in_map_ = false;
  bool seen_ = false;
};

}  // namespace

Result<std::map<std::string, std::string>> weight_map_of(std::string_view index) {
  IndexEvents events;
  Reason reason = read_json(index, events);
  if (reason) return reason;
  if (!events.seen()) return Reason("weight_map: is missing");
  return events.take();
}

Reason outside(const std::string& folder, const std::string& file) {
  const fs::path path(file);
  if (file.empty() || file.find('\0') != std::string::npos || path.is_absolute() ||
      std::find(path.begin(), path.end(), "..") != path.end()) {
    return Reason(fmt::format("{} is no name of a file inside the folder", in_quotes(file)));
  }
  std::error_code failed;
  const fs::path inside = fs::canonical(folder, failed);
  const fs::path real = fs::canonical(fs::path(folder) / path, failed);
  if (failed) return {};  // the open says what is wrong with it
  const auto [end, at] = std::mismatch(inside.begin(), inside.end(), real.begin(), real.end());
  if (end == inside.end()) return {};
  return Reason(fmt::format(
      "{} is a symbolic link that leaves the folder; a copy by cp -rL has none", in_quotes(file)));
}

Result<Shards> Shards::open(const std::string& folder) {
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (!fs::exists(status)) return Reason(fmt::format("{}: no such folder", shown(folder)));
  if (!fs::is_directory(status)) return Reason(fmt::format("{}: is not a folder", shown(folder)));
  Shards made;
  made.folder_ = folder;
  const std::string index = folder + "/" + std::string(index_file);
  if (fs::symlink_status(index, failed).type() == fs::file_type::not_found) {
    Reason reason = made.take_files();
    if (reason) return reason;
    return made;
  }
  Reason reason = outside(folder, std::string(index_file));
  if (reason) return Reason(fmt::format("{}: {}", shown(index), reason.text()));
  Result<std::string> text = text_of(index, header_bytes_max);
  if (text.reason) return text.reason;
  made.has_index_ = true;
  reason = made.take_index(*text);
  if (reason) return Reason(fmt::format("{}: {}", shown(index), reason.text()));
  return made;
}

Reason Shards::take_index(const std::string& text) {
  const Result<std::map<std::string, std::string>> map = weight_map_of(text);
  if (map.reason) return map.reason;
  std::map<std::string, std::size_t> numbers;
  for (const auto& [tensor, file] : *map) {
    const auto [number, added] = numbers.emplace(file, shards_.size());
    if (added) {
      Reason reason = outside(folder_, file);
      if (reason) {
        return Reason(fmt::format("weight_map: {}: {}", in_quotes(tensor), reason.text()));
      }
      shards_.push_back({file, nullptr});
    }
    names_.emplace(tensor, number->second);
  }
  return {};
}

Reason Shards::take_files() {
  std::error_code failed;
  if (fs::exists(fs::path(folder_) / single_file, failed)) {
    shards_.push_back({std::string(single_file), nullptr});
  } else {
    for (fs::directory_iterator at(folder_, failed), end; !failed && at != end;
         at.increment(failed)) {
      if (at->path().extension() == ".safetensors") {
        shards_.push_back({at->path().filename().string(), nullptr});
      }
    }
  }
  if (failed) return Reason(fmt::format("{}: {}", shown(folder_), failed.message()));
  if (shards_.empty()) {
    return Reason(fmt::format("{}: holds no .safetensors file", shown(folder_)));
  }
  std::sort(shards_.begin(), shards_.end(),
            [](const Shard& a, const Shard& b) { return a.file < b.file; });
  for (std::size_t number = 0; number < shards_.size(); ++number) {
    Reason reason = open_shard(shards_[number]);
    if (reason) return reason;
    for (const TensorEntry& entry : shards_[number].open->tensors()) {
      const auto [at, added] = names_.emplace(entry.name, number);
      if (!added) {
        return Reason(fmt::format("{}: header: {} stands in {} too", shards_[number].open->name(),
                                  in_quotes(entry.name), in_quotes(shards_[at->second].file)));
      }
    }
  }
  return {};
}

Reason Shards::open_shard(Shard& shard) {
  if (shard.open != nullptr) return {};
  const std::string path = folder_ + "/" + shard.file;
  Reason reason = outside(folder_, shard.file);
  if (reason) return Reason(fmt::format("{}: {}", shown(path), reason.text()));
  Result<Safetensors> file = Safetensors::open(path);
  if (file.reason) return file.reason;
  shard.open = std::make_shared<const Safetensors>(std::move(*file));
  return {};
}

std::string Shards::place_of_names() const {
  if (has_index_) {
    return fmt::format("{}: {}", shown(folder_ + "/" + std::string(index_file)), map_key);
  }
  if (shards_.size() != 1) return shown(folder_);
  return fmt::format("{}: header", shown(folder_ + "/" + shards_.front().file));
}

Result<Located> Shards::find(std::string_view name) {
  const auto at = names_.find(name);
  if (at == names_.end()) {
    return Reason(fmt::format("{}: {}: is missing", place_of_names(), in_quotes(name)));
  }
  Shard& shard = shards_[at->second];
  Reason reason = open_shard(shard);
  if (reason) return reason;
  const TensorEntry* entry = shard.open->find(name);
  if (entry == nullptr) {
    return Reason(fmt::format("{}: header: {} is missing, the index has it here",
                              shard.open->name(), in_quotes(name)));
  }
  return Located{shard.open, entry};
}

}  // namespace slicecheck::checkpoint
