// One law over many random cases, on all ranks alike: the same cases are drawn everywhere, compared
// before they run, judged, and the verdict is agreed before anyone acts on it, so that all ranks
// take the same shrink step. Bounded in cases, seconds and shrink steps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/law.h"

namespace slicecheck::properties {

/// How much is tried.
struct Plan {
  std::uint64_t seed = 1;
  std::int64_t cases = 100;
  std::int64_t draws = 0;        // beyond the cases: those are tried that reach a class none had
  double seconds = 0;            // of one law; 0: no limit
  std::int64_t shrinks = 1000;   // candidates tried while shrinking
  double shrink_seconds = 10;    // as long as that
  Limits limits;                 // of laws that one process judges
  int ranks_up_to = 0;           // of laws of ranks together; 0: the launch's
  std::vector<SavedCase> saved;  // tried before all others
};

/// A case that breaks a law, and how.
struct Broken {
  Case given;
  std::string text;
  std::int64_t shrinks = 0;  // candidates tried
  double shrink_seconds = 0;
};

/// What came of a law. It has passed when no case broke it and every class was reached.
struct Outcome {
  std::string law;
  std::int64_t cases = 0;
  std::int64_t saved = 0;            // of them, saved ones
  std::int64_t discarded = 0;        // need more ranks than the launch has
  std::vector<std::string> reached;  // classes
  std::vector<std::string> missed;
  std::optional<Broken> broken;
  double seconds = 0;

  bool passed() const { return cases > 0 && missed.empty() && !broken; }
};

/// Told on each rank of each case before it runs there, and with nothing when none does any more:
/// whoever listens can save the case, and notice when it does not end.
using InFlight = std::function<void(const SavedCase*)>;

/// Tries a law. Collective over `world`; a case of n ranks runs on ranks [0, n) of it, the others
/// wait for its verdict. The outcome is the same on every rank but for its seconds.
Outcome run(group::Group& world, const Law& law, const Plan& plan, const Subject& subject,
            const InFlight& in_flight = {});

/// Judges one case: what breaks the law, or nothing; the same on every rank. Collective.
/// Refuses when: the case needs more ranks than `world` has; the ranks hold different cases.
Result<std::optional<Broken>> replayed(group::Group& world, const SavedCase& saved,
                                       const Subject& subject, const InFlight& in_flight = {});

/// One line: the law, its verdict, cases, classes reached; and the smallest case that breaks it.
std::string text(const Outcome& outcome);

/// The law of that name, or nothing.
std::optional<Law> law_named(std::string_view name);

}  // namespace slicecheck::properties
