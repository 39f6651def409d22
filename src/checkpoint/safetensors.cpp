#include "checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/must.h"
#include "checkpoint/in_quotes.h"
#include "checkpoint/safetensors_header.h"

namespace slicecheck::checkpoint {
namespace {

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t header_multiple = 8;

Reason in_file(const File& file, const Reason& reason) {
  return Reason(fmt::format("{}: {}", file.name(), reason.text()), reason.cause());
}

Result<std::string> header_bytes(const File& file) {
  if (file.size() < length_bytes) {
    return Reason(fmt::format("{}: header length: the file has {} bytes, expected {} or more",
                              file.name(), file.size(), length_bytes));
  }
  std::uint8_t word[length_bytes];
  Reason reason = file.read(0, word);
  if (reason) return reason;
  const auto length = load<std::uint64_t>(word);
  if (length > static_cast<std::uint64_t>(header_bytes_max)) {
    return Reason(fmt::format("{}: header length: is {}, expected at most {}", file.name(), length,
                              header_bytes_max));
  }
  if (static_cast<std::int64_t>(length) > file.size() - length_bytes) {
    return Reason(fmt::format("{}: header length: is {}, the file has {} bytes behind it",
                              file.name(), length, file.size() - length_bytes));
  }
  std::string text(length, '\0');
  reason = file.read(length_bytes, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  if (reason) return reason;
  return text;
}

}  // namespace

std::string text(const TensorEntry& entry) {
  return fmt::format("{} {}", name(entry.element), text(entry.extents));
}

Result<Safetensors> Safetensors::open(const std::string& path) {
  Result<File> file = File::open(path);
  if (file.reason) return file.reason;
  Result<std::string> text = header_bytes(*file);
  if (text.reason) return text.reason;
  Safetensors made;
  made.file_ = *file;
  made.data_begin_ = length_bytes + static_cast<std::int64_t>(text->size());
  Result<Header> header = header_of(*text, file->size() - made.data_begin_);
  if (header.reason) return in_file(*file, header.reason);
  made.tensors_ = std::move(header->tensors);
  made.metadata_ = std::move(header->metadata);
  made.by_name_.resize(made.tensors_.size());
  std::iota(made.by_name_.begin(), made.by_name_.end(), std::size_t{0});
  std::sort(made.by_name_.begin(), made.by_name_.end(), [&made](std::size_t a, std::size_t b) {
    return made.tensors_[a].name < made.tensors_[b].name;
  });
  return made;
}

const TensorEntry* Safetensors::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [this](std::size_t index, std::string_view sought) { return tensors_[index].name < sought; });
  if (at == by_name_.end() || tensors_[*at].name != name) return nullptr;
  return &tensors_[*at];
}

Reason Safetensors::read(const TensorEntry& entry, std::int64_t offset, MutableBytes into) const {
  must(offset >= 0 && offset + static_cast<std::int64_t>(into.size()) <= entry.bytes,
       "bytes asked of a tensor beyond its end");
  return file_.read(data_begin_ + entry.begin + offset, into);
}

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path, const std::map<std::string, std::string>& metadata,
    std::vector<TensorEntry> entries) {
  std::int64_t end = 0;
  for (TensorEntry& entry : entries) {
    const std::optional<std::int64_t> bytes = bytes_of(entry.element, entry.extents);
    must(bytes.has_value(), "a tensor to write has no size");
    entry.begin = end;
    entry.bytes = *bytes;
    end += *bytes;
  }
  std::string header = header_text({std::move(entries), metadata});
  header.resize((header.size() + header_multiple - 1) / header_multiple * header_multiple, ' ');
  ByteVector bytes(length_bytes);
  store(bytes.data(), static_cast<std::uint64_t>(header.size()));
  bytes.insert(bytes.end(), header.begin(), header.end());

  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return Reason(fmt::format("{}: cannot be created: {}", shown(path), strerror(errno)));
  }
  SafetensorsWriter made(descriptor, path);
  made.due_bytes_ = end + static_cast<std::int64_t>(bytes.size());
  Reason reason = made.add(bytes);
  if (reason) return reason;
  return made;
}

SafetensorsWriter::SafetensorsWriter(int descriptor, const std::string& path)
    : descriptor_(descriptor), name_(shown(path)) {}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : descriptor_(other.descriptor_), name_(std::move(other.name_)), due_bytes_(other.due_bytes_) {
  other.descriptor_ = -1;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Reason SafetensorsWriter::add(Bytes bytes) {
  due_bytes_ -= static_cast<std::int64_t>(bytes.size());
  must(due_bytes_ >= 0, "more bytes written than the header declares");
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Reason(fmt::format("{}: cannot be written: {}", name_, strerror(errno)));
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Reason SafetensorsWriter::finish() {
  must(due_bytes_ == 0, "fewer bytes written than the header declares");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) == 0) return {};
  return Reason(fmt::format("{}: cannot be written: {}", name_, strerror(errno)));
}

}  // namespace slicecheck::checkpoint
