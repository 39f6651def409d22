#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "app/case_keeper.h"
#include "app/command.h"
#include "app/subject.h"
#include "checkpoint/file.h"
#include "checkpoint/in_quotes.h"
#include "group/agree.h"
#include "properties/corpus.h"
#include "properties/run/run.h"

namespace slicecheck::app {
namespace {

using properties::Law;
using properties::Outcome;
using properties::Plan;

constexpr std::string_view reshard_law = "Reshard.equals_the_conversion_of_the_slice";

/// How many cases a law gets at a level, and how large they are.
struct Size {
  std::int64_t cases = 0;
  std::int64_t layouts_local = 0;  // resharded in full over the local group
  std::int64_t layouts_sent = 0;   // and over ranks that are processes
  std::int64_t layer_bytes = 0;
  double seconds = 0;  // of the run; 0: as long as the cases take
};

Size size_of(Level level) {
  constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max() / 1000;
  switch (level) {
    case Level::smoke:
      return {60, 60, 60, 1 << 19, 0};
    case Level::ci:
      return {200, 2000, 200, 1 << 20, 0};
    case Level::full:
      return {2000, 10000, 2000, 1 << 21, 0};
    case Level::soak:
      break;
  }
  return {endless, endless, endless, 1 << 22, 3600};
}

/// Beyond a level's cases: the rarest class is met by one draw in 30, and a draw costs next to
/// nothing beside a case. Who asks for so many cases gets them, and no more.
constexpr std::int64_t draws_for_classes = 1000;

bool chosen(const Law& law, const std::string& filter) {
  return filter.empty() || law.name == filter || law.name.starts_with(filter + ".");
}

std::vector<Law> chosen_laws(const std::string& filter) {
  std::vector<Law> made;
  for (const Law& law : properties::laws()) {
    if (chosen(law, filter)) made.push_back(law);
  }
  return made;
}

/// `share` of the run's seconds are this law's.
Plan plan_of(const Context& context, const Law& law, double share) {
  const PropertyOptions& asked = context.options.properties;
  const Size size = size_of(context.options.level);
  Plan plan;
  plan.seed = context.options.seed;
  plan.cases = size.cases;
  if (law.name == reshard_law) {
    plan.cases = context.world.name() == "local" ? size.layouts_local : size.layouts_sent;
  }
  const bool many_classes =
      law.draw == properties::Draw::invalid || law.draw == properties::Draw::planted;
  if (many_classes) plan.cases = std::max(plan.cases, 2 * size.cases);
  plan.cases = plan.cases * law.cases_percent / 100;
  plan.draws = draws_for_classes;
  if (asked.cases > 0) {
    plan.cases = asked.cases;
    plan.draws = 0;
  }
  plan.seconds = share * (asked.seconds > 0 ? asked.seconds : size.seconds);
  plan.limits.layer_bytes = size.layer_bytes;
  plan.ranks_up_to = asked.ranks_up_to;
  plan.saved = properties::corpus();
  return plan;
}

report::Check check_of(const Outcome& outcome) {
  report::Check made;
  made.id = "law." + outcome.law;
  made.compared = outcome.cases;
  made.differing = outcome.broken ? 1 : 0;
  if (outcome.broken) made.status = report::Status::failed;
  if (outcome.passed()) made.status = report::Status::passed;
  if (!outcome.passed()) made.text = properties::text(outcome);
  made.figures = {{"saved", outcome.saved},
                  {"discarded", outcome.discarded},
                  {"classes", std::ssize(outcome.reached)},
                  {"classes_missed", std::ssize(outcome.missed)}};
  if (outcome.broken) {
    made.figures.emplace_back("shrinks", outcome.broken->shrinks);
    made.figures.emplace_back("case", properties::json({outcome.law, outcome.broken->given}));
  }
  return made;
}

/// Rank 0's line of a law, and where its smallest case went.
void print(const Context& context, CaseKeeper& keeper, const Outcome& outcome) {
  if (context.world.rank() != 0) return;
  std::string lines = properties::text(outcome) + "\n";
  if (outcome.broken) {
    lines += "  run it again: " + keeper.keep({outcome.law, outcome.broken->given}) + "\n";
  }
  if (!context.options.quiet) fmt::print("{}", lines);
  std::fflush(stdout);
}

/// Every rank has the same outcome: rank 0's part holds it.
void add(report::Report& mine, const Context& context, const Outcome& outcome) {
  if (context.world.rank() == 0) mine.checks.push_back(check_of(outcome));
}

report::Fields case_of(const Context& context) {
  report::Fields made = {{"seed", context.options.seed},
                         {"ranks", std::int64_t{context.world.size()}},
                         {"transport", std::string(context.world.name())}};
  if (context.options.command == "replay") made.emplace_back("case", context.options.paths.at(0));
  return made;
}

report::RankEntry rank_entry(const Context& context) {
  return {context.world.rank(), context.group_number, context.place.host, "", 0, {}};
}

report::Report part_of(const Context& context) {
  report::Report mine;
  mine.run_case = case_of(context);
  mine.ranks = {rank_entry(context)};
  return mine;
}

constexpr std::int64_t case_bytes_max = std::int64_t{1} << 20;

Result<properties::SavedCase> read(const std::string& path) {
  const Result<std::string> text = checkpoint::text_of(path, case_bytes_max);
  if (text.reason) return text.reason;
  Result<properties::SavedCase> saved = properties::parsed(*text);
  const std::string name = checkpoint::shown(path);
  if (saved.reason) return Reason(fmt::format("{}: {}", name, saved.reason.text()));
  if (!properties::law_named(saved->law)) {
    return Reason(fmt::format("{}: law: no law is named \"{}\"", name, saved->law));
  }
  return saved;
}

}  // namespace

report::Report properties_command(Context& context) {
  report::Report mine = part_of(context);
  CaseKeeper keeper(context);
  const std::vector<Law> laws = chosen_laws(context.options.properties.law);
  const properties::Subject subject = with_commands(context.subject);
  report::Verdict verdict = report::Verdict::not_run;
  if (laws.empty() && context.world.rank() == 0) {
    const std::string& asked = context.options.properties.law;
    mine.checks.push_back({"law",
                           0,
                           0,
                           report::Status::skipped,
                           0,
                           0,
                           fmt::format("no law or suite is named {}", asked),
                           {}});
  }
  for (const Law& law : laws) {
    context.progress.phase(std::string(law.name));
    const Plan plan = plan_of(context, law, 1.0 / static_cast<double>(laws.size()));
    const Outcome outcome = properties::run(context.world, law, plan, subject, std::ref(keeper));
    print(context, keeper, outcome);
    add(mine, context, outcome);
    // Cases that held, but not of every kind, show nothing wrong and prove nothing either.
    const bool blind = outcome.cases > 0 && !outcome.broken && !outcome.passed();
    verdict = report::worst(verdict, blind ? report::Verdict::inconclusive : verdict);
  }
  mine.verdict = verdict;
  return mine;
}

report::Report replay_command(Context& context) {
  report::Report mine = part_of(context);
  const Result<properties::SavedCase> saved = read(context.options.paths.at(0));
  group::refuse_together(context.world, saved.reason, "cannot replay");
  CaseKeeper keeper(context);
  context.progress.phase(saved->law);
  const auto broken =
      properties::replayed(context.world, *saved, with_commands(context.subject), std::ref(keeper));
  group::refuse_together(context.world, broken.reason, "cannot replay");
  Outcome outcome;
  outcome.law = saved->law;
  outcome.cases = 1;
  outcome.broken = *broken;
  if (context.world.rank() == 0 && !context.options.quiet) {
    fmt::print("{}\n  {}\n", properties::text(outcome), properties::text(saved->given));
  }
  add(mine, context, outcome);
  return mine;
}

int ranks_of_case(const Options& options) {
  const Result<properties::SavedCase> saved = read(options.paths.at(0));
  return saved.reason ? 1 : static_cast<int>(saved->given.shape.tp);
}

}  // namespace slicecheck::app
