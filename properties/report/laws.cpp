// The laws of the report: whatever it holds, it fits its schema and comes back as it was.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "properties/law.h"
#include "properties/report/schema.h"

namespace slicecheck::properties {
namespace {

using report::Fields;

/// Reports of a case, drawn from its seed word by word.
class Writer {
 public:
  explicit Writer(const Case& given)
      : shape_(given.shape), key_(layout::word_key(given.payload.seed, 0, 13)) {}

  report::Report report() {
    report::Report made;
    made.command = one_of({"reshard", "verify", "audit", "properties", "mutants", "bench"});
    made.verdict = static_cast<report::Verdict>(below(8));
    made.run_case = fields();
    const std::int64_t checks = 1 + below(4);  // a run that has passed has checked something
    for (std::int64_t i = 0; i < checks; ++i) made.checks.push_back(check());
    for (std::int64_t i = below(4); i > 0; --i) made.findings.push_back(finding());
    for (std::int64_t i = below(3); i > 0; --i) made.probes.push_back(probe());
    for (int rank = 0; rank < shape_.tp; ++rank) {
      made.ranks.push_back({rank, natural(9), text(), text(), below(shape_.experts), fields()});
    }
    made.run = {fields(), real(), {{text(), real()}, {text(), real()}}, fields()};
    return made;
  }

 private:
  std::uint64_t word() { return layout::weight_word(key_, next_++); }
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(word() % static_cast<std::uint64_t>(end));
  }
  int natural(int end) { return static_cast<int>(below(end)); }

  std::string one_of(const std::vector<std::string>& words) {
    return words[static_cast<std::size_t>(below(std::ssize(words)))];
  }

  // Any letters that JSON must escape, and some beyond ASCII; never empty.
  std::string text() {
    std::string made = "a";
    for (std::int64_t i = below(6); i > 0; --i) {
      made += one_of({"b", "\"", "\\", "\n", "\t", "\x01", "/", "\xc3\xa9", "\xe6\xbc\xa2",
                      "\xf0\x9f\x98\x80", "{", "]", ": ,", "\x7f"});
    }
    return made;
  }

  std::string hex(std::int64_t bytes) {
    std::string made;
    for (std::int64_t i = 0; i < bytes; ++i) made += fmt::format("{:02x}", below(256));
    return made;
  }

  // Any finite number of any order.
  double real() {
    const double made = std::bit_cast<double>(word());
    return std::isfinite(made) ? made : 0.5;
  }

  report::Value value() {
    switch (below(5)) {
      case 0:
        return static_cast<std::int64_t>(word());
      case 1:  // what a signed number cannot hold
        return word() | std::uint64_t{1} << 63;
      case 2:
        return real();
      case 3:
        return text();
      default:
        return below(2) == 1;
    }
  }

  Fields fields() {
    Fields made;
    for (std::int64_t i = below(4); i > 0; --i)
      made.emplace_back(fmt::format("{}{}", text(), i), value());
    return made;
  }

  report::Check check() {
    report::Check made;
    made.id = one_of({"shape", "bytes.w13", "scalars.g1_alphas", "law.Rows.any", "control.w2_sf"});
    made.group = natural(3);
    made.layer = below(100);
    made.status = static_cast<report::Status>(below(5));
    made.compared = below(std::numeric_limits<std::int64_t>::max());
    made.differing = below(1000);
    made.text = below(2) == 0 ? "" : text();
    made.figures = fields();
    return made;
  }

  report::Logical logical(bool seeded) {
    report::Logical made{one_of({"w1", "w2", "w3"}),
                         below(shape_.experts),
                         below(shape_.hidden),
                         below(shape_.intermediate),
                         {}};
    if (seeded) made.seed = word();
    return made;
  }

  report::First first() {
    report::First made{natural(static_cast<int>(shape_.tp)),
                       "w2_sf",
                       below(shape_.experts),
                       below(shape_.hidden),
                       below(640),
                       below(1 << 30),
                       hex(below(17)),
                       hex(below(17)),
                       {},
                       {},
                       below(3) == 0};
    if (below(2) == 0) made.logical = logical(false);
    if (!made.ambiguous && below(2) == 0) made.origin = logical(below(2) == 0);
    return made;
  }

  report::Finding finding() {
    report::Finding made;
    made.cause = one_of({"gate-up-swapped", "scales-8x4", "unexplained"});
    made.severity = static_cast<report::Severity>(below(2));
    made.side = static_cast<report::Side>(below(5));
    made.text = text();
    for (std::int64_t i = below(4); i > 0; --i) made.tensors.push_back(text());
    for (int rank = 0; rank < shape_.tp; rank += 1 + natural(3)) made.ranks.push_back(rank);
    for (std::int64_t e = below(4); e < shape_.experts; e += 1 + below(3))
      made.experts.push_back(e);
    made.layer = below(100);
    made.group = natural(3);
    made.explained = static_cast<double>(below(1 << 20)) / (1 << 20);
    for (std::int64_t i = below(3); i > 0; --i) made.also_possible.push_back(text());
    if (below(2) == 0) made.first = first();
    return made;
  }

  report::Probe probe() {
    report::Probe made{one_of({"random", "exact"}), natural(3), real(), real(), real(), {}, {}};
    if (below(2) == 0) made.worst_route = {below(99), below(8), below(shape_.experts), real()};
    if (below(2) == 0) made.worst_expert = {below(shape_.experts), real(), real()};
    return made;
  }

  layout::Shape shape_;
  std::uint64_t key_;
  std::int64_t next_ = 0;
};

// Numbers that JSON has not stand as text; that text comes back as it was, too.
Reason unlike_with_no_numbers(report::Report made, const Subject& subject) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  made.run.seconds = std::numeric_limits<double>::quiet_NaN();
  made.run.environment.emplace_back("no number", -infinity);
  made.probes.push_back({"random", 0, infinity, std::nan(""), -infinity, {}, {}});
  const std::string text = subject.report_json(made);
  Reason reason = unfit(text);
  if (reason) return reason;
  const Result<report::Report> back = report::parsed(text);
  if (back.reason) return back.reason;
  if (report::json(*back) == text) return {};
  return Reason("a report with numbers that JSON has not is another after a round trip");
}

Reason comes_back_as_it_was(const Case& given, const Subject& subject) {
  const report::Report made = Writer(given).report();
  const std::string text = subject.report_json(made);
  Reason reason = unfit(text);
  if (reason) return reason;
  const Result<report::Report> back = report::parsed(text);
  if (back.reason) return back.reason;
  if (*back != made) return Reason("a report is another after a round trip");
  return unlike_with_no_numbers(made, subject);
}

}  // namespace

std::vector<Law> report_laws() {
  using enum Dimension;
  return {{"Report.fits_its_schema_and_comes_back_as_it_was",
           Draw::valid,
           {tp, experts_per_rank},
           comes_back_as_it_was}};
}

}  // namespace slicecheck::properties
