#include "base/must.h"

#include <cstdio>
#include <cstdlib>

namespace slicecheck {

void must(bool held, std::string_view text) {
  if (!held) bug(text);
}

void bug(std::string_view text) {
  std::fprintf(stderr, "slicecheck: internal error: %.*s\n", static_cast<int>(text.size()),
               text.data());
  std::fflush(nullptr);
  std::_Exit(5);
}

}  // namespace slicecheck
