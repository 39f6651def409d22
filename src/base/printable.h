// What comes from outside is shown on one line, whatever it holds.
#pragma once

#include <string>
#include <string_view>

namespace slicecheck {

/// `text` with every byte that is no printable ASCII character as \xNN.
std::string printable(std::string_view text);

}  // namespace slicecheck
