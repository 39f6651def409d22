#include <fmt/format.h>

#include <cstdio>

#include "app/command.h"
#include "checkpoint/file.h"

namespace slicecheck::app {
namespace {

constexpr std::int64_t report_bytes_max = std::int64_t{256} << 20;

}  // namespace

int report_command(const Options& options) {
  for (const std::string& path : options.paths) {
    const Result<std::string> text = checkpoint::text_of(path, report_bytes_max);
    const Result<report::Report> read =
        text.reason ? Result<report::Report>(text.reason) : report::parsed(*text);
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
