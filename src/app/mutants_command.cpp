// slicecheck mutants: every known fault is planted; each must be caught, and named.
#include <fmt/format.h>

#include "app/command.h"
#include "app/kill_matrix.h"
#include "group/agree.h"

namespace slicecheck::app {
namespace {

// The share of mutants that must be named exactly.
constexpr double exact_min = 0.98;

report::Check check(const std::string& id, std::int64_t compared, std::int64_t differing,
                    bool holds) {
  report::Check made;
  made.id = id;
  made.compared = compared;
  made.differing = differing;
  made.status = holds ? report::Status::passed : report::Status::failed;
  return made;
}

/// A row of the matrix: `differing` counts the mutants that were not named exactly.
report::Check row_check(const KillRow& row) {
  std::string id = "mutants." + row.fault;
  for (char& c : id) {
    if (c == ' ') c = '-';
  }
  std::erase(id, ',');
  report::Check made = check(id, row.planted, row.planted - row.exact, row.caught == row.planted);
  if (row.exact < row.planted && made.status == report::Status::passed) {
    made.status = report::Status::warning;
  }
  made.text =
      fmt::format("{} of {} caught, by the probes {} (random) and {} (exact); {} named, {} exactly",
                  row.caught, row.planted, row.random_probe, row.exact_probe, row.named, row.exact);
  made.figures = {{"caught", row.caught},
                  {"random_probe", row.random_probe},
                  {"exact_probe", row.exact_probe},
                  {"named", row.named},
                  {"exact", row.exact}};
  return made;
}

report::Finding misnamed(const std::string& line, report::Severity severity) {
  report::Finding made;
  made.cause = "unexplained";
  made.severity = severity;
  made.side = report::Side::machine;
  made.text = "a planted fault was not named exactly: " + line;
  return made;
}

void say(const KillMatrix& matrix, report::Report& made) {
  KillRow all;
  for (const KillRow& row : matrix.rows) {
    made.checks.push_back(row_check(row));
    all.planted += row.planted;
    all.caught += row.caught;
    all.named += row.named;
    all.exact += row.exact;
  }
  const bool enough =
      static_cast<double>(all.exact) >= exact_min * static_cast<double>(all.planted);
  made.checks.push_back(
      check("mutants.caught", all.planted, all.planted - all.caught, all.caught == all.planted));
  made.checks.push_back(check("mutants.named", all.planted, all.planted - all.named, enough));
  made.checks.push_back(check("mutants.exact", all.planted, all.planted - all.exact, enough));
  made.checks.push_back(
      check("mutants.healthy", matrix.healthy, matrix.alarms, matrix.alarms == 0));
  for (const std::string& line : matrix.misnamed) {
    made.findings.push_back(
        misnamed(line, enough ? report::Severity::warning : report::Severity::error));
  }
}

std::string_view level_name(Level level) {
  switch (level) {
    case Level::smoke:
      return "smoke";
    case Level::ci:
      return "ci";
    case Level::full:
      return "full";
    case Level::soak:
      return "soak";
  }
  return "";
}

}  // namespace

report::Report mutants_command(Context& context) {
  group::Group& world = context.world;
  context.progress.phase("mutants");
  const KillMatrix mine =
      kill_matrix(context.options.level, context.options.seed, world.rank(), world.size(),
                  [&](std::int64_t done, std::int64_t all) { context.progress.step(done, all); });
  KillMatrix whole;
  for (const std::string& text : group::share_texts(world, text_of(mine))) {
    add(whole, matrix_of(text));
  }
  report::Report made;
  made.run_case = {{"level", std::string(level_name(context.options.level))},
                   {"seed", context.options.seed}};
  if (world.rank() == 0) say(whole, made);
  return made;
}

}  // namespace slicecheck::app
