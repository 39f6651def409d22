// JSON as this program accepts it from files: UTF-8, unique keys, bounded nesting, finite numbers,
// nothing behind the text. The one place of the room that knows the JSON library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/reason.h"

namespace slicecheck::checkpoint {

/// No text nests deeper. The reference reader of safetensors has the same limit.
inline constexpr std::size_t nesting_max = 128;

/// A value that is neither object nor array. Whole numbers below zero are int64, from zero on
/// uint64, all others (2^64 and above too) double.
using JsonLeaf =
    std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double, std::string>;

/// What a JSON text says, in its order. A Reason from any of these ends the reading.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Reason opened(char bracket) = 0;  // '{' or '['
  virtual Reason key(std::string name) = 0;
  virtual Reason leaf(JsonLeaf value) = 0;
  virtual Reason closed() = 0;
};

/// Tells `events` what `text` says.
/// Refuses when: it is not JSON as above, or an event does. Cost: time and memory linear in text.
Reason read_json(std::string_view text, JsonEvents& events);

struct JsonMember;

/// A JSON text as a tree: for texts of a few megabytes.
struct JsonValue {
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;
  std::variant<JsonLeaf, Array, Object> value;

  /// The member of that name; null where there is none or this is no object.
  const JsonValue* find(std::string_view name) const;
  /// The value as a type; null where it is another.
  const Array* array() const { return std::get_if<Array>(&value); }
  const Object* object() const { return std::get_if<Object>(&value); }
  const std::string* text() const { return leaf<std::string>(); }
  const std::uint64_t* whole() const { return leaf<std::uint64_t>(); }
  bool null() const { return leaf<std::nullptr_t>() != nullptr; }

 private:
  template <typename T>
  const T* leaf() const {
    const JsonLeaf* held = std::get_if<JsonLeaf>(&value);
    return held == nullptr ? nullptr : std::get_if<T>(held);
  }
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

/// The tree of a text.
Result<JsonValue> json_of(std::string_view text);

/// The tree of a file of at most 16 MiB; a Reason names the file.
Result<JsonValue> json_file(const std::string& path);

/// `text` as a JSON string in ASCII, with its quotes.
std::string json_text(std::string_view text);

}  // namespace slicecheck::checkpoint
