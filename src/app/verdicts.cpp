#include "app/verdicts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/printable.h"
#include "group/nccl/nccl_group.h"
#include "memory/cuda/device.h"

namespace slicecheck::app {
namespace {

constexpr std::array<std::string_view, 8> machine_causes{
    "no-device",    "out-of-memory",  "duplicate-gpu", "world-of-one",
    "version-skew", "count-overflow", "size-mismatch", "limits-too-low"};

// The faults that refuse (exit code 3) when they are found in the stock.
constexpr std::array<std::string_view, 5> refusing_causes{
    "shape-unsupported", "shape-differs-across-ranks", "not-linear-placement",
    "input-scale-differs-across-ranks", "scale-not-finite-positive"};

template <std::size_t size>
bool is_one_of(const std::array<std::string_view, size>& causes, std::string_view cause) {
  return std::find(causes.begin(), causes.end(), cause) != causes.end();
}

// What may show of a run's environment: settings of the transports, no names of people or places.
constexpr std::array<const char*, 6> shown_variables{"OMPI_COMM_WORLD_SIZE", "OMP_NUM_THREADS",
                                                     "CUDA_VISIBLE_DEVICES", "NCCL_NVLS_ENABLE",
                                                     "NCCL_P2P_DISABLE",     "NCCL_SOCKET_IFNAME"};

// 13010 as "13.1".
std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// What a reason says of itself; else a cause of the machine is its, and any other the stock's.
report::Side side_of(const Reason& reason) {
  using report::Side;
  for (const Side side : {Side::stock, Side::tp, Side::checkpoint, Side::probe, Side::machine}) {
    if (report::name(side) == reason.where().side) return side;
  }
  return is_one_of(machine_causes, reason.cause()) ? Side::machine : Side::stock;
}

report::Finding finding_of(const Reason& reason, int rank, int group_number) {
  report::Finding made;
  const Where& where = reason.where();
  made.cause = reason.cause();
  made.side = side_of(reason);
  made.text = reason.text();
  made.ranks = {where.rank >= 0 ? static_cast<int>(where.rank) : rank};
  made.group = where.group >= 0 ? static_cast<int>(where.group) : group_number;
  if (where.layer >= 0) made.layer = where.layer;
  if (where.expert >= 0) made.experts = {where.expert};
  if (!where.tensor.empty()) made.tensors = {where.tensor};
  return made;
}

}  // namespace

report::Report refused(const group::Refusal& refusal, const RankPlace& rank) {
  const group::Agreed& agreed = refusal.agreed();
  const int own = agreed.size == rank.world_size ? rank.rank : rank.rank_in_group;
  report::Report made;
  made.verdict = report::Verdict::refused;
  made.run_case = {{"refusal", std::string(refusal.what())}};
  for (const group::RankReason& each : agreed.reasons) {
    const std::string& cause = each.reason.cause();
    const bool refuses = is_one_of(machine_causes, cause) || is_one_of(refusing_causes, cause);
    if (!refuses) made.verdict = report::Verdict::unusable;
    if (each.rank != own) continue;
    if (!cause.empty()) {
      made.findings.push_back(finding_of(each.reason, rank.rank, rank.group_number));
    } else {
      made.checks.push_back(
          {"input", rank.group_number, 0, report::Status::failed, 1, 1, each.reason.text(), {}});
    }
  }
  return made;
}

std::vector<std::string> error_lines(const report::Report& report) {
  const bool ended =
      report.verdict == report::Verdict::refused || report.verdict == report::Verdict::unusable;
  for (const auto& [key, value] : report.run_case) {
    if (ended && key == "refusal") return {std::get<std::string>(value)};
  }
  if (report.verdict != report::Verdict::error) return {};
  for (const report::Check& check : report.checks) {
    if (check.status == report::Status::failed) return {check.text};
  }
  return {};
}

void complain(std::string_view line) {
  const std::string text = fmt::format("slicecheck: {}\n", printable(line));
  std::fputs(text.c_str(), stderr);
}

void guard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is one that cannot be written
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Opened in order, it takes the lowest number: the stream's own.
    const int mode = stream == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", mode) != stream) return;
  }
}

Reason printed(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  const bool taken = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return taken ? Reason() : Reason("standard output cannot be written");
}

int said(const std::string& text, int code) {
  const Reason reason = printed(text);
  if (!reason) return code;
  complain(reason.text());
  return report::exit_code(report::Verdict::error);
}

report::Fields versions(const Place& place) {
  report::Fields made = {{"slicecheck", std::string(SLICECHECK_VERSION)},
                         {"compiler", std::string(__VERSION__)}};
  if (!place.mpi_version.empty()) made.emplace_back("mpi", place.mpi_version);
  const memory::CudaVersions cuda = memory::cuda_versions();
  if (cuda.driver != 0) made.emplace_back("cuda_driver", cuda_version_text(cuda.driver));
  if (cuda.runtime != 0) made.emplace_back("cuda_runtime", cuda_version_text(cuda.runtime));
  const int nccl = group::nccl_version();
  if (nccl != 0) made.emplace_back("nccl", group::nccl_version_text(nccl));
  return made;
}

report::Fields environment() {
  report::Fields made;
  for (const char* name : shown_variables) {
    if (const char* value = std::getenv(name)) made.emplace_back(name, std::string(value));
  }
  return made;
}

std::string check_failed_by(const report::Finding& finding, const std::string& tensor) {
  if (finding.cause.starts_with("block-scale-")) return "scales.block";
  if (finding.side == report::Side::checkpoint) return "scales.relation";
  if (tensor == "a1_gscale" || tensor == "a2_gscale") return "scales.global";
  const bool scalar = tensor.starts_with("g1_") || tensor.starts_with("g2_");
  if (!scalar) return "bytes." + tensor;
  return finding.side == report::Side::stock ? "scales.relation" : "scalars." + tensor;
}

}  // namespace slicecheck::app
