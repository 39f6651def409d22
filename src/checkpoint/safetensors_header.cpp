#include "checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "checkpoint/in_quotes.h"
#include "checkpoint/json.h"

namespace slicecheck::checkpoint {
namespace {

struct ElementRow {
  std::string_view name;
  std::int64_t bits;
};

constexpr std::array<ElementRow, 22> element_rows{{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

constexpr std::string_view metadata_key = "__metadata__";

// An entry while its members arrive.
struct Draft {
  TensorEntry entry;
  std::vector<std::int64_t> offsets;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// What the header's values are, by how deep and under which key they stand.
class HeaderEvents : public JsonEvents {
 public:
  Reason opened(char bracket) override {
    if (ignored_depth_ > 0) {
      ++ignored_depth_;
      return {};
    }
    switch (at_) {
      case At::start:
        if (bracket != '{') return Reason("is not an object");
        at_ = At::header;
        return {};
      case At::header:
        if (bracket != '{') return wrong("is an array, expected an object");
        at_ = key_ == metadata_key ? At::metadata : At::tensor;
        draft_ = {};
        draft_.entry.name = key_;
        return {};
      case At::tensor:
        return member_opened(bracket);
      case At::metadata:
        return wrong("a value is not a string");
      case At::shape:
        return wrong("shape: an extent is not a number");
      case At::offsets:
        break;
    }
    return wrong("data_offsets: an offset is not a number");
  }

  Reason key(std::string name) override {
    if (ignored_depth_ > 0) return {};
    (at_ == At::header ? key_ : member_) = std::move(name);
    return {};
  }

  Reason leaf(JsonLeaf value) override {
    if (ignored_depth_ > 0) return {};
    switch (at_) {
      case At::start:
        return Reason("is not an object");
      case At::header:
        if (key_ == metadata_key && std::holds_alternative<std::nullptr_t>(value)) return {};
        return wrong("is not an object");
      case At::metadata:
        return metadata(value);
      case At::tensor:
        return member(value);
      case At::shape:
        return number(value, draft_.entry.extents, "shape");
      case At::offsets:
        break;
    }
    return number(value, draft_.offsets, "data_offsets");
  }

  Reason closed() override {
    if (ignored_depth_ > 0) {
      --ignored_depth_;
      return {};
    }
    switch (at_) {
      case At::shape:
      case At::offsets:
        at_ = At::tensor;
        return {};
      case At::tensor:
        at_ = At::header;
        return finish_tensor();
      default:
        at_ = At::header;
        return {};
    }
  }

  Header take() { return std::move(made_); }

 private:
  enum class At { start, header, metadata, tensor, shape, offsets };

  Reason wrong(std::string_view text) const {
    return Reason(fmt::format("{}: {}", in_quotes(key_), text));
  }

  Reason member_opened(char bracket) {
    const bool list = member_ == "shape" || member_ == "data_offsets";
    if (!list && member_ != "dtype") {
      ignored_depth_ = 1;
      return {};
    }
    if (!list || bracket != '[') {
      return wrong(fmt::format("{}: is not {}", member_, list ? "an array" : "a string"));
    }
    (member_ == "shape" ? draft_.has_shape : draft_.has_offsets) = true;
    at_ = member_ == "shape" ? At::shape : At::offsets;
    return {};
  }

  Reason metadata(JsonLeaf& value) {
    auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return wrong(fmt::format("{}: is not a string", in_quotes(member_)));
    made_.metadata.emplace(member_, std::move(*text));
    return {};
  }

  Reason member(const JsonLeaf& value) {
    if (member_ == "shape" || member_ == "data_offsets") {
      return wrong(fmt::format("{}: is not an array", member_));
    }
    if (member_ != "dtype") return {};
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return wrong("dtype: is not a string");
    const std::optional<Element> element = element_of(*text);
    if (!element) return wrong(fmt::format("dtype: {} is none of the format", in_quotes(*text)));
    draft_.entry.element = *element;
    draft_.has_dtype = true;
    return {};
  }

  Reason number(const JsonLeaf& value, std::vector<std::int64_t>& into, std::string_view what) {
    const auto* whole = std::get_if<std::uint64_t>(&value);
    if (whole == nullptr || *whole > std::numeric_limits<std::int64_t>::max()) {
      return wrong(fmt::format("{}: number {} is not a whole one below 2^63", what, into.size()));
    }
    into.push_back(static_cast<std::int64_t>(*whole));
    return {};
  }

  Reason finish_tensor() {
    if (!draft_.has_dtype) return wrong("dtype: is missing");
    if (!draft_.has_shape) return wrong("shape: is missing");
    if (!draft_.has_offsets) return wrong("data_offsets: is missing");
    const std::vector<std::int64_t>& offsets = draft_.offsets;
    if (offsets.size() != 2) {
      return wrong(fmt::format("data_offsets: has {} numbers, expected 2", offsets.size()));
    }
    if (offsets[1] < offsets[0]) {
      return wrong(
          fmt::format("data_offsets: end {} lies before begin {}", offsets[1], offsets[0]));
    }
    draft_.entry.begin = offsets[0];
    draft_.entry.bytes = offsets[1] - offsets[0];
    made_.tensors.push_back(std::move(draft_.entry));
    return {};
  }

  Header made_;
  At at_ = At::start;
  std::size_t ignored_depth_ = 0;  // inside a member that the format does not know
  std::string key_;
  std::string member_;
  Draft draft_;
};

// The reference reader's checks of spans: in order of their bytes each starts where the last ended.
Reason misplaced(const Header& header, std::int64_t data_bytes) {
  std::int64_t end = 0;
  for (const TensorEntry& entry : header.tensors) {
    if (entry.begin != end) {
      return Reason(fmt::format("{}: data_offsets: begins at {}, expected {} (no hole, no overlap)",
                                in_quotes(entry.name), entry.begin, end));
    }
    const std::optional<std::int64_t> bytes = bytes_of(entry.element, entry.extents);
    if (!bytes) {
      return Reason(fmt::format("{}: shape: {} has no whole number of bytes below 2^63",
                                in_quotes(entry.name), in_quotes(text(entry))));
    }
    if (*bytes != entry.bytes) {
      return Reason(fmt::format("{}: data_offsets: span {} bytes, but {} is {}",
                                in_quotes(entry.name), entry.bytes, in_quotes(text(entry)),
                                *bytes));
    }
    end += entry.bytes;  // begin + bytes was an offset below 2^63
    if (end > data_bytes) {
      return Reason(fmt::format("{}: data_offsets: ends at {}, the file has {} bytes of tensors",
                                in_quotes(entry.name), end, data_bytes));
    }
  }
  if (end == data_bytes) return {};
  return Reason(
      fmt::format("the tensors end at {}, the file has {} bytes of them", end, data_bytes));
}

}  // namespace

std::string_view name(Element element) {
  return element_rows[static_cast<std::size_t>(element)].name;
}

std::int64_t bits(Element element) { return element_rows[static_cast<std::size_t>(element)].bits; }

std::optional<Element> element_of(std::string_view name) {
  for (std::size_t i = 0; i < element_rows.size(); ++i) {
    if (element_rows[i].name == name) return static_cast<Element>(i);
  }
  return {};
}

Element element_of(Dtype dtype) { return element_of(slicecheck::name(dtype)).value(); }

std::optional<std::int64_t> bytes_of(Element element, const Extents& extents) {
  std::int64_t product = bits(element);
  // As the reference: elements first, so that [2^40, 2^40, 0] has too many and [0, 2^62] has none.
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) {
    if (__builtin_mul_overflow(elements, extent, &elements)) return {};
  }
  if (__builtin_mul_overflow(product, elements, &product) || product % 8 != 0) return {};
  return product / 8;
}

Result<Header> header_of(std::string_view text, std::int64_t data_bytes) {
  if (!text.starts_with('{')) return Reason("header: does not begin with '{'");
  HeaderEvents events;
  Reason reason = read_json(text, events);
  if (reason) return Reason(fmt::format("header: {}", reason.text()));
  Header made = events.take();
  std::stable_sort(made.tensors.begin(), made.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
                   });
  reason = misplaced(made, data_bytes);
  if (reason) return Reason(fmt::format("header: {}", reason.text()));
  return made;
}

std::string header_text(const Header& header) {
  std::string made = "{";
  const auto separate = [&made] { made += made.size() > 1 ? ", " : ""; };
  if (!header.metadata.empty()) {
    std::string members;
    for (const auto& [key, value] : header.metadata) {
      members +=
          fmt::format("{}{}: {}", members.empty() ? "" : ", ", json_text(key), json_text(value));
    }
    made += fmt::format("\"{}\": {{{}}}", metadata_key, members);
  }
  for (const TensorEntry& entry : header.tensors) {
    separate();
    made += fmt::format(R"({}: {{"dtype": "{}", "shape": {}, "data_offsets": [{}, {}]}})",
                        json_text(entry.name), name(entry.element), text(entry.extents),
                        entry.begin, entry.begin + entry.bytes);
  }
  return made + "}";
}

}  // namespace slicecheck::checkpoint
