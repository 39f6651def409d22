// A broken promise of our own code ends the process with its numbers: it is never a refusal.
#pragma once

#include <string_view>

namespace slicecheck {

/// Ends the process with exit code 5 and `text` on stderr unless `held`. On in every build.
void must(bool held, std::string_view text);

/// Ends the process with exit code 5 and `text` on stderr.
[[noreturn]] void bug(std::string_view text);

}  // namespace slicecheck
