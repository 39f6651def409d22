#include <fmt/format.h>

#include <cstdio>

#include "app/command.h"
#include "app/verdicts.h"
#include "app/watch.h"
#include "checkpoint/file.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::app {
namespace {

constexpr std::int64_t report_bytes_max = std::int64_t{256} << 20;

int unusable(const std::string& why) {
  complain(why);
  return report::exit_code(report::Verdict::unusable);
}

int journals_command(const Options& options) {
  const Result<report::Report> whole = from_journals(options.journals, checks_of);
  const Reason reason = whole.reason ? whole.reason : report::write(*whole, options.report);
  if (reason) {
    complain(reason.text());
    return report::exit_code(whole.reason ? report::Verdict::unusable : report::Verdict::error);
  }
  return said(report::table(*whole), options.exit_code ? report::exit_code(whole->verdict) : 0);
}

}  // namespace

int report_command(const Options& options) {
  if (!options.journals.empty()) return journals_command(options);
  std::string tables;
  report::Verdict worst = report::Verdict::not_run;
  for (const std::string& path : options.paths) {
    const Result<std::string> text = checkpoint::text_of(path, report_bytes_max);
    if (text.reason) return unusable(text.reason.text());
    const Result<report::Report> read = report::parsed(*text);
    const Reason wrong = read.reason ? read.reason : report::contradictory(*read);
    if (wrong) return unusable(fmt::format("{}: {}", checkpoint::shown(path), wrong.text()));
    tables += report::table(*read);
    worst = report::worst(worst, read->verdict);
  }
  return said(tables, options.exit_code ? report::exit_code(worst) : 0);
}

}  // namespace slicecheck::app
