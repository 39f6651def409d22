// The verdict of a run as data: checks, findings, probes, ranks; `slicecheck-report/1` as JSON with
// fixed key order. Two runs of one commit differ only in `run`. Causes are the names of the
// catalogue of faults, check ids those of the contract.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/reason.h"

namespace slicecheck::report {

enum class Verdict { passed, failed, unusable, refused, hung, error, inconclusive, not_run };

/// "passed", ..., "not-run".
std::string_view name(Verdict verdict);

/// 0, 1, 2, 3, 4, 5, 6, 77.
int exit_code(Verdict verdict);

/// The worse of two in the order error, hung, unusable, refused, failed, inconclusive, not-run,
/// passed. (not-run beside passed is passed: something was checked.)
Verdict worst(Verdict a, Verdict b);

/// A number, a text or a flag in the report's open objects.
using Value = std::variant<std::int64_t, std::uint64_t, double, std::string, bool>;
using Fields = std::vector<std::pair<std::string, Value>>;

enum class Status { passed, failed, warning, skipped, not_run };
std::string_view name(Status status);

/// One check: what was compared (bytes or items), how much of it differed.
struct Check {
  std::string id;
  int group = 0;
  std::int64_t layer = 0;
  Status status = Status::not_run;
  std::int64_t compared = 0;
  std::int64_t differing = 0;
  std::string text;
  Fields figures;
  bool operator==(const Check&) const = default;
};

/// A logical place of a byte: projection w1, w2 or w3, global expert, row and column (element) of
/// the plain matrix. `seed` is set for an origin.
struct Logical {
  std::string projection;
  std::int64_t expert = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::optional<std::uint64_t> seed;
  bool operator==(const Logical&) const = default;
};

/// The first wrong place of a finding. `row` and `byte` are the place in the expert's tensor as
/// stored, `offset` counts bytes from the tensor's start on that rank; want and got in hex.
struct First {
  int rank = 0;
  std::string tensor;
  std::int64_t expert = 0;
  std::int64_t row = 0;
  std::int64_t byte = 0;
  std::int64_t offset = 0;
  std::string want;
  std::string got;
  std::optional<Logical> logical;
  std::optional<Logical> origin;
  bool ambiguous = false;  // origin is "ambiguous"
  bool operator==(const First&) const = default;
};

enum class Severity { error, warning };
enum class Side { stock, tp, checkpoint, probe, machine };
std::string_view name(Side side);

/// What is wrong, in one sentence with the numbers. Empty tensors, ranks, experts mean all.
struct Finding {
  std::string cause;
  Severity severity = Severity::error;
  Side side = Side::tp;
  std::string text;
  std::vector<std::string> tensors;
  std::vector<int> ranks;
  std::vector<std::int64_t> experts;
  std::int64_t layer = 0;
  int group = 0;
  double explained = 1.0;
  std::vector<std::string> also_possible;
  std::optional<First> first;
  bool operator==(const Finding&) const = default;
};

struct WorstRoute {
  std::int64_t token = 0;
  std::int64_t k = 0;
  std::int64_t expert = 0;
  double rel_l2 = 0;
  bool operator==(const WorstRoute&) const = default;
};

struct WorstExpert {
  std::int64_t expert = 0;
  double rel_l2 = 0;
  double bound = 0;
  bool operator==(const WorstExpert&) const = default;
};

struct Probe {
  std::string kind;  // random or exact
  int group = 0;
  double rel_l2 = 0;
  double floor = 0;
  double bound = 0;
  std::optional<WorstRoute> worst_route;
  std::optional<WorstExpert> worst_expert;
  bool operator==(const Probe&) const = default;
};

struct RankEntry {
  int rank = 0;
  int group = 0;
  std::string host;
  std::string device;
  std::int64_t first_expert = 0;
  Fields more;
  bool operator==(const RankEntry&) const = default;
};

struct Run {
  Fields versions;
  double seconds = 0;
  std::vector<std::pair<std::string, double>> timings;
  Fields environment;
  bool operator==(const Run&) const = default;
};

struct Report {
  std::string command;
  Verdict verdict = Verdict::not_run;
  Fields run_case;  // "case"
  std::vector<Check> checks;
  std::vector<Finding> findings;
  std::vector<Probe> probes;
  std::vector<RankEntry> ranks;
  Run run;
  bool operator==(const Report&) const = default;
};

/// What the checks and findings say: failed where a check failed, not-run where none ran.
/// A refusal, a hang or an error is for the caller to add with worst().
Verdict verdict_of(const Report& report);

/// Why a report's verdict is not what its checks and findings say, or nothing. A verdict may be
/// worse than they are, and never better; passed needs a check that passed.
Reason contradictory(const Report& report);

/// One report of what ranks found apart: checks of one id, group and layer summed up, the worst
/// status kept; findings that differ in their ranks alone made one, with the lowest rank's place.
Report merged(const std::vector<Report>& parts);

/// Adds the checks, findings and probes of `from` as they are, and keeps the worst verdict.
void append(Report& to, Report from);

/// The report as JSON text, two spaces of indent, a newline at its end.
std::string json(const Report& report);

/// The report that `text` holds. Refuses what is not slicecheck-report/1. A rank's part is one too:
/// its verdict may be still to come (contradictory() says so of a whole report).
Result<Report> parsed(std::string_view text);

/// How long a report is written: until it is on the disk, or until the system has it, which a dying
/// process need not wait for.
enum class Until { on_disk, handed_over };

/// Writes the report by atomic rename (in place to what is no regular file: a device or a pipe); a
/// reason where it cannot be written.
Reason write(const Report& report, const std::string& path, Until until = Until::on_disk);

/// Why a report could not be written to `path`, tried before a run starts; or nothing.
Reason unwritable(const std::string& path);

/// A table that a person can read, the verdict last.
std::string table(const Report& report);

}  // namespace slicecheck::report
