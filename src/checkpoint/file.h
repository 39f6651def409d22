// A file that is read by place. Nothing is mapped, so a file that shrinks while it is read is a
// Reason and never a signal.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/reason.h"

namespace slicecheck::checkpoint {

/// A regular file open for reading; copies share it.
class File {
 public:
  /// Refuses when: there is no such file, it is a folder, a pipe or a device, or may not be read.
  static Result<File> open(const std::string& path);

  /// Bytes in the file when it was opened.
  std::int64_t size() const { return size_; }

  /// How a Reason names the file: its folder's and its own name.
  const std::string& name() const { return name_; }

  /// Fills `into` with the bytes from `offset` on.
  /// Refuses when: the file ends before, or cannot be read.
  Reason read(std::int64_t offset, MutableBytes into) const;

 private:
  struct Descriptor;
  std::shared_ptr<const Descriptor> descriptor_;
  std::int64_t size_ = 0;
  std::string name_;
};

/// The whole text of a file of at most `bytes_max` bytes.
Result<std::string> text_of(const std::string& path, std::int64_t bytes_max);

}  // namespace slicecheck::checkpoint
