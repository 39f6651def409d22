#include "app/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "app/command.h"
#include "app/command_line.h"
#include "app/soak.h"
#include "app/source.h"
#include "app/verdicts.h"
#include "app/watch.h"
#include "base/majority.h"
#include "base/must.h"
#include "group/agree.h"
#include "group/checked_group.h"
#include "group/launch.h"
#include "group/nccl/nccl_group.h"
#include "group/watch/watched_group.h"

namespace slicecheck::app {
namespace {

struct CommandRow {
  std::string_view name;
  CommandBody body;
  std::vector<std::string> (*checks)() = nullptr;
};

constexpr std::array<CommandRow, 8> commands{{
    {"audit", audit_command},
    {"bench", bench_command},
    {"cluster", cluster_command, cluster_checks},
    {"mutants", mutants_command},
    {"properties", properties_command},
    {"replay", replay_command},
    {"reshard", reshard_command, reshard_checks},
    {"verify", verify_command},
}};

/// What was asked for, and what the program is made of.
struct Asked {
  const CommandLine& line;
  const Parts& parts;
};

/// The watchdog of this process, which of its ranks this one is, and what it has moved.
struct Watched {
  Watch& watch;
  int thread = 0;
  group::Moved& moved;
  group::Notes& notes() const { return watch.notes(thread); }
};

/// Ranks of a run without a launcher where the options give no number: verify reads files, and one
/// process does that for all ranks of a dump; replay has as many as its case.
int local_ranks(const Options& options) {
  if (options.ranks > 0) return options.ranks;
  if (options.command == "replay") return ranks_of_case(options);
  return options.command == "verify" ? 1 : 4;
}

/// Why this rank's command line is not the one that most ranks have; or nothing. Collective.
Reason unlike_the_others(group::Group& world, const std::string& mine) {
  const std::vector<std::string> all = group::share_texts(world, mine);
  const std::string most = majority(all);
  if (mine == most) return {};
  return Reason(fmt::format("rank {} was given the options \"{}\", the others \"{}\"", world.rank(),
                            mine, most),
                "shape-differs-across-ranks", {"machine", ""});
}

Reason uneven(const Options& options, int ranks) {
  if (options.ranks != 0 && options.ranks != ranks) {
    return Reason(fmt::format("--ranks {} is not the launch's {} ranks", options.ranks, ranks));
  }
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

/// Writes the report and prints it; why the one or the other could not be done. Rank 0 only. What
/// nobody could read has ended with an error, and the report says so too.
Reason published(report::Report whole, const Options& options) {
  Reason unwritten = report::write(whole, options.report);
  if (unwritten) whole.verdict = report::Verdict::error;
  const std::string line = fmt::format("verdict: {}\n", report::name(whole.verdict));
  std::string text = line;
  if (!options.quiet) {
    const std::string table = report::table(whole);
    const std::string place = unwritten ? "" : fmt::format("report: {}\n", options.report);
    text = table.substr(0, table.size() - line.size()) + place + line;
  }
  Reason unprinted = printed(text);
  if (unwritten || !unprinted) return unwritten;
  whole.verdict = report::Verdict::error;
  Reason again = report::write(whole, options.report);
  return again ? again : unprinted;
}

/// Ends a run on every rank: the parts gathered, the report written by rank 0, the same exit code
/// everywhere. Collective.
int finished(group::Group& world, const Options& options, const report::Report& mine,
             Watch& watch) {
  report::Report whole = gathered(world, mine);
  Reason reason;
  if (world.rank() == 0) {
    for (const std::string& line : error_lines(whole)) complain(line);
    watch.publish([&] { reason = published(whole, options); });
    if (reason) complain(reason.text());
  }
  const bool unwritten = static_cast<bool>(group::agree(world, reason));
  return report::exit_code(unwritten ? report::Verdict::error : whole.verdict);
}

/// The row of a command, or null.
const CommandRow* row_of(std::string_view command) {
  const auto row = std::find_if(commands.begin(), commands.end(),
                                [&](const CommandRow& each) { return each.name == command; });
  return row == commands.end() ? nullptr : &*row;
}

report::Report body_of(Context& context) {
  const CommandRow* row = row_of(context.options.command);
  must(row != nullptr, "a command that is parsed and not known");
  const bool rounds = context.options.repeat > 0 || context.options.seconds > 0;
  report::Report mine = rounds ? soak(context, row->body) : row->body(context);
  mine.verdict = report::worst(mine.verdict, report::verdict_of(mine));
  return mine;
}

/// This rank's tp group over NCCL. Collective over the world.
std::unique_ptr<group::Group> over_devices(group::Group& world, const Place& place,
                                           const Options& options, int color,
                                           const Watched& watched) {
  const std::chrono::milliseconds limit(static_cast<std::int64_t>(1000 * options.timeout));
  std::unique_ptr<group::Group> devices =
      group::nccl_group(world, {place.host_rank, place.host_ranks, color, options.share_gpu, limit,
                                &watched.watch.aborts()});
  return std::make_unique<group::WatchedGroup>(std::move(devices), watched.notes());
}

/// The same over the transport that was asked for; a fresh cluster is looked at before its devices
/// must be a group. Collective over the world.
std::unique_ptr<group::Group> parted(group::Group& world, const Place& place,
                                     const Options& options, int color, const Watched& watched) {
  const bool host = options.transport != Transport::nccl || options.command == "cluster";
  return host ? world.split(color) : over_devices(world, place, options, color, watched);
}

/// Why a launch is none to work in: its ranks do not know each other, or may be lost unseen.
Reason unfit(const group::Group& world) {
  if (world.name() == "local") return {};
  Reason alone = group::alone(world.size());
  return alone ? alone : group::forgiving();
}

/// What the transport did to the bytes that this rank received, in the layer that the run is about.
void add_transport(report::Report& mine, const group::Moved& moved, const Context& context) {
  if (moved.blocks == 0) return;
  const std::int64_t layer = mine.checks.empty() ? 0 : mine.checks.front().layer;
  report::Check check;
  check.id = "transport";
  check.group = context.group_number;
  check.layer = layer;
  check.status = report::Status::passed;
  check.compared = moved.bytes;
  check.differing = static_cast<std::int64_t>(moved.changed_from.size());
  if (check.differing > 0) {
    check.status = report::Status::failed;
    report::Finding finding;
    finding.cause = "transport-corruption";
    finding.side = report::Side::machine;
    finding.group = context.group_number;
    finding.layer = layer;
    const int rank = context.world.rank();
    const int sender = context.first_rank() + moved.changed_from.front();
    finding.ranks = {std::min(sender, rank), std::max(sender, rank)};
    finding.text = fmt::format(
        "{} of {} blocks changed between send and receive, first from rank {} to rank {}",
        check.differing, moved.blocks, sender, rank);
    mine.findings.push_back(std::move(finding));
  }
  mine.checks.push_back(std::move(check));
}

/// Which experts a refused reshard was about, as far as they can be told.
void add_case(report::Report& refused, const Options& options, int tp) {
  if (options.command != "reshard") return;
  const Result<Source> source = source_of(options, tp);
  if (source.reason) return;
  for (const auto& [name, value] :
       {std::pair<const char*, std::int64_t>{"experts", source->shape.experts},
        {"hidden", source->shape.hidden},
        {"intermediate", source->shape.intermediate},
        {"tp", source->shape.tp}}) {
    refused.run_case.emplace_back(name, value);
  }
}

/// What the report says was run; a command line that cannot be read may name nothing.
std::string command_of(const Options& options) {
  return options.command.empty() ? "reshard" : options.command;
}

/// What needs no ranks and no report of its own: a text, and a view of reports. A command line that
/// cannot be read is neither.
bool of_rank_0(const CommandLine& line) {
  return !line.options.reason && (!line.options->text.empty() || line.options->command == "report");
}

int said_alone(const Options& options) {
  return options.text.empty() ? report_command(options) : said(options.text, 0);
}

/// What a launch of several ranks says once; its exit code on every rank. Collective.
int said_by_rank_0(group::Group& world, const Options& options) {
  constexpr int codes_end = 1 << 8;
  return static_cast<int>(world.least(world.rank() == 0 ? said_alone(options) : codes_end));
}

/// One rank's run, from the first agreement to the exit code. Collective over the world.
int run_rank(group::Group& world, const Place& place, const Asked& asked, const Watched& watched) {
  const CommandLine& line = asked.line;
  Progress progress(world.rank() == 0, watched.notes());
  const Options known = line.known();
  report::Report mine;
  std::unique_ptr<group::Group> part;
  try {
    group::refuse_together(world, line.options.reason, "usage");
    group::refuse_together(world, unlike_the_others(world, line.text), "the ranks disagree");
    group::refuse_together(world, uneven(known, world.size()), "usage");
    if (of_rank_0(line)) return said_by_rank_0(world, known);
    group::refuse_together(world, unfit(world), "usage");
    Reason reason = world.rank() == 0 ? report::unwritable(known.report) : Reason();
    if (group::agree(world, reason)) {
      if (reason) complain(reason.text());
      return report::exit_code(report::Verdict::error);
    }
    const bool whole = known.tp == 0 || known.command == "audit";
    const int tp = whole ? world.size() : static_cast<int>(known.tp);
    const auto keep = [&](const report::Report& found) {
      watched.watch.keep(watched.thread, found);
    };
    const auto stuck = [&](const report::Report& found) {
      watched.watch.keep(watched.thread, found);
      watched.watch.end(group::Trigger::no_progress, world.rank(), "");
    };
    const int group_number = world.rank() / tp;
    part = parted(world, place, known, group_number, watched);
    const auto devices = [&] { return over_devices(world, place, known, group_number, watched); };
    Context context{world,
                    *part,
                    group_number,
                    known,
                    place,
                    progress,
                    asked.parts.engines,
                    asked.parts.subject,
                    keep,
                    stuck,
                    devices};
    mine = body_of(context);
    add_transport(mine, watched.moved, context);
    mine.verdict = report::worst(mine.verdict, report::verdict_of(mine));
  } catch (const group::Refusal& refusal) {
    const int in_group = part ? part->rank() : world.rank();
    const int number = part ? world.rank() / part->size() : 0;
    mine = refused(refusal, {world.rank(), number, in_group, world.size()});
    mine.ranks = {{world.rank(), number, place.host, "", 0, {}}};
    const int all = known.tp > 0 ? static_cast<int>(known.tp) : world.size();
    // A command line that cannot be read says nothing of its experts.
    if (!line.options.reason) add_case(mine, known, part ? part->size() : all);
  }
  mine.command = command_of(known);
  mine.run.versions = versions(place);
  mine.run.environment = environment();
  mine.run.seconds = progress.seconds();
  mine.run.timings = progress.timings();
  watched.notes().phase("report");
  return finished(world, known, mine, watched.watch);
}

/// run_rank() over a group whose calls are noted, and disturbed where a test wants it.
int run_watched(group::Group& world, const Place& place, const Asked& asked,
                const Watched& watched) {
  group::WatchedGroup noted(world, watched.notes());
  std::unique_ptr<group::Group> disturbed;
  if (asked.parts.decorate) disturbed = asked.parts.decorate(noted, watched.notes());
  group::Group& seen = disturbed ? *disturbed : noted;
  // Rates are measured over the bare transport.
  const std::string command = asked.line.known().command;
  const bool measured = command == "bench" || command == "cluster";
  group::CheckedGroup checked(seen, watched.moved);
  watched.watch.keep(watched.thread, {});
  const int code = run_rank(measured ? seen : checked, place, asked, watched);
  // All have come to the same end: whoever is ended from here on leaves with this code.
  watched.watch.reported(code);
  watched.notes().phase("finalise");
  return code;
}

/// Threads of this process.
int run_as_threads(int ranks, const Options& options, const Asked& asked) {
  Watch watch(options, {}, ranks, checks_of(command_of(options)));
  watch.meet_as_threads();
  try {
    return run_local_ranks(ranks, [&](group::Group& world, const Place& place) {
      group::Moved moved;
      return run_watched(world, place, asked, {watch, world.rank(), moved});
    });
  } catch (const group::Lost& lost) {
    watch.end(group::Trigger::failed, lost.rank(), lost.what());
  }
}

/// Processes of a launch. What a rank alone meets with ends all of them: by the watchdog, since the
/// others wait for it in the transport.
Result<int> run_as_processes(const Options& options, const Asked& asked) {
  const std::optional<group::Launch> launch = group::launch();
  int rank = launch ? launch->rank : 0;
  Watch watch(options, launch, 1, checks_of(command_of(options)));
  try {
    return run_over_mpi([&](group::Group& world, const Place& place) {
      try {
        rank = world.rank();
        watch.meet(world);
        group::Moved moved;
        return run_watched(world, place, asked, {watch, 0, moved});
      } catch (const group::Lost& lost) {
        watch.end(group::Trigger::lost, rank, lost.what());
      } catch (const std::exception& failure) {
        watch.end(group::Trigger::failed, rank, failure.what());
      }
    });
  } catch (const group::Lost& lost) {
    watch.end(group::Trigger::lost, rank, lost.what());
  }
}

}  // namespace

std::vector<std::string> checks_of(std::string_view command) {
  const CommandRow* row = row_of(command);
  const bool known = row != nullptr && row->checks != nullptr;
  return known ? row->checks() : std::vector<std::string>();
}

int run(int argc, const char* const* argv, const Parts& parts) {
  guard_streams();
  const CommandLine line = command_line(argc, argv, [](std::string_view word) {
    return word == "report" || row_of(word) != nullptr;
  });
  const Asked asked{line, parts};
  const Options known = line.known();
  const std::optional<group::Launch> launch = group::launch();
  const bool launched = launch.has_value();
  // The others of a launch may have been given something else.
  if (of_rank_0(line) && !(launched && launch->ranks > 1)) return said_alone(known);
  const Transport over = known.transport;
  if (over == Transport::local || (over == Transport::automatic && !launched)) {
    return run_as_threads(line.options.reason ? 1 : local_ranks(known), known, asked);
  }
  const Result<int> code = run_as_processes(known, asked);
  if (!code.reason) return *code;
  if (of_rank_0(line)) return said_alone(known);
  complain(code.reason.text());
  return report::exit_code(report::Verdict::refused);
}

}  // namespace slicecheck::app
