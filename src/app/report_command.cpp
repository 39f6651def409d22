#include <fmt/format.h>

#include <cstdio>

#include "app/command.h"
#include "checkpoint/file.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::app {
namespace {

constexpr std::int64_t report_bytes_max = std::int64_t{256} << 20;

int unusable(const std::string& why) {
  fmt::print(stderr, "slicecheck: {}\n", why);
  return report::exit_code(report::Verdict::unusable);
}

}  // namespace

int report_command(const Options& options) {
  for (const std::string& path : options.paths) {
    const Result<std::string> text = checkpoint::text_of(path, report_bytes_max);
    if (text.reason) return unusable(text.reason.text());
    const Result<report::Report> read = report::parsed(*text);
    if (read.reason) {
      return unusable(fmt::format("{}: {}", checkpoint::shown(path), read.reason.text()));
    }
    fmt::print("{}", report::table(*read));
    if (options.exit_code) return report::exit_code(read->verdict);
  }
  return 0;
}

}  // namespace slicecheck::app
