#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "report/report.h"

namespace slicecheck::report {
namespace {

constexpr std::size_t findings_shown = 20;

std::string place_line(const First& first) {
  std::string line = fmt::format(
      "    first: rank {}, {} expert {}, row {}, byte {} (offset {}): want {}, got {}\n",
      first.rank, printable(first.tensor), first.expert, first.row, first.byte, first.offset,
      printable(first.want), printable(first.got));
  if (first.logical) {
    line += fmt::format("    due there: {} of expert {}, row {}, column {}\n",
                        printable(first.logical->projection), first.logical->expert,
                        first.logical->row, first.logical->column);
  }
  if (first.ambiguous) {
    line += "    found there: ambiguous\n";
  } else if (first.origin) {
    line += fmt::format("    found there: {} of expert {}, row {}, column {}\n",
                        printable(first.origin->projection), first.origin->expert,
                        first.origin->row, first.origin->column);
  }
  return line;
}

std::string joined(const std::vector<std::string>& texts) {
  return printable(fmt::format("{}", fmt::join(texts, ", ")));
}

std::string list_of(const Finding& finding) {
  std::string text;
  if (!finding.tensors.empty()) text += fmt::format("; {}", joined(finding.tensors));
  if (!finding.ranks.empty()) text += fmt::format("; ranks {}", fmt::join(finding.ranks, ", "));
  if (!finding.experts.empty()) {
    text += fmt::format("; experts {}", fmt::join(finding.experts, ", "));
  }
  return text;
}

std::string value_text(const Value& value) {
  return printable(std::visit([](const auto& held) { return fmt::format("{}", held); }, value));
}

}  // namespace

std::string table(const Report& report) {
  std::string text = fmt::format("slicecheck {}", printable(report.command));
  for (const auto& [key, value] : report.run_case) {
    text += fmt::format("  {} {}", printable(key), value_text(value));
  }
  text += "\n\n";
  if (!report.checks.empty()) {
    text += fmt::format("  {:<24} {:>5} {:>5}  {:<8} {:>15} {:>12}\n", "check", "group", "layer",
                        "status", "compared", "differing");
  }
  for (const Check& check : report.checks) {
    text += fmt::format("  {:<24} {:>5} {:>5}  {:<8} {:>15} {:>12}{}{}\n", printable(check.id),
                        check.group, check.layer, name(check.status), check.compared,
                        check.differing, check.text.empty() ? "" : "  ", printable(check.text));
  }
  for (const Probe& probe : report.probes) {
    text += fmt::format("  probe {} group {}: rel L2 {:.4g}, floor {:.4g}, bound {:.4g}\n",
                        printable(probe.kind), probe.group, probe.rel_l2, probe.floor, probe.bound);
  }
  if (!report.findings.empty()) text += "\n";
  for (std::size_t i = 0; i < report.findings.size() && i < findings_shown; ++i) {
    const Finding& finding = report.findings[i];
    text += fmt::format(
        "  {} {} ({}{}): {}\n", finding.severity == Severity::error ? "error" : "warning",
        printable(finding.cause), name(finding.side), list_of(finding), printable(finding.text));
    if (!finding.also_possible.empty()) {
      text += fmt::format("    also possible: {}\n", joined(finding.also_possible));
    }
    if (finding.first) text += place_line(*finding.first);
  }
  if (report.findings.size() > findings_shown) {
    text += fmt::format("  and {} more findings in the report\n",
                        report.findings.size() - findings_shown);
  }
  text += fmt::format("\nverdict: {}\n", name(report.verdict));
  return text;
}

}  // namespace slicecheck::report
