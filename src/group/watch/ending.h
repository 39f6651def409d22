// What is known of the ranks of a run that ends before its end, as they tell each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "group/watch/notes.h"
#include "group/watch/side_channel.h"

namespace slicecheck::group {

/// Why a run ends before its end.
enum class Trigger { none, no_progress, deadline, terminated, lost, failed };

/// What is known of a rank when a run ends.
struct RankState {
  int rank = 0;
  Heard::Outcome outcome = Heard::Outcome::answered;
  std::optional<Standing> standing;  // for a rank that does not answer the last that it said
  Trigger trigger = Trigger::none;
  std::string words;  // of a rank that failed
  std::string stack;  // of a rank that makes no progress: "a < b < c", the innermost first
  std::string journal;
};

/// A run that ends before its end: why, and what is known of every rank.
struct Ending {
  Trigger trigger = Trigger::none;
  std::vector<RankState> ranks;  // by number; without a side channel this process's alone
  int size = 0;                  // ranks of the run
};

/// True where the ranks stand still, and nobody kills them.
bool stands_still(Trigger trigger);

/// What a rank says of itself, and what another rank reads of that; a rank that did not answer is
/// known by its outcome alone.
std::string written(const RankState& state);
RankState read(int rank, const Heard& heard);

}  // namespace slicecheck::group
