#include "app/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "group/launch.h"

namespace slicecheck::app {
namespace {

std::string joined(int argc, const char* const* argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) text += fmt::format("{}{}", i == 1 ? "" : " ", argv[i]);
  return text;
}

std::string report_path(int argc, const char* const* argv) {
  constexpr std::string_view option = "--report";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == option && i + 1 < argc) return argv[i + 1];
    if (word.starts_with(option) && word.substr(option.size()).starts_with("=")) {
      return std::string(word.substr(option.size() + 1));
    }
  }
  return Options{}.report;
}

// Each process of a launch would have all ranks of `local`, and they would write one report over
// the other. A batch script under Slurm looks like a launch and is none.
Result<Options> parsed_for_launch(int argc, const char* const* argv) {
  Result<Options> options = parsed(argc, argv);
  const std::optional<group::Launch> launch = group::launch();
  const bool processes = launch && launch->ranks > 1 && launch->by != "Slurm";
  if (!processes || options.reason || options->transport != Transport::local) return options;
  return Reason(fmt::format("--transport local has its ranks in one process, {} started {}",
                            launch->by, launch->ranks));
}

}  // namespace

Options CommandLine::known() const {
  if (!options.reason) return *options;
  Options made;
  made.report = report;
  made.command = command;
  return made;
}

CommandLine command_line(int argc, const char* const* argv,
                         const std::function<bool(std::string_view)>& is_command) {
  const char* const* end = argv + argc;
  const char* const* named = std::find_if(argv + 1, end, is_command);
  return {parsed_for_launch(argc, argv), joined(argc, argv), report_path(argc, argv),
          named == end ? std::string() : *named};
}

}  // namespace slicecheck::app
