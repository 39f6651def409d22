#include "app/probe_mutants.h"

#include <algorithm>

#include "faults/mutants.h"

namespace slicecheck::app {
namespace {

using layout::PayloadKind;
using Rows = std::vector<LayerRows::Row>;  // of one rank, by route

constexpr std::uint16_t not_a_number = 0x7FC1;
constexpr std::uint16_t infinity = 0xFF80;
constexpr std::uint16_t largest = 0x7F7F;
constexpr std::uint16_t sign = 0x8000;

layout::Shape shape() { return faults::telling_shapes().front(); }
std::int64_t holder(std::int64_t expert) { return expert / shape().experts_per_rank(); }

/// Changes the rows of one expert's routes.
template <typename Change>
void change_rows(Rows& rows, const moe::Routing& routing, std::int64_t expert,
                 const Change& change) {
  for (const std::int64_t route : moe::routes_of(routing, expert)) change(rows[route]);
}

void unserve(LayerRows::Row& row) { row.clear(); }
void clear(LayerRows::Row& row) { std::fill(row.begin(), row.end(), std::uint16_t{0}); }
void negate(LayerRows::Row& row) {
  for (std::uint16_t& element : row) element ^= sign;
}

class Catalogue {
 public:
  explicit Catalogue(PayloadKind kind) : kind_(kind) {}

  std::vector<ProbeMutant> made() {
    add_service();
    add_not_finite();
    add_reference();
    add_bound();
    return std::move(made_);
  }

 private:
  void add(std::string_view fault, std::string_view pattern, std::vector<std::int64_t> experts,
           std::vector<int> ranks, RowsFault plant) {
    ProbeMutant mutant;
    mutant.fault = fault;
    mutant.pattern = pattern;
    mutant.payload = {kind_, 1, 0};
    mutant.plant = std::move(plant);
    mutant.due.cause = fault;
    mutant.due.side = report::Side::probe;
    mutant.due.experts = std::move(experts);
    mutant.due.ranks = std::move(ranks);
    made_.push_back(std::move(mutant));
  }

  void add_service() {
    add("route-unserved", "one expert on no EP rank", {4}, {},
        [](LayerRows& rows, const moe::Routing& routing) {
          change_rows(rows.ep[holder(4)], routing, 4, unserve);
        });
    add("route-unserved", "one route on no EP rank", {1}, {},
        [](LayerRows& rows, const moe::Routing& routing) {
          unserve(rows.ep[holder(1)][moe::routes_of(routing, 1).front()]);
        });
    add("route-unserved", "one expert on one TP rank", {2}, {1},
        [](LayerRows& rows, const moe::Routing& routing) {
          change_rows(rows.tp[1], routing, 2, unserve);
        });
    add("route-served-twice", "one expert", {4}, {0, static_cast<int>(holder(4))},
        [](LayerRows& rows, const moe::Routing& routing) {
          for (const std::int64_t route : moe::routes_of(routing, 4)) {
            rows.ep[0][route] = rows.ep[holder(4)][route];
          }
        });
  }

  void add_not_finite() {
    const auto one = [](std::uint16_t value, std::int64_t expert) {
      return [=](Rows& rows, const moe::Routing& routing) {
        rows[moe::routes_of(routing, expert).back()][7] = value;
      };
    };
    add("rows-not-finite", "NaN in an EP row", {3}, {static_cast<int>(holder(3))},
        [=](LayerRows& rows, const moe::Routing& routing) {
          one(not_a_number, 3)(rows.ep[holder(3)], routing);
        });
    add("rows-not-finite", "infinity in a TP row", {0}, {2},
        [=](LayerRows& rows, const moe::Routing& routing) {
          one(infinity, 0)(rows.tp[2], routing);
        });
    add("rows-not-finite", "finite rows whose sum is not", {5}, {},
        [=](LayerRows& rows, const moe::Routing& routing) {
          one(largest, 5)(rows.tp[0], routing);
          one(largest, 5)(rows.tp[1], routing);
        });
  }

  void add_reference() {
    add("reference-zero", "one expert's EP rows", {4}, {},
        [](LayerRows& rows, const moe::Routing& routing) {
          change_rows(rows.ep[holder(4)], routing, 4, clear);
        });
    add("reference-zero", "all rows", {}, {}, [](LayerRows& rows, const moe::Routing&) {
      for (auto* side : {&rows.ep, &rows.tp}) {
        for (Rows& rank : *side) std::for_each(rank.begin(), rank.end(), clear);
      }
    });
  }

  void add_bound() {
    add("rel-l2-above-bound", "one expert's EP rows negated", {3}, {},
        [](LayerRows& rows, const moe::Routing& routing) {
          change_rows(rows.ep[holder(3)], routing, 3, negate);
        });
    add("rel-l2-above-bound", "one route's EP row negated", {1}, {},
        [](LayerRows& rows, const moe::Routing& routing) {
          negate(rows.ep[holder(1)][moe::routes_of(routing, 1).front()]);
        });
    add("rel-l2-above-bound", "all EP rows negated", {}, {},
        [](LayerRows& rows, const moe::Routing&) {
          for (Rows& rank : rows.ep) std::for_each(rank.begin(), rank.end(), negate);
        });
    if (kind_ == PayloadKind::exact) return;  // there most ranks' rows are zero
    add("rel-l2-above-bound", "one rank's TP rows left out of the sum", {}, {},
        [](LayerRows& rows, const moe::Routing&) {
          std::for_each(rows.tp[1].begin(), rows.tp[1].end(), clear);
        });
  }

  PayloadKind kind_;
  std::vector<ProbeMutant> made_;
};

}  // namespace

std::vector<ProbeMutant> probe_mutants() {
  std::vector<ProbeMutant> made = Catalogue(PayloadKind::numeric).made();
  for (ProbeMutant& one : Catalogue(PayloadKind::exact).made()) made.push_back(std::move(one));
  return made;
}

std::vector<report::Finding> said_of(const ProbeMutant& mutant, MutantProbe& probe) {
  faults::Mutant on;
  on.shape = shape();
  on.payload = mutant.payload;
  return probe.said(on, mutant.plant);
}

}  // namespace slicecheck::app
