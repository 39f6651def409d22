// What a file says is shown, never trusted: one line, no control characters, no endless names.
#pragma once

#include <string>
#include <string_view>

namespace slicecheck::checkpoint {

/// `text` between single quotes on one line: bytes that are not printable ASCII as \xNN, the middle
/// of what is longer than 120 characters left out.
std::string in_quotes(std::string_view text);

/// `path` as a Reason names it: its last two components, each made printable as by in_quotes().
/// Reports hold no absolute paths.
std::string shown(std::string_view path);

}  // namespace slicecheck::checkpoint
