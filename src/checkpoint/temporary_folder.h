// A folder in the system's temporary one that is gone behind whoever made it, however that ends.
#pragma once

#include <string>

#include "base/reason.h"

namespace slicecheck::checkpoint {

class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  /// Why there is none; or nothing.
  const Reason& reason() const { return reason_; }
  const std::string& path() const { return path_; }

 private:
  Reason reason_;
  std::string path_;
};

}  // namespace slicecheck::checkpoint
