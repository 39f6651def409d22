#include "app/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "app/command.h"
#include "app/verdicts.h"
#include "base/must.h"
#include "group/agree.h"
#include "group/launch.h"
#include "group/nccl/nccl_group.h"

namespace slicecheck::app {
namespace {

struct CommandRow {
  std::string_view name;
  CommandBody body;
};

constexpr std::array<CommandRow, 7> commands{{
    {"audit", audit_command},
    {"bench", bench_command},
    {"mutants", mutants_command},
    {"properties", properties_command},
    {"replay", replay_command},
    {"reshard", reshard_command},
    {"verify", verify_command},
}};

/// What was asked for, as options and as text to be compared over the ranks.
struct CommandLine {
  Result<Options> options;
  std::string text;
  std::string report;  // of --report, also where the rest cannot be read
  const Parts& parts;
};

/// Ranks of a run without a launcher where the options give no number: verify reads files, and one
/// process does that for all ranks of a dump; replay has as many as its case.
int local_ranks(const Options& options) {
  if (options.ranks > 0) return options.ranks;
  if (options.command == "replay") return ranks_of_case(options);
  return options.command == "verify" ? 1 : 4;
}

/// The whole command line of this rank, to be compared over the ranks.
std::string joined(int argc, const char* const* argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) text += fmt::format("{}{}", i == 1 ? "" : " ", argv[i]);
  return text;
}

/// Where --report wants the report, in a command line that cannot be read; or the default.
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

/// Options of a command line that cannot be read: only where the report goes.
Options reporting_only(const CommandLine& line) {
  Options made;
  made.report = line.report;
  return made;
}

/// Why this rank's command line is not the one that most ranks have; or nothing. Collective.
Reason unlike_the_others(group::Group& world, const std::string& mine) {
  const std::vector<std::string> all = group::share_texts(world, mine);
  const auto votes = [&](const std::string& text) {
    return std::count(all.begin(), all.end(), text);
  };
  const std::string most = *std::max_element(
      all.begin(), all.end(),
      [&](const std::string& a, const std::string& b) { return votes(a) < votes(b); });
  if (mine == most) return {};
  return Reason(fmt::format("rank {} was given the options \"{}\", the others \"{}\"", world.rank(),
                            mine, most),
                "shape-differs-across-ranks");
}

Reason uneven(const Options& options, int ranks) {
  // An audit asks what tp would do, whatever ranks read the checkpoint.
  if (options.tp == 0 || options.command == "audit" || ranks % options.tp == 0) return {};
  return Reason(fmt::format("--tp {} does not divide the launch's {} ranks", options.tp, ranks));
}

/// Every rank's part on every rank, as one report. Collective.
report::Report gathered(group::Group& world, const report::Report& mine) {
  std::vector<report::Report> parts;
  for (const std::string& text : group::share_texts(world, report::json(mine))) {
    Result<report::Report> part = report::parsed(text);
    if (part.reason) bug(fmt::format("a rank's part is no report: {}", part.reason.text()));
    parts.push_back(std::move(*part));
  }
  return report::merged(parts);
}

/// Writes the report and prints it; why the one or the other could not be done. Rank 0 only.
Reason published(report::Report whole, const Options& options) {
  Reason reason = report::write(whole, options.report);
  if (reason) whole.verdict = report::Verdict::error;
  const std::string line = fmt::format("verdict: {}\n", report::name(whole.verdict));
  if (!options.quiet) {
    const std::string text = report::table(whole);
    fmt::print("{}", text.substr(0, text.size() - line.size()));
    if (!reason) fmt::print("report: {}\n", options.report);
  }
  fmt::print("{}", line);
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!printed && !reason) reason = Reason("standard output cannot be written");
  return reason;
}

/// Ends a run on every rank: the parts gathered, the report written by rank 0, the same exit code
/// everywhere. Collective.
int finished(group::Group& world, const Options& options, report::Report mine) {
  report::Report whole = gathered(world, mine);
  Reason reason;
  if (world.rank() == 0) {
    for (const std::string& line : error_lines(whole)) fmt::print(stderr, "slicecheck: {}\n", line);
    reason = published(whole, options);
    if (reason) fmt::print(stderr, "slicecheck: {}\n", reason.text());
  }
  const bool unwritten = static_cast<bool>(group::agree(world, reason));
  return report::exit_code(unwritten ? report::Verdict::error : whole.verdict);
}

report::Report body_of(Context& context) {
  const auto row = std::find_if(commands.begin(), commands.end(), [&](const CommandRow& r) {
    return r.name == context.options.command;
  });
  must(row != commands.end(), "a command that is parsed and not known");
  report::Report mine = row->body(context);
  mine.verdict = report::worst(mine.verdict, report::verdict_of(mine));
  return mine;
}

/// This rank's tp group over the transport that was asked for. Collective over the world.
std::unique_ptr<group::Group> parted(group::Group& world, const Place& place,
                                     const Options& options, int color) {
  if (options.transport != Transport::nccl) return world.split(color);
  const std::chrono::milliseconds limit(static_cast<std::int64_t>(1000 * options.timeout));
  return group::nccl_group(world,
                           {place.host_rank, place.host_ranks, color, options.share_gpu, limit});
}

/// The report of a rank that is left behind.
report::Report hung(const Options& options, const group::Lost& lost) {
  report::Report made;
  made.command = options.command;
  made.verdict = report::Verdict::hung;
  report::Finding finding;
  finding.cause = "rank-lost";
  finding.side = report::Side::machine;
  finding.text = lost.what();
  made.findings = {std::move(finding)};
  return made;
}

/// One rank's run, from the first agreement to the exit code. Collective over the world.
int run_rank(group::Group& world, const Place& place, const CommandLine& line) {
  const Result<Options>& options = line.options;
  Progress progress(world.rank() == 0);
  const Options known = options.value.value_or(reporting_only(line));
  report::Report mine;
  std::unique_ptr<group::Group> part;
  try {
    group::refuse_together(world, options.reason, "usage");
    group::refuse_together(world, unlike_the_others(world, line.text), "the ranks disagree");
    group::refuse_together(world, uneven(known, world.size()), "usage");
    Reason reason = world.rank() == 0 ? report::unwritable(known.report) : Reason();
    if (group::agree(world, reason)) {
      if (reason) fmt::print(stderr, "slicecheck: {}\n", reason.text());
      return report::exit_code(report::Verdict::error);
    }
    const bool whole = known.tp == 0 || known.command == "audit";
    const int tp = whole ? world.size() : static_cast<int>(known.tp);
    const int group_number = world.rank() / tp;
    part = parted(world, place, known, group_number);
    Context context{world, *part,    group_number,       known,
                    place, progress, line.parts.engines, line.parts.subject};
    mine = body_of(context);
  } catch (const group::Lost& lost) {
    // The group has ended: nobody is left to agree with, so whoever is still here says why.
    const Reason unwritten = report::write(hung(known, lost), known.report);
    if (unwritten) fmt::print(stderr, "slicecheck: {}\n", unwritten.text());
    group::lose(lost.rank(), lost.what());
  } catch (const group::Refusal& refusal) {
    const int in_group = part ? part->rank() : world.rank();
    const int number = part ? world.rank() / part->size() : 0;
    mine = refused(refusal, {world.rank(), number, in_group, world.size()});
  }
  mine.command = known.command.empty() ? "reshard" : known.command;
  mine.run.versions = versions(place);
  mine.run.environment = environment();
  mine.run.seconds = progress.seconds();
  mine.run.timings = progress.timings();
  return finished(world, known, std::move(mine));
}

/// Every rank's run, as threads or over MPI.
int run_ranks(const Result<Options>& options, const RankMain& body) {
  const bool launched = group::launch().has_value();
  const Transport asked = options.reason ? Transport::automatic : options->transport;
  if (asked == Transport::local || (asked == Transport::automatic && !launched)) {
    if (options.reason) return run_local_ranks(1, body);
    return run_local_ranks(local_ranks(*options), body);
  }
  const Result<int> code = run_over_mpi(body);
  if (!code.reason) return *code;
  fmt::print(stderr, "slicecheck: {}\n", code.reason.text());
  return report::exit_code(report::Verdict::refused);
}

}  // namespace

int run(int argc, const char* const* argv, const Parts& parts) {
  const CommandLine line{parsed(argc, argv), joined(argc, argv), report_path(argc, argv), parts};
  const Result<Options>& options = line.options;
  if (!options.reason && !options->text.empty()) {
    fmt::print("{}", options->text);
    return 0;
  }
  if (!options.reason && options->command == "report") return report_command(*options);
  const RankMain body = [&](group::Group& world, const Place& place) {
    return run_rank(world, place, line);
  };
  try {
    return run_ranks(options, body);
  } catch (const group::Lost& lost) {
    fmt::print(stderr, "slicecheck: {}\n", lost.what());
    return report::exit_code(report::Verdict::hung);
  } catch (const std::exception& failure) {
    // This rank's alone: it leaves without MPI's end, and the launcher ends the others.
    fmt::print(stderr, "slicecheck: {}\n", failure.what());
    return report::exit_code(report::Verdict::error);
  }
}

}  // namespace slicecheck::app
