// safetensors: a header length (u64), a JSON header, then the tensors' bytes without a hole. Read
// by place, in any piece, with no alignment assumed; written as a stream. Source:
// huggingface/safetensors 24b0b28, safetensors/src/tensor.rs, README.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/file.h"

namespace slicecheck::checkpoint {

using slicecheck::name;
using slicecheck::text;

/// Element types of the format, in its order.
enum class Element {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

/// "BOOL", "F4", ..., "U64".
std::string_view name(Element element);
std::optional<Element> element_of(std::string_view name);
/// The element type of a tensor of this program.
Element element_of(Dtype dtype);
/// Bits of one element; 4, 6 or whole bytes.
std::int64_t bits(Element element);

/// One tensor of a file: its bytes are [begin, begin + bytes) behind the header.
struct TensorEntry {
  std::string name;
  Element element = Element::u8;
  Extents extents;
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

/// "U8 [a, b]".
std::string text(const TensorEntry& entry);

inline constexpr std::int64_t header_bytes_max = 100'000'000;

/// A safetensors file open for reading; copies share it.
class Safetensors {
 public:
  /// Validated as the reference reader does, and stricter: unique keys. Every Reason names the file
  /// and the field: `header length`, `header`, a tensor's name and its member.
  /// Refuses when: the header length or the header is wrong; a dtype is not of the format; offsets
  /// overlap, leave a hole or the file; extents times dtype are not the span.
  /// Cost: time and memory linear in the header.
  static Result<Safetensors> open(const std::string& path);

  /// In the order of their bytes.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// The tensor of that name; null where there is none.
  const TensorEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// How a Reason names the file.
  const std::string& name() const { return file_.name(); }

  /// Fills `into` with the tensor's bytes from byte `offset` of it on.
  Reason read(const TensorEntry& entry, std::int64_t offset, MutableBytes into) const;

 private:
  File file_;
  std::int64_t data_begin_ = 0;
  std::vector<TensorEntry> tensors_;
  std::vector<std::size_t> by_name_;
  std::map<std::string, std::string> metadata_;
};

/// A file being written: the header first, then the bytes of its tensors in their order.
class SafetensorsWriter {
 public:
  /// Creates the file (it must not exist) and writes its header as Python's json.dumps spaces it,
  /// padded with spaces to a multiple of 8. The entries' `begin` and `bytes` are computed here.
  static Result<SafetensorsWriter> create(const std::string& path,
                                          const std::map<std::string, std::string>& metadata,
                                          std::vector<TensorEntry> entries);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  /// The next bytes, in pieces of any size.
  Reason add(Bytes bytes);
  /// Ends the file. Every byte was given.
  Reason finish();

 private:
  SafetensorsWriter(int descriptor, const std::string& path);

  int descriptor_ = -1;
  std::string name_;
  std::int64_t due_bytes_ = 0;
};

}  // namespace slicecheck::checkpoint
