#include "app/kill_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <sstream>

#include "app/checkpoint_mutants.h"
#include "app/dump_mutants.h"
#include "app/healthy.h"
#include "app/layer_judge.h"
#include "app/probe_mutants.h"
#include "app/refusal_mutants.h"
#include "faults/byte_faults.h"

namespace slicecheck::app {
namespace {

using faults::Expected;
using faults::Layer;
using faults::Mutant;

constexpr std::size_t misnamed_max = 20;

/// A healthy layer and the judge of its payload, made once for all mutants of it.
struct Bench {
  Layer healthy;
  verify::Subject subject;
  std::unique_ptr<verify::Reference> reference;
  std::unique_ptr<verify::Judge> judge;

  explicit Bench(const Mutant& mutant)
      : healthy(mutant.data ? faults::padded_layer(mutant.payload, mutant.shape, *mutant.data)
                            : faults::healthy_layer(mutant.payload, mutant.shape)),
        subject(subject_of(mutant, true)),
        reference(std::make_unique<verify::Reference>(subject.layer, mutant.payload)),
        judge(std::make_unique<verify::Judge>(*reference)) {}
};

class Benches {
 public:
  Bench& of(const Mutant& mutant) {
    for (const auto& one : benches_) {
      if (one->subject.layer.shape == mutant.shape && one->healthy.payload == mutant.payload &&
          one->subject.layer.data == mutant.data) {
        return *one;
      }
    }
    benches_.push_back(std::make_unique<Bench>(mutant));
    return *benches_.back();
  }

 private:
  std::vector<std::unique_ptr<Bench>> benches_;
};

report::Side side_of(faults::Side side) {
  return side == faults::Side::tp ? report::Side::tp : report::Side::stock;
}

report::Finding finding_due(const Expected& due) {
  report::Finding made;
  made.cause = due.cause;
  made.side = side_of(due.side);
  made.tensors = due.tensors;
  made.experts = due.experts;
  made.ranks.assign(due.ranks.begin(), due.ranks.end());
  made.severity = due.warning ? report::Severity::warning : report::Severity::error;
  return made;
}

/// What was planted, in words, and what must be said of it.
struct Planted {
  std::string fault;
  std::string label;
  std::vector<report::Finding> due;
};

Planted planted_by(const Mutant& mutant) {
  Planted made{mutant.fault,
               fmt::format("{}; E {} H {} I {} tp {}", mutant.pattern, mutant.shape.experts,
                           mutant.shape.hidden, mutant.shape.intermediate, mutant.shape.tp),
               {}};
  for (const Expected& one : mutant.expected) made.due.push_back(finding_due(one));
  return made;
}

bool is_named(const report::Finding& due, const report::Finding& finding) {
  return finding.cause == due.cause && finding.side == due.side;
}

bool is_exact(const report::Finding& due, const report::Finding& finding) {
  return is_named(due, finding) && finding.tensors == due.tensors &&
         finding.experts == due.experts && finding.ranks == due.ranks &&
         finding.severity == due.severity;
}

template <typename Fits>
bool all_said(const Planted& planted, const std::vector<report::Finding>& found, const Fits& fits) {
  return std::all_of(planted.due.begin(), planted.due.end(), [&](const report::Finding& due) {
    return std::any_of(found.begin(), found.end(),
                       [&](const report::Finding& one) { return fits(due, one); });
  });
}

KillRow& row_of(KillMatrix& matrix, const std::string& fault) {
  for (KillRow& row : matrix.rows) {
    if (row.fault == fault) return row;
  }
  matrix.rows.push_back({fault, 0, 0, 0, 0, 0, 0});
  return matrix.rows.back();
}

void count(KillMatrix& matrix, const Planted& planted, const ProbeSight& sight,
           const std::vector<report::Finding>& found) {
  KillRow& row = row_of(matrix, planted.fault);
  const bool exact = found.size() == planted.due.size() && all_said(planted, found, is_exact);
  ++row.planted;
  row.caught += !found.empty();
  row.random_probe += sight.random;
  row.exact_probe += sight.exact;
  row.named += all_said(planted, found, is_named);
  row.exact += exact;
  if (exact || matrix.misnamed.size() == misnamed_max) return;
  matrix.misnamed.push_back(fmt::format(
      "{} ({}): {}", planted.fault, planted.label,
      found.empty() ? "nothing was said" : found.front().cause + ": " + found.front().text));
}

/// One mutant of the run: judged by its payload and, `beside`, with the stocks as the only
/// reference too.
struct Plan {
  Mutant mutant;
  bool by_payload = true;
  bool beside = false;

  std::int64_t count() const { return by_payload + beside; }
};

std::vector<Plan> plans(Level level) {
  const bool full = level == Level::full || level == Level::soak;
  std::vector<Plan> made;
  std::map<std::string, int> times;
  for (Mutant& mutant : faults::mutants(full)) {
    const int time = times[mutant.fault]++;
    // Without a payload the index is built anew for each: a part of them in the shorter levels.
    const bool can = !mutant.needs_payload && mutant.fault != "payload-of-other-layer";
    Plan plan{std::move(mutant), level != Level::smoke || time % 8 == 0,
              can && (full || time % 6 == 0) && (level != Level::smoke || time == 0)};
    if (plan.count() > 0) made.push_back(std::move(plan));
  }
  return made;
}

// Bytes that are no scales are none where nothing says that they are a payload's.
Mutant without_payload(Mutant mutant) {
  mutant.payload.kind = layout::PayloadKind::numeric;
  return mutant;
}

Layer planted(const Layer& healthy, const Mutant& mutant) {
  Layer layer = faults::copied(healthy);
  mutant.plant(layer);
  return layer;
}

/// Judges plans, and keeps what their mutants share.
class Planter {
 public:
  void judge(const Plan& plan, KillMatrix& matrix) {
    const ProbeSight sight = probe_.sight(plan.mutant);
    if (plan.by_payload) {
      Bench& bench = benches_.of(plan.mutant);
      const Layer layer = planted(bench.healthy, plan.mutant);
      count(matrix, planted_by(plan.mutant), sight,
            verify::findings(bench.subject, evidence_of(*bench.judge, layer, true)));
    }
    if (!plan.beside) return;
    const Mutant mutant = without_payload(plan.mutant);
    count(matrix, planted_by(mutant), sight,
          beside_true_stocks(mutant, planted(benches_.of(mutant).healthy, mutant)));
  }

  /// Faults of a checkpoint's or a dump's files and of stocks that are refused: no probe sees them.
  template <typename OfOneFinding>
  static void judge(const OfOneFinding& mutant, KillMatrix& matrix) {
    count(matrix, {mutant.fault, mutant.pattern, {mutant.due}}, {}, said_of(mutant));
  }

  /// Faults of a probe's rows alone, which bytes and scalars cannot show.
  void judge(const ProbeMutant& mutant, KillMatrix& matrix) {
    const std::vector<report::Finding> found = said_of(mutant, probe_);
    const bool exact = mutant.payload.kind == layout::PayloadKind::exact;
    count(matrix, {mutant.fault, mutant.pattern, {mutant.due}},
          {!exact && !found.empty(), exact && !found.empty()}, found);
  }

  std::int64_t alarms() const { return probe_.alarms(); }

 private:
  Benches benches_;
  MutantProbe probe_;
};

// In turn of six kinds: three payloads, three checkpoint formats.
std::int64_t healthy_layouts(Level level) {
  switch (level) {
    case Level::smoke:
      return 100;
    case Level::ci:
      return 1000;
    case Level::full:
      return 6 * 20000;
    case Level::soak:
      return 6 * 200000;
  }
  return 0;
}

}  // namespace

KillMatrix kill_matrix(Level level, std::uint64_t seed, std::int64_t rank, std::int64_t size,
                       const std::function<void(std::int64_t, std::int64_t)>& step) {
  const std::vector<Plan> all = plans(level);
  const std::vector<CheckpointMutant> checkpoints = checkpoint_mutants();
  const std::vector<DumpMutant> dumps = dump_mutants();
  const std::vector<RefusalMutant> refusals = refusal_mutants();
  const std::vector<ProbeMutant> probes = probe_mutants();
  const std::int64_t healthy = healthy_layouts(level);
  KillMatrix made;
  Planter planter;
  // Every rank has the same rows.
  for (const Plan& plan : all) row_of(made, plan.mutant.fault);
  for (const CheckpointMutant& mutant : checkpoints) row_of(made, mutant.fault);
  for (const DumpMutant& mutant : dumps) row_of(made, mutant.fault);
  for (const RefusalMutant& mutant : refusals) row_of(made, mutant.fault);
  for (const ProbeMutant& mutant : probes) row_of(made, mutant.fault);
  std::int64_t turn = 0;  // of all that is judged
  const auto due = static_cast<std::int64_t>(all.size() + checkpoints.size() + dumps.size() +
                                             refusals.size() + probes.size());
  const auto judge_mine = [&](const auto& mutants) {
    for (const auto& mutant : mutants) {
      if (turn++ % size != rank) continue;
      planter.judge(mutant, made);
      step(turn, due + healthy);
    }
  };
  judge_mine(all);
  judge_mine(checkpoints);
  judge_mine(dumps);
  judge_mine(refusals);
  judge_mine(probes);
  made.alarms = planter.alarms();
  for (std::int64_t i = rank; i < healthy; i += size) {
    ++made.healthy;
    made.alarms += alarmed({seed, i});
    step(due + i, due + healthy);
  }
  return made;
}

std::string text_of(const KillMatrix& matrix) {
  std::string text = fmt::format("{} {}\n", matrix.healthy, matrix.alarms);
  for (const KillRow& row : matrix.rows) {
    text += fmt::format("{} {} {} {} {} {} {}\n", row.planted, row.caught, row.random_probe,
                        row.exact_probe, row.named, row.exact, row.fault);
  }
  for (const std::string& line : matrix.misnamed) text += fmt::format("- {}\n", line);
  return text;
}

KillMatrix matrix_of(std::string_view text) {
  std::istringstream lines{std::string(text)};
  KillMatrix made;
  lines >> made.healthy >> made.alarms;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    if (line.starts_with("- ")) {
      made.misnamed.push_back(line.substr(2));
      continue;
    }
    std::istringstream fields(line);
    KillRow row;
    fields >> row.planted >> row.caught >> row.random_probe >> row.exact_probe >> row.named >>
        row.exact >> std::ws;
    std::getline(fields, row.fault);
    made.rows.push_back(row);
  }
  return made;
}

void add(KillMatrix& matrix, const KillMatrix& other) {
  for (const KillRow& row : other.rows) {
    KillRow& mine = row_of(matrix, row.fault);
    mine.planted += row.planted;
    mine.caught += row.caught;
    mine.random_probe += row.random_probe;
    mine.exact_probe += row.exact_probe;
    mine.named += row.named;
    mine.exact += row.exact;
  }
  matrix.healthy += other.healthy;
  matrix.alarms += other.alarms;
  matrix.misnamed.insert(matrix.misnamed.end(), other.misnamed.begin(), other.misnamed.end());
  if (matrix.misnamed.size() > misnamed_max) matrix.misnamed.resize(misnamed_max);
}

}  // namespace slicecheck::app
