// The command line of one process: its options, and what can be told of it where they cannot be
// read.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "app/options.h"
#include "base/reason.h"

namespace slicecheck::app {

struct CommandLine {
  Result<Options> options;
  std::string text;     // the whole of it, to be compared over the ranks
  std::string report;   // of --report, also where the rest cannot be read; or the default
  std::string command;  // that is named, likewise; or empty

  /// The options; where they cannot be read, only what the report is called and where it goes.
  Options known() const;
};

/// The command line of this process, which may be one of a launch; `is_command` knows the commands'
/// names.
/// Refuses when: an option is wrong, or each process of a launch would have all ranks of `local`.
CommandLine command_line(int argc, const char* const* argv,
                         const std::function<bool(std::string_view)>& is_command);

}  // namespace slicecheck::app
