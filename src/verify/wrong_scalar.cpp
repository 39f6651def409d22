#include "verify/wrong_scalar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "verify/other_seed.h"
#include "verify/sentence.h"

namespace slicecheck::verify {
namespace {

std::string value_text(float value) {
  return fmt::format("{:g} (bits 0x{:08x})", value, std::bit_cast<std::uint32_t>(value));
}

std::string_view happened(Flaw flaw) {
  switch (flaw) {
    case Flaw::not_finite_positive:
      return "scales are not finite positive normal numbers";
    case Flaw::rounding:
      return "scalars are off by a rounding";
    case Flaw::reciprocal:
      return "a divisor is used as a multiplier";
    case Flaw::dropped:
      return "a factor is missing";
    case Flaw::stale:
      return "scalars do not fit their expert";
    case Flaw::mixed:
      return "the scalars are another expert's";
    case Flaw::not_gathered:
      return "only one rank's experts have their values";
    case Flaw::misordered:
      return "the values stand in another order";
    case Flaw::input_differs:
      return "the global input scale is not the same bits on every rank";
    case Flaw::other_payload:
      return "the scalars are those of another layer or seed";
    case Flaw::moved:
      return "the scalars stand with their experts in other slots";
    case Flaw::none:
      break;
  }
  return "";
}

report::Finding finding(const Subject& subject, const std::vector<ScalarName>& names,
                        const std::vector<const WrongScalar*>& members, const Widely& where) {
  const WrongScalar& front = *members.front();
  report::Finding made;
  made.cause = name(front.flaw);
  made.side = front.side == Side::stock ? report::Side::stock : report::Side::tp;
  if (front.flaw == Flaw::rounding && front.side == Side::stock) {
    made.severity = report::Severity::warning;
  }
  for (const ScalarName one : names) made.tensors.emplace_back(name(one));
  for (const std::int64_t rank : where.ranks) made.ranks.push_back(subject.ranks[rank]);
  const bool whole = front.expert < 0 || front.flaw == Flaw::not_gathered;
  // An order of more than half of the experts is said of all.
  const bool most =
      front.flaw == Flaw::misordered && front.side == Side::tp &&
      2 * where.experts.size() > static_cast<std::size_t>(subject.layer.shape.experts);
  if (!whole && !most) made.experts = where.experts;
  made.layer = subject.number;
  made.group = subject.group;
  made.text = fmt::format(
      "{}: {} of {} on {}; first {}: {}", happened(front.flaw), fmt::join(made.tensors, ", "),
      listed_experts(made.experts), listed("rank", "ranks", made.ranks),
      front.expert < 0
          ? fmt::format("on rank {}", subject.ranks[front.rank])
          : fmt::format("expert {} on rank {}", front.expert, subject.ranks[front.rank]),
      value_text(front.value));
  if (front.due != 0) made.text += fmt::format(", due {}", value_text(front.due));
  if (front.found.ulp > 0 && front.found.ulp <= 1024) {
    made.text += fmt::format(", {} ulp apart", front.found.ulp);
  }
  if (front.found.other) made.text += fmt::format(", the value of expert {}", *front.found.other);
  if (front.flaw == Flaw::other_payload) made.text += "; " + about_seed(subject, front.seed);
  return made;
}

// Findings of what is of one side and one flaw.
void add_alike(const Subject& subject, Side side, const std::vector<const WrongScalar*>& wrong,
               std::vector<report::Finding>& made) {
  std::map<ScalarName, std::set<Place>> places;
  for (const WrongScalar* one : wrong) {
    std::set<Place>& mine = places[one->name];
    const std::int64_t held = subject.layer.shape.experts_per_rank();
    if (one->flaw == Flaw::not_gathered) {
      for (std::int64_t e = 0; e < subject.layer.shape.experts; ++e) mine.insert({one->rank, e});
    } else if (one->expert >= 0) {
      mine.insert({one->rank, one->expert});
    } else {
      for (std::int64_t e = one->rank * held; e < (one->rank + 1) * held; ++e) {
        mine.insert({one->rank, e});
      }
    }
  }
  std::map<std::set<Place>, std::vector<ScalarName>> names;
  for (const auto& [name, set] : places) names[set].push_back(name);
  for (const auto& [set, alike] : names) {
    for (const Widely& where : widely(subject.layer.shape, side, set)) {
      std::vector<const WrongScalar*> members;
      for (const WrongScalar* one : wrong) {
        const bool named = std::find(alike.begin(), alike.end(), one->name) != alike.end();
        const bool placed =
            std::any_of(where.places.begin(), where.places.end(), [&](const Place& place) {
              return place.rank == one->rank && (one->expert < 0 || one->expert == place.expert);
            });
        if (named && placed) members.push_back(one);
      }
      if (!members.empty()) made.push_back(finding(subject, alike, members, where));
    }
  }
}

}  // namespace

std::string_view name(ScalarName name) {
  constexpr std::array<std::string_view, 5> names{"a1_gscale", "a2_gscale", "g1_alphas",
                                                  "g1_scale_c", "g2_alphas"};
  return names[static_cast<std::size_t>(name)];
}

std::vector<WrongScalar> taken_along(std::vector<WrongScalar>& scalars, Side side,
                                     const std::set<Place>& places) {
  const auto along = [&](const WrongScalar& one) {
    return one.flaw == Flaw::moved && one.side == side && places.contains({one.rank, one.expert});
  };
  std::vector<WrongScalar> made;
  std::copy_if(scalars.begin(), scalars.end(), std::back_inserter(made), along);
  std::erase_if(scalars, along);
  return made;
}

std::int64_t WrongItems::of(std::string_view check) const {
  if (check == "scales.global") return globals;
  if (check == "scales.relation") return relations;
  if (check == "scales.block") return blocks;
  for (const experts::Scalar scalar : experts::all_scalars) {
    if (check == fmt::format("scalars.{}", experts::name(scalar))) {
      return tp[static_cast<std::size_t>(scalar)];
    }
  }
  return 0;
}

WrongItems counted(const std::vector<WrongScalar>& wrong) {
  WrongItems made;
  std::set<std::int64_t> experts;  // of the stock
  for (const WrongScalar& one : wrong) {
    if (one.side == Side::tp) {
      ++made.tp.at(static_cast<int>(one.name) - static_cast<int>(ScalarName::g1_alphas));
    } else if (one.expert < 0) {
      ++made.globals;
    } else {
      experts.insert(one.expert);
    }
  }
  made.relations = static_cast<std::int64_t>(experts.size());
  return made;
}

void add_wrong_scalars(const Subject& subject, const std::vector<WrongScalar>& wrong,
                       std::vector<report::Finding>& made) {
  std::map<std::tuple<Side, Flaw, std::int64_t, std::uint64_t>, std::vector<const WrongScalar*>>
      groups;
  for (const WrongScalar& one : wrong) {
    // Different experts' values and different seeds' are told apart; other flaws are one mistake.
    const std::int64_t other = one.flaw == Flaw::mixed ? one.found.other.value_or(-1) : -1;
    groups[{one.side, one.flaw, other, one.seed}].push_back(&one);
  }
  for (const auto& [key, members] : groups) add_alike(subject, std::get<Side>(key), members, made);
}

}  // namespace slicecheck::verify
