#include "group/watch/ending.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

namespace slicecheck::group {

bool stands_still(Trigger trigger) {
  return trigger == Trigger::no_progress || trigger == Trigger::deadline;
}

// Lines; the journal is the rest.
std::string written(const RankState& state) {
  const Standing standing = state.standing.value_or(Standing{});
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", static_cast<int>(state.trigger), state.words,
                     state.stack, standing.phase, standing.call, standing.sequence,
                     standing.idle.count(), state.journal);
}

RankState read(int rank, const Heard& heard) {
  RankState made;
  made.rank = rank;
  made.outcome = heard.outcome;
  if (heard.outcome != Heard::Outcome::answered) return made;
  std::istringstream lines(heard.text);
  const auto next = [&] {
    std::string line;
    std::getline(lines, line);
    return line;
  };
  made.trigger = static_cast<Trigger>(std::atoi(next().c_str()));
  made.words = next();
  made.stack = next();
  Standing standing;
  standing.phase = next();
  standing.call = next();
  standing.sequence = std::atoll(next().c_str());
  standing.idle = std::chrono::milliseconds(std::atoll(next().c_str()));
  made.standing = standing;
  std::ostringstream rest;
  rest << lines.rdbuf();
  made.journal = rest.str();
  return made;
}

}  // namespace slicecheck::group
