// A folder that a test writes files into and that is gone behind it.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/temporary_folder.h"

namespace slicecheck::checkpoint {

class Folder {
 public:
  Folder();

  const std::string& path() const { return folder_.path(); }
  std::string operator/(std::string_view file) const { return path() + "/" + std::string(file); }

 private:
  TemporaryFolder folder_;
};

/// The bytes of a file; empty where there is none.
std::string contents(const std::string& path);
void write_file(const std::string& path, std::string_view bytes);

/// The file of a safetensors header and so many bytes of tensors.
std::string safetensors(std::string_view header, std::size_t data_bytes);

/// A folder of `golden`.
std::string golden(std::string_view name);

}  // namespace slicecheck::checkpoint
