#include "report/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace slicecheck::report {
namespace {

struct VerdictRow {
  Verdict verdict;
  std::string_view name;
  int exit_code;
  int badness;  // the worst wins: error, hung, unusable, refused, failed, inconclusive
};

// A run in which something passed and something did not run has passed what it checked, so not-run
// is the least bad beside passed; alone it stays not-run (see verdict_of).
constexpr std::array<VerdictRow, 8> verdict_rows{{
    {Verdict::passed, "passed", 0, 1},
    {Verdict::failed, "failed", 1, 3},
    {Verdict::unusable, "unusable", 2, 5},
    {Verdict::refused, "refused", 3, 4},
    {Verdict::hung, "hung", 4, 6},
    {Verdict::error, "error", 5, 7},
    {Verdict::inconclusive, "inconclusive", 6, 2},
    {Verdict::not_run, "not-run", 77, 0},
}};

const VerdictRow& row(Verdict verdict) {
  return *std::find_if(verdict_rows.begin(), verdict_rows.end(),
                       [&](const VerdictRow& r) { return r.verdict == verdict; });
}

std::string parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Reason unwritable(const std::string& path, int error) {
  return Reason(fmt::format("report {} cannot be written: {}", path, std::strerror(error)));
}

constexpr int reader_wait_ms = 10000;

// Waits for a reader that lags; ETIMEDOUT when it has stopped.
int ready_to_write(int file) {
  struct ::pollfd waiting {
    file, POLLOUT, 0
  };
  return ::poll(&waiting, 1, reader_wait_ms) == 0 ? ETIMEDOUT : 0;
}

// Zero, or the error number of the first call that failed.
int write_all(int file, std::string_view text, Until until) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      if (const int error = ready_to_write(file)) return error;
      continue;
    }
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (until == Until::handed_over) return 0;
  return ::fsync(file) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

}  // namespace

std::string_view name(Verdict verdict) { return row(verdict).name; }
int exit_code(Verdict verdict) { return row(verdict).exit_code; }
Verdict worst(Verdict a, Verdict b) { return row(a).badness >= row(b).badness ? a : b; }

std::string_view name(Status status) {
  constexpr std::array<std::string_view, 5> names{"passed", "failed", "warning", "skipped",
                                                  "not-run"};
  return names[static_cast<std::size_t>(status)];
}

std::string_view name(Side side) {
  constexpr std::array<std::string_view, 5> names{"stock", "tp", "checkpoint", "probe", "machine"};
  return names[static_cast<std::size_t>(side)];
}

Verdict verdict_of(const Report& report) {
  Verdict verdict = Verdict::not_run;
  for (const Check& check : report.checks) {
    const bool control = check.id.starts_with("control.");
    if (check.status == Status::failed) {
      verdict = worst(verdict, control ? Verdict::inconclusive : Verdict::failed);
    } else if (check.status == Status::passed || check.status == Status::warning) {
      verdict = worst(verdict, Verdict::passed);
    }
  }
  for (const Finding& finding : report.findings) {
    if (finding.severity == Severity::error) verdict = worst(verdict, Verdict::failed);
  }
  return verdict;
}

Reason contradictory(const Report& report) {
  const Verdict said = verdict_of(report);
  const bool nothing_passed = report.verdict == Verdict::passed && said == Verdict::not_run;
  if (worst(report.verdict, said) == report.verdict && !nothing_passed) return {};
  return Reason(fmt::format("verdict: is {}, but the checks and findings say {}",
                            name(report.verdict), name(said)));
}

Reason write(const Report& report, const std::string& path, Until until) {
  struct ::stat old {};
  const bool in_place = ::stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode);
  // Of this thread alone: ranks may be threads, and more than one may be the last to speak.
  const std::string temporary = in_place ? path : fmt::format("{}.{}.part", path, ::gettid());
  const int creation = in_place ? 0 : O_CREAT | O_TRUNC;
  // A pipe that nobody reads is none to wait for.
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | creation, 0644);
  if (file < 0) return unwritable(path, errno);
  int error = write_all(file, json(report), until);
  if (::close(file) != 0 && error == 0) error = errno;
  if (in_place) return error == 0 ? Reason() : unwritable(path, error);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error == 0 ? Reason() : unwritable(path, error);
}

Reason unwritable(const std::string& path) {
  if (path.empty()) return unwritable(path, ENOENT);
  const std::string folder = parent(path);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return unwritable(path, errno);
  struct ::stat old {};
  if (::stat(path.c_str(), &old) != 0) return {};
  if (S_ISDIR(old.st_mode)) return unwritable(path, EISDIR);
  // It is not opened: the reader of a pipe would take that for all that comes.
  return ::access(path.c_str(), W_OK) == 0 ? Reason() : unwritable(path, errno);
}

}  // namespace slicecheck::report
