// Ranks that meet again and again under a watchdog, and one that does not come: what it does
// instead is the first argument, its rank the second. What the reporter knows goes to the file of
// the third; beside it each rank leaves word of what is cut off, and of when the watchdog ends it.
// The fourth is how many seconds they may stand still.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "group/agree.h"
#include "group/launch.h"
#include "group/mpi/mpi_group.h"
#include "group/watch/watchdog.h"
#include "group/watch/watched_group.h"

namespace slicecheck {

/// Never returns. Its name can be told: it is no file's own.
[[gnu::noinline]] void looping() {
  for (volatile bool on = true; on;) {
  }
}

}  // namespace slicecheck

namespace {

using namespace slicecheck;
using group::Trigger;

constexpr int rounds = 200;
constexpr int faulty_round = 20;

void act(const std::string& fault, group::Watchdog& watchdog) {
  if (fault == "fail")
    watchdog.end(Trigger::failed, group::launch() ? group::launch()->rank : 0, "failed on request");
  if (fault == "exit0") ::_exit(0);
  if (fault == "stop") ::raise(SIGSTOP);
  if (fault == "kill") ::raise(SIGKILL);
  if (fault == "blocked") {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
  }
  if (fault == "loop" || fault == "blocked") looping();
}

int written(const group::Ending& ending, const char* path) {
  std::ofstream file(path);
  for (const group::RankState& each : ending.ranks) {
    file << each.rank << ' ' << static_cast<int>(each.outcome) << ' ' << each.words << ' '
         << (each.standing ? text(*each.standing) : "unknown") << " stack: " << each.stack << '\n';
  }
  return ending.trigger == Trigger::failed ? 5 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string fault = argv[1];
  group::Notes notes;
  group::WatchLimits limits;
  limits.timeout_seconds = std::atof(argv[4]);
  const std::optional<group::Launch> launch = group::launch();
  if (!launch) return 2;
  limits.rank = launch->rank;
  limits.ranks = launch->ranks;
  limits.launch = launch->name;
  const auto beside = [&](const char* what) {
    return std::ofstream(std::string(argv[3]) + what + std::to_string(launch->rank));
  };
  group::Watchdog watchdog(
      limits, {&notes},
      {[] { return std::string("journal"); },
       [&](const group::Ending& of) { return written(of, argv[3]); },
       [&] { beside(".left.") << static_cast<double>(notes.standing().idle.count()) / 1000; }});
  const auto hangs = watchdog.aborts().add([] {
    for (;;) ::pause();
  });
  const auto ends = watchdog.aborts().add([&] { beside(".cut.") << "cut off"; });
  const group::Session session;
  const std::unique_ptr<group::Group> world = session.world();
  watchdog.meet(*world);
  group::WatchedGroup watched(*world, notes);
  notes.phase("rounds");
  for (int round = 0; round < rounds; ++round) {
    if (round == faulty_round && world->rank() == std::atoi(argv[2])) act(fault, watchdog);
    watched.least(round);
  }
  watchdog.reported(0);
  return 0;
}
