#include "checkpoint/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

// One call never asks for more: Linux reads at most 2^31 - 4096 bytes at once.
constexpr std::size_t read_bytes_max = std::size_t{64} << 20;

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

struct File::Descriptor {
  explicit Descriptor(int of) : number(of) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(number); }
  int number;
};

Result<File> File::open(const std::string& path) {
  const std::string name = shown(path);
  // Without O_NONBLOCK the open of a pipe would wait for a writer.
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (number < 0) return Reason(fmt::format("{}: cannot be opened: {}", name, strerror(errno)));
  File made;
  made.descriptor_ = std::make_shared<const Descriptor>(number);
  made.name_ = name;
  struct stat status {};
  if (::fstat(number, &status) != 0) {
    return Reason(fmt::format("{}: cannot be examined: {}", name, strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    return Reason(fmt::format("{}: is {}, expected a file", name, kind_of(status.st_mode)));
  }
  made.size_ = status.st_size;
  return made;
}

Reason File::read(std::int64_t offset, MutableBytes into) const {
  while (!into.empty()) {
    const std::size_t asked = std::min(into.size(), read_bytes_max);
    const ssize_t got = ::pread(descriptor_->number, into.data(), asked, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Reason(fmt::format("{}: byte {}: cannot be read: {}", name_, offset, strerror(errno)));
    }
    if (got == 0) {
      return Reason(
          fmt::format("{}: byte {}: the file ends here, it had {} bytes when it was opened", name_,
                      offset, size_));
    }
    offset += got;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::string> text_of(const std::string& path, std::int64_t bytes_max) {
  Result<File> file = File::open(path);
  if (file.reason) return file.reason;
  if (file->size() > bytes_max) {
    return Reason(fmt::format("{}: size: is {} bytes, expected at most {}", file->name(),
                              file->size(), bytes_max));
  }
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  Reason reason = file->read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  if (reason) return reason;
  return text;
}

}  // namespace slicecheck::checkpoint
