#include "base/printable.h"

namespace slicecheck {

std::string printable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string made;
  for (const char c : text) {
    if (c >= ' ' && c <= '~') {
      made += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      made += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return made;
}

}  // namespace slicecheck
