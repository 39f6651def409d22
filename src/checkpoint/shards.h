// The tensors of a checkpoint folder by name, whichever file they lie in:
// model.safetensors.index.json where there is one, else model.safetensors, else every *.safetensors
// of the folder. A shard is opened when one of its tensors is asked for.
#pragma once

#include <map>
#include <memory>

#include "checkpoint/safetensors.h"

namespace slicecheck::checkpoint {

/// A tensor and the file that holds it.
struct Located {
  std::shared_ptr<const Safetensors> file;
  const TensorEntry* entry = nullptr;
};

/// Not for two threads at once: a shard is opened on demand.
class Shards {
 public:
  /// Refuses when: there is no such folder or nothing in it; the index is not one; a shard that it
  /// names leaves the folder (by its name or by a symbolic link).
  static Result<Shards> open(const std::string& folder);

  /// Every tensor's name, in order, and the number of its shard.
  const std::map<std::string, std::size_t, std::less<>>& names() const { return names_; }

  /// The tensor of that name.
  /// Refuses when: there is none; its shard is missing or wrong or does not hold it.
  Result<Located> find(std::string_view name);

  const std::string& folder() const { return folder_; }

 private:
  struct Shard {
    std::string file;
    std::shared_ptr<const Safetensors> open;
  };

  Reason take_index(const std::string& text);
  Reason take_files();
  Reason open_shard(Shard& shard);

  // "FILE: FIELD" that would name a tensor: of the index, or of the one file; else the folder.
  std::string place_of_names() const;

  std::string folder_;
  bool has_index_ = false;
  std::vector<Shard> shards_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

/// The file of a weight map: tensor name to shard.
Result<std::map<std::string, std::string>> weight_map_of(std::string_view index);

/// Why `file` of an index may not be opened in `folder`: an absolute or climbing name, a symbolic
/// link that leaves the folder.
Reason outside(const std::string& folder, const std::string& file);

}  // namespace slicecheck::checkpoint
