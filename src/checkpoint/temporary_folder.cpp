#include "checkpoint/temporary_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace slicecheck::checkpoint {

TemporaryFolder::TemporaryFolder() {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
  std::string name = (folder / "slicecheck-XXXXXX").string();
  if (!none && ::mkdtemp(name.data()) != nullptr) {
    path_ = name;
  } else {
    const std::string why = none ? none.message() : std::strerror(errno);
    reason_ = Reason(fmt::format("no temporary folder can be made: {}", why));
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace slicecheck::checkpoint
