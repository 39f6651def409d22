// One law over many random cases: drawn, judged, and where it breaks shrunk to the smallest case
// that still breaks it. Bounded in cases, seconds and shrink steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "properties/law.h"

namespace slicecheck::properties {

/// How much is tried.
struct Plan {
  std::uint64_t seed = 1;
  std::int64_t cases = 100;
  std::int64_t shrinks = 1000;  // candidates tried while shrinking
  Limits limits;
};

/// A case that breaks a law, and how.
struct Broken {
  Case given;
  std::string text;
  std::int64_t shrinks = 0;  // candidates tried
};

/// What came of a law. It has passed when no case broke it and every class was reached.
struct Outcome {
  std::string law;
  std::int64_t cases = 0;
  std::vector<std::string> reached;  // classes
  std::vector<std::string> missed;
  std::optional<Broken> broken;

  bool passed() const { return cases > 0 && missed.empty() && !broken; }
};

Outcome run(const Law& law, const Plan& plan, const Subject& subject);

/// One line: the law, its verdict, cases, classes reached; and the smallest case that breaks it.
std::string text(const Outcome& outcome);

}  // namespace slicecheck::properties
