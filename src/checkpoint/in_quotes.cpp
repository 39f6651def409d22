#include "checkpoint/in_quotes.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace slicecheck::checkpoint {
namespace {

constexpr std::size_t shown_max = 120;

std::string shortened(std::string_view text) {
  if (text.size() <= shown_max) return printable(text);
  return printable(text.substr(0, shown_max / 2)) + "..." +
         printable(text.substr(text.size() - shown_max / 2));
}

}  // namespace

std::string in_quotes(std::string_view text) { return fmt::format("'{}'", shortened(text)); }

std::string shown(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  std::size_t cut = path.rfind('/');
  if (cut != std::string_view::npos && cut > 0) cut = path.rfind('/', cut - 1);
  if (cut != std::string_view::npos && cut + 1 < path.size()) path.remove_prefix(cut + 1);
  return shortened(path);
}

}  // namespace slicecheck::checkpoint
