// Ranks that meet again and again under a watchdog, and one that does not come: what it does
// instead is the first argument, its rank the second. What the reporter knows goes to the file of
// the third.
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

namespace {

using namespace slicecheck;
using group::Trigger;

constexpr int rounds = 200;
constexpr int faulty_round = 20;
constexpr double timeout_seconds = 3;

void act(const std::string& fault, group::Watchdog& watchdog) {
  if (fault == "fail")
    watchdog.end(Trigger::failed, group::launch() ? group::launch()->rank : 0, "failed on request");
  if (fault == "exit0") ::_exit(0);
  if (fault == "stop") ::raise(SIGSTOP);
  if (fault == "kill") ::raise(SIGKILL);
  for (volatile bool on = true; fault == "loop" && on;) {
  }
}

int written(const group::Ending& ending, const char* path) {
  std::ofstream file(path);
  for (const group::RankState& each : ending.ranks) {
    file << each.rank << ' ' << static_cast<int>(each.outcome) << ' ' << each.words << ' '
         << (each.standing ? text(*each.standing) : "unknown") << '\n';
  }
  return ending.trigger == Trigger::failed ? 5 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string fault = argv[1];
  group::Notes notes;
  group::WatchLimits limits;
  limits.timeout_seconds = timeout_seconds;
  limits.rank = group::launch() ? group::launch()->rank : 0;
  group::Watchdog watchdog(limits, {&notes},
                           {[] { return std::string("journal"); },
                            [&](const group::Ending& of) { return written(of, argv[3]); }, [] {}});
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
