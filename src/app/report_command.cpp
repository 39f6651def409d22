#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "app/command.h"

namespace slicecheck::app {

int report_command(const Options& options) {
  for (const std::string& path : options.paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const Reason unreadable = file ? Reason() : Reason("cannot be read");
    const Result<report::Report> read =
        unreadable ? Result<report::Report>(unreadable) : report::parsed(text);
    if (read.reason) {
      fmt::print(stderr, "slicecheck: {}: {}\n", path, read.reason.text());
      return report::exit_code(report::Verdict::unusable);
    }
    fmt::print("{}", report::table(*read));
    if (options.exit_code) return report::exit_code(read->verdict);
  }
  return 0;
}

}  // namespace slicecheck::app
