#include "properties/run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <span>

namespace slicecheck::properties {
namespace {

using Clock = std::chrono::steady_clock;

// Between two agreements, of a law that one process judges.
constexpr std::int64_t cases_a_rank = 8;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The first of some cases that breaks the law; `number` is -1 where the ranks hold different
/// cases, of which none was run and none can be shrunk in step.
struct FirstBroken {
  std::int64_t number = 0;
  std::string text;
};

/// A law on the ranks of a launch.
class Trial {
 public:
  Trial(group::Group& world, const Law& law, const Subject& subject, const InFlight& in_flight)
      : world_(world), law_(law), subject_(subject), in_flight_(in_flight) {}

  /// How many cases are judged at once: one where ranks act together, else so many a rank.
  std::int64_t batch(std::int64_t a_rank) const {
    return law_.broken_together != nullptr ? 1 : a_rank * world_.size();
  }

  /// Which of up to a batch of cases breaks the law first, or nothing. Collective.
  std::optional<FirstBroken> first_broken(std::span<const Case> cases) {
    if (const Reason reason = unequal(cases)) return FirstBroken{-1, reason.text()};
    const bool together = law_.broken_together != nullptr;
    const std::int64_t step = together ? 1 : world_.size();
    std::int64_t number = together ? 0 : world_.rank();
    Reason mine;
    while (number < std::ssize(cases)) {
      mine = together ? judged_together(cases[number]) : judged_alone(cases[number]);
      if (mine) break;
      number += step;
    }
    // Whoever waits for the others' cases has none that could hang.
    if (!together && in_flight_) in_flight_(nullptr);
    const std::int64_t first = world_.least(std::min(number, std::ssize(cases)));
    if (first == std::ssize(cases)) return {};
    return agreed(first, number == first ? mine : Reason());
  }

  /// True on every rank when `over` is true on any. Collective.
  bool any(bool over) { return world_.least(over ? 0 : 1) == 0; }

 private:
  std::optional<FirstBroken> agreed(std::int64_t number, const Reason& mine) {
    return FirstBroken{number, group::agree(world_, mine).text()};
  }

  // Every rank must be about to run the same bytes, else the verdicts say nothing.
  Reason unequal(std::span<const Case> cases) {
    std::string all;
    for (const Case& each : cases) all += json({std::string(law_.name), each});
    const Digest mine = digest({reinterpret_cast<const std::uint8_t*>(all.data()), all.size()});
    ByteVector every(mine.bytes.size() * world_.size());
    world_.share(mine.bytes, every);
    for (int rank = 1; rank < world_.size(); ++rank) {
      const auto* at = every.data() + rank * mine.bytes.size();
      if (std::equal(at, at + mine.bytes.size(), every.begin())) continue;
      return Reason(fmt::format("rank {} drew another case than rank 0", rank));
    }
    return {};
  }

  void begin(const Case& given) {
    const SavedCase saved{std::string(law_.name), given};
    if (in_flight_) in_flight_(&saved);
  }

  // A case of one process that throws breaks its law like any other, and shrinks.
  Reason judged_alone(const Case& given) {
    begin(given);
    try {
      return law_.broken(given, subject_);
    } catch (const std::exception& thrown) {
      return Reason(fmt::format("an exception: {}", thrown.what()));
    }
  }

  Reason judged_together(const Case& given) {
    const auto size = static_cast<int>(given.shape.tp);
    begin(given);
    std::unique_ptr<group::Group>& part = parts_[size];
    if (!part) part = world_.split(world_.rank() < size ? 0 : 1);
    if (world_.rank() >= size) return {};
    return law_.broken_together(given, subject_, *part);
  }

  group::Group& world_;
  const Law& law_;
  const Subject& subject_;
  const InFlight& in_flight_;
  std::map<int, std::unique_ptr<group::Group>> parts_;  // ranks [0, n), and the rest
};

// Takes the first smaller case that still breaks the law, again and again. Collective.
Broken smallest(Trial& trial, const Plan& plan, Drawn from, std::string text) {
  const Clock::time_point start = Clock::now();
  Broken found{from.value, std::move(text), 0, 0};
  while (found.shrinks < plan.shrinks && !trial.any(seconds_since(start) > plan.shrink_seconds)) {
    std::vector<std::shared_ptr<Drawn>> candidates;
    std::vector<Case> cases;
    const std::int64_t most = std::min(trial.batch(1), plan.shrinks - found.shrinks);
    while (std::ssize(cases) < most) {
      std::shared_ptr<Drawn> candidate = from.next_smaller();
      if (!candidate) break;
      cases.push_back(candidate->value);
      candidates.push_back(std::move(candidate));
    }
    if (cases.empty()) break;
    const std::optional<FirstBroken> first = trial.first_broken(cases);
    if (first && first->number < 0) break;
    found.shrinks += first ? first->number + 1 : std::ssize(cases);
    if (!first) continue;
    found.given = cases[first->number];
    found.text = first->text;
    from = *candidates[first->number];
  }
  found.shrink_seconds = seconds_since(start);
  return found;
}

void count_classes(const Law& law, const Limits& limits, const std::set<std::string>& seen,
                   Outcome& outcome) {
  for (const Dimension dimension : law.varies) {
    for (const std::string& each : classes(dimension, limits)) {
      (seen.contains(each) ? outcome.reached : outcome.missed).push_back(each);
    }
  }
}

Limits limits_of(const Law& law, const Plan& plan, int ranks) {
  Limits limits = plan.limits;
  if (law.broken_together != nullptr) limits.tp = plan.ranks_up_to > 0 ? plan.ranks_up_to : ranks;
  return limits;
}

bool fits(const Law& law, const Case& given, int ranks) {
  return law.broken_together == nullptr || given.shape.tp <= ranks;
}

/// The saved cases of the law, then the drawn ones, in order; then, of some draws more, those that
/// reach a class that no case before had. Which these are does not hang on how many are asked for
/// at once: it is the same on any number of ranks.
class Cases {
 public:
  Cases(const Law& law, const Plan& plan, const Limits& limits, int ranks)
      : law_(law), plan_(plan), limits_(limits), ranks_(ranks) {
    for (const SavedCase& each : plan.saved) {
      if (each.law == law.name) saved_.push_back(each.given);
    }
    for (const Dimension dimension : law.varies) {
      for (std::string& each : classes(dimension, limits)) wanted_.insert(std::move(each));
    }
  }

  std::int64_t saved() const { return std::ssize(saved_); }

  /// Up to `most` cases that fit the ranks; none when all have been given.
  std::vector<Drawn> next(std::int64_t most, Outcome& outcome) {
    // A law of ranks together on a launch of one rank has no cases.
    if (limits_.tp < 2) return {};
    const std::int64_t due = saved() + plan_.cases;
    std::vector<Drawn> batch;
    for (; std::ssize(batch) < most; ++at_) {
      if (at_ >= due && (wanted_.empty() || at_ >= due + plan_.draws)) break;
      Drawn each = number(at_);
      if (!fits(law_, each.value, ranks_)) {
        if (at_ < due) ++outcome.discarded;
      } else if (reaches(each.value) || at_ < due) {
        batch.push_back(std::move(each));
      }
    }
    return batch;
  }

 private:
  Drawn number(std::int64_t i) const {
    if (i < saved()) return undrawn(saved_[i]);
    return drawn(law_.draw, limits_, plan_.seed, i - saved());
  }

  // Whether it is of a class that is still wanted, which it is then no more.
  bool reaches(const Case& given) {
    bool made = false;
    for (const Dimension each : law_.varies) {
      made = wanted_.erase(class_of(given, each)) > 0 || made;
    }
    return made;
  }

  const Law& law_;
  const Plan& plan_;
  const Limits& limits_;
  int ranks_;
  std::vector<Case> saved_;
  std::set<std::string> wanted_;  // classes that no case given so far is of
  std::int64_t at_ = 0;
};

}  // namespace

Outcome run(group::Group& world, const Law& law, const Plan& plan, const Subject& subject,
            const InFlight& in_flight) {
  const Clock::time_point start = Clock::now();
  const Limits limits = limits_of(law, plan, world.size());
  Cases cases(law, plan, limits, world.size());
  Trial trial(world, law, subject, in_flight);
  Outcome outcome;
  outcome.law = law.name;
  std::set<std::string> seen;
  while (!outcome.broken) {
    if (plan.seconds > 0 && trial.any(seconds_since(start) > plan.seconds)) break;
    const std::vector<Drawn> batch = cases.next(trial.batch(cases_a_rank), outcome);
    if (batch.empty()) break;
    std::vector<Case> values;
    for (const Drawn& each : batch) values.push_back(each.value);
    const std::optional<FirstBroken> first = trial.first_broken(values);
    const std::int64_t judged = first ? first->number + 1 : std::ssize(values);
    for (std::int64_t i = 0; i < judged; ++i) {
      ++outcome.cases;
      for (const Dimension each : law.varies) seen.insert(class_of(values[i], each));
    }
    if (!first) continue;
    outcome.broken = first->number < 0 ? Broken{values.front(), first->text, 0, 0}
                                       : smallest(trial, plan, batch[first->number], first->text);
  }
  if (in_flight) in_flight(nullptr);
  outcome.saved = std::min(outcome.cases, cases.saved());
  count_classes(law, limits, seen, outcome);
  outcome.seconds = seconds_since(start);
  return outcome;
}

Result<std::optional<Broken>> replayed(group::Group& world, const SavedCase& saved,
                                       const Subject& subject, const InFlight& in_flight) {
  const std::optional<Law> law = law_named(saved.law);
  if (!law) return Reason(fmt::format("no law is named {}", saved.law));
  if (!fits(*law, saved.given, world.size())) {
    return Reason(fmt::format("the case needs {} ranks, the launch has {}", saved.given.shape.tp,
                              world.size()));
  }
  Trial trial(world, *law, subject, in_flight);
  const std::array<Case, 1> one{saved.given};
  const std::optional<FirstBroken> first = trial.first_broken(one);
  if (in_flight) in_flight(nullptr);
  if (!first) return std::optional<Broken>();
  return std::optional<Broken>(Broken{saved.given, first->text, 0, 0});
}

std::string text(const Outcome& outcome) {
  const bool tried = outcome.cases > 0;
  const char* verdict = outcome.broken ? "failed" : !tried ? "not run" : "passed";
  if (tried && !outcome.broken && !outcome.missed.empty()) verdict = "not passed";
  std::string made = fmt::format("{} {}: {} cases, {} discarded, {} classes", outcome.law, verdict,
                                 outcome.cases, outcome.discarded, outcome.reached.size());
  if (!outcome.missed.empty() && !outcome.broken) {
    made += fmt::format(", not reached: {}", fmt::join(outcome.missed, ", "));
  }
  if (outcome.broken) {
    made += fmt::format("; broken by {} (after {} shrinks): {}", text(outcome.broken->given),
                        outcome.broken->shrinks, outcome.broken->text);
  }
  return made;
}

std::vector<Law> laws() {
  std::vector<Law> all = layout_laws();
  for (const std::vector<Law>& more : {experts_laws(), group_laws(), reshard_laws(), moe_laws(),
                                       probe_laws(), fault_laws(), file_laws(), report_laws()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::optional<Law> law_named(std::string_view name) {
  for (const Law& law : laws()) {
    if (law.name == name) return law;
  }
  return {};
}

}  // namespace slicecheck::properties
