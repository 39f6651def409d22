// The header of a safetensors file as text, read and written.
#pragma once

#include "checkpoint/safetensors.h"

namespace slicecheck::checkpoint {

/// What a header says.
struct Header {
  std::vector<TensorEntry> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// The header that `text` holds, checked against `data_bytes` bytes of tensors behind it.
Result<Header> header_of(std::string_view text, std::int64_t data_bytes);

/// The header's text without its padding; begins and bytes as they stand in the entries.
std::string header_text(const Header& header);

/// Bytes of a tensor of these extents; nothing where they are no whole number below 2^63.
std::optional<std::int64_t> bytes_of(Element element, const Extents& extents);

}  // namespace slicecheck::checkpoint
