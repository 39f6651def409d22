#include "verify/name.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "verify/gate_up.h"
#include "verify/other_seed.h"
#include "verify/other_widths.h"
#include "verify/placement.h"
#include "verify/places.h"
#include "verify/scalars.h"
#include "verify/sentence.h"
#include "verify/twins.h"

namespace slicecheck::verify {
namespace {

using layout::Kind;

void step(const Subject& subject) {
  if (subject.moved) subject.moved();
}

auto place_key(const WrongTensor& one) {
  return std::make_tuple(one.target.side, one.target.rank, one.target.expert, one.target.kind);
}

const WrongTensor* at(const std::vector<WrongTensor>& sorted, const Target& target) {
  WrongTensor key;
  key.target = target;
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), key,
                       [](const auto& a, const auto& b) { return place_key(a) < place_key(b); });
  return found != sorted.end() && place_key(*found) == place_key(key) ? &*found : nullptr;
}

// The tensors that stand for a mistake of their own: a tp tensor that is the exact cut of a wrong
// stock does not, and of what else is wrong with it the stock's share goes.
std::vector<WrongTensor> standing(const Subject& subject, const Evidence& evidence) {
  std::vector<WrongTensor> all = evidence.wrong;
  name_twins(subject, all);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return place_key(a) < place_key(b); });
  std::map<std::tuple<Kind, std::int64_t, std::int64_t>, Digest> cuts;
  for (const CutOfWrongStock& cut : evidence.cuts) {
    cuts[{cut.kind, cut.expert, cut.rank}] = cut.digest;
  }
  std::vector<WrongTensor> made;
  for (WrongTensor one : all) {
    step(subject);
    const Target& target = one.target;
    if (target.side == Side::tp) {
      const auto cut = cuts.find({target.kind, target.expert, target.rank});
      if (cut != cuts.end() && cut->second == one.digest) continue;
      const std::int64_t holder = target.expert / subject.layer.shape.experts_per_rank();
      const WrongTensor* stock = at(all, {Side::stock, target.kind, holder, target.expert});
      if (stock != nullptr && one.differing == 0) continue;  // the stock's scales, cut
      if (stock != nullptr) {
        Causes own = one.causes;
        for (const Cause cause : stock->causes.list()) own.remove(cause);
        if (own.count() > 0) one.causes = own;
      }
    }
    made.push_back(one);
  }
  return made;
}

Kind weight_of(Kind scale) { return scale == Kind::w13_sf ? Kind::w13 : Kind::w2; }

bool has(const std::vector<WrongTensor>& wrong, Target target, Kind kind, Cause cause) {
  target.kind = kind;
  const WrongTensor* found = at(wrong, target);
  return found != nullptr && found->causes.has(cause);
}

// True where a rank behind the first holds the front of the whole w2, as cut by nobody.
bool is_front(const WrongTensor& one) {
  return one.target.side == Side::tp && one.target.rank > 0 && one.map.cut == CutWay::flat &&
         one.map.slice == 0 && one.map.expert == one.target.expert;
}

// Tensors that were not cut, of which every rank holds the front: w2 by it, on the first rank a
// flat cut's piece; what lies beside it and has slice 0 at its front.
void join_uncut(std::vector<WrongTensor>& wrong) {
  std::set<std::pair<Kind, std::int64_t>> uncut;  // w2 and w2_sf, expert
  std::set<Place> places;
  for (const WrongTensor& one : wrong) {
    if (!is_front(one)) continue;
    uncut.insert({one.target.kind, one.target.expert});
    places.insert({one.target.rank, one.target.expert});
  }
  for (WrongTensor& one : wrong) {
    if (one.target.side != Side::tp || one.map.slice != 0 || one.map.gate_ahead != 0) continue;
    const bool w2 = one.causes.has(Cause::flat_cut) && (one.target.rank == 0 || is_front(one)) &&
                    uncut.contains({one.target.kind, one.target.expert});
    const bool front =
        one.causes.has(Cause::wrong_slice) && places.contains({one.target.rank, one.target.expert});
    if (!w2 && !front) continue;
    one.causes.remove(Cause::flat_cut);
    one.causes.remove(Cause::wrong_slice);
    one.causes.add(Cause::wrong_axis_cut);
    one.alternatives = Causes{};
  }
}

// One mistake shows in several tensors of an expert; what it is called depends on all of them.
void join_kinds(std::vector<WrongTensor>& wrong) {
  const std::vector<WrongTensor> before = wrong;
  for (WrongTensor& one : wrong) {
    const Kind kind = one.target.kind;
    const auto beside = [&](Cause cause) {
      return std::any_of(layout::kinds.begin(), layout::kinds.end(),
                         [&](Kind k) { return has(before, one.target, k, cause); });
    };
    const auto rename = [&](Cause from, Cause to) {
      one.causes.remove(from);
      one.causes.add(to);
    };
    if (one.causes.has(Cause::flat_cut)) {
      if (beside(Cause::wrong_axis_cut)) {
        rename(Cause::flat_cut, Cause::wrong_axis_cut);
      } else if (one.causes.count() == 1) {
        one.alternatives.add(Cause::wrong_axis_cut);
      }
    }
    if (!one.causes.has(Cause::rows_not_shuffled)) continue;
    if (!layout::is_scale(kind) && beside(Cause::not_converted)) {
      rename(Cause::rows_not_shuffled, Cause::not_converted);
    } else if (layout::is_scale(kind) &&
               !has(before, one.target, weight_of(kind), Cause::rows_not_shuffled) &&
               !has(before, one.target, weight_of(kind), Cause::not_converted)) {
      rename(Cause::rows_not_shuffled, Cause::scale_rows_not_shuffled);
    }
  }
}

// A cause that gives the same bytes as another is called by that other's name where a tensor beside
// it, of the same place, can be nothing else: one mistake did both.
void join_alternatives(std::vector<WrongTensor>& wrong) {
  const std::vector<WrongTensor> before = wrong;
  for (WrongTensor& one : wrong) {
    if (one.causes.count() != 1 || one.alternatives.count() == 0) continue;
    const Cause own = one.causes.list().front();
    Causes sure;
    for (const Kind kind : layout::kinds) {
      Target beside = one.target;
      beside.kind = kind;
      const WrongTensor* found = at(before, beside);
      if (found != nullptr && found->causes.count() == 1 && found->alternatives.count() == 0) {
        sure = sure.either(found->causes);
      }
    }
    const std::vector<Cause> fitting = one.alternatives.both(sure).list();
    if (sure.has(own) || fitting.empty()) continue;
    one.causes.remove(own);
    one.causes.add(fitting.front());
    one.alternatives.remove(fitting.front());
    one.alternatives.add(own);
  }
}

// A drift grows from expert to expert by the same step; a shift of one expert alone is none.
void join_drifts(const Subject& subject, std::vector<WrongTensor>& wrong) {
  std::map<std::tuple<Side, std::int64_t, Kind>, std::vector<WrongTensor*>> tensors;
  for (WrongTensor& one : wrong) {
    tensors[{one.target.side, one.target.rank, one.target.kind}].push_back(&one);
  }
  const layout::Shape& shape = subject.layer.shape;
  for (auto& [key, all] : tensors) {
    const bool stock = std::get<Side>(key) == Side::stock;
    const std::int64_t slots = stock ? shape.experts_per_rank() : shape.experts;
    const auto slot = [&](const WrongTensor& one) {
      return stock ? one.target.expert % slots : one.target.expert;
    };
    std::int64_t step = 0;
    std::int64_t drifted = 0;
    bool steady = true;
    for (const WrongTensor* one : all) {
      if (!one->causes.has(Cause::expert_offset_drift)) continue;
      const std::int64_t k = slot(*one);
      if (k == 0 || one->shift % k != 0) {
        steady = false;
        continue;
      }
      if (step == 0) step = one->shift / k;
      steady = steady && one->shift == step * k;
      ++drifted;
    }
    const bool named = steady && drifted > 0 && 2 * drifted >= slots - 1;
    // Experts written too close lie over the end of the first one, too.
    const auto shifted = [&](const WrongTensor& one) {
      return slot(one) > 0 || (step > 0 && one.first >= one.bytes - step);
    };
    for (WrongTensor* one : all) {
      if (named && shifted(*one)) {
        one->causes = Causes{};
        one->causes.add(Cause::expert_offset_drift);
        one->shift = step;
      } else if (!named && one->causes.has(Cause::expert_offset_drift)) {
        one->causes.remove(Cause::expert_offset_drift);
        one->causes.add(Cause::unexplained);
        one->explained = 0;
      }
    }
  }
}

using Group = std::tuple<Side, Cause, std::uint64_t>;

// Where a group's places are said. Some faults leave places between them as they are: the middle of
// an order, or what an exchange of axes maps to itself.
std::vector<Widely> statements(const Subject& subject, const Group& group,
                               const std::vector<const WrongTensor*>& members,
                               const std::set<Place>& places) {
  const layout::Shape& shape = subject.layer.shape;
  const Cause cause = std::get<Cause>(group);
  // What is wrong with an order of all experts, or of whole ranks, is no expert's.
  if (cause == Cause::placement_round_robin ||
      (cause == Cause::rank_order && std::get<Side>(group) == Side::stock)) {
    Widely all = at_once(shape, places);
    all.experts.clear();
    return {all};
  }
  const bool exchanged =
      cause == Cause::wrong_slice &&
      std::all_of(members.begin(), members.end(), [](auto* one) { return one->axes_exchanged; });
  if (exchanged) return {at_once(shape, places)};
  return widely(shape, std::get<Side>(group), places);
}

// What is wrong at the same places.
struct Alike {
  std::vector<Kind> kinds;
  std::vector<WrongScalar> scalars;
};

// The members of a group at the places of one statement.
Members members_at(const std::vector<WrongTensor>& wrong, Side side, const Alike& alike,
                   const std::vector<Place>& places) {
  Members made;
  for (const Place& place : places) {
    for (const Kind kind : alike.kinds) {
      made.tensors.push_back(at(wrong, {side, kind, place.rank, place.expert}));
    }
    std::copy_if(alike.scalars.begin(), alike.scalars.end(), std::back_inserter(made.scalars),
                 [&](const WrongScalar& one) {
                   return one.rank == place.rank && one.expert == place.expert;
                 });
  }
  return made;
}

report::Finding finding(const Subject& subject, const std::vector<WrongTensor>& wrong,
                        const Group& group, const Alike& alike, const Widely& where) {
  const auto& [side, cause, parameter] = group;
  report::Finding made;
  made.cause = name(cause);
  made.severity =
      cause == Cause::block_scale_saturated ? report::Severity::warning : report::Severity::error;
  made.side = side == Side::stock ? report::Side::stock : report::Side::tp;
  for (const Kind kind : alike.kinds) made.tensors.emplace_back(layout::name(kind));
  std::set<ScalarName> names;
  for (const WrongScalar& one : alike.scalars) {
    const bool here =
        std::count(where.places.begin(), where.places.end(), Place{one.rank, one.expert}) > 0;
    if (here) names.insert(one.name);
  }
  for (const ScalarName one : names) made.tensors.emplace_back(name(one));
  for (const std::int64_t rank : where.ranks) made.ranks.push_back(subject.ranks[rank]);
  made.experts = where.experts;
  made.layer = subject.number;
  made.group = subject.group;
  say(subject, cause, members_at(wrong, side, alike, where.places), made);
  return made;
}

bool moves_experts(Cause cause) {
  return cause == Cause::placement_round_robin || cause == Cause::placement_permuted ||
         cause == Cause::expert_duplicated || cause == Cause::rank_order ||
         cause == Cause::wrong_slice;
}

// Block scales that are none, or saturated.
std::int64_t wrong_blocks(const std::vector<WrongTensor>& wrong) {
  std::int64_t made = 0;
  for (const WrongTensor& one : wrong) {
    const bool is =
        one.causes.has(Cause::block_scale_invalid) || one.causes.has(Cause::block_scale_saturated);
    if (is) made += one.beside;
  }
  return made;
}

// Kinds that are wrong at the same places are said together.
std::map<std::set<Place>, std::vector<Kind>> by_places(const std::vector<const WrongTensor*>& all) {
  std::map<Kind, std::set<Place>> places;
  for (const WrongTensor* one : all) {
    places[one->target.kind].insert({one->target.rank, one->target.expert});
  }
  std::map<std::set<Place>, std::vector<Kind>> made;
  for (const auto& [kind, set] : places) made[set].push_back(kind);
  return made;
}

}  // namespace

std::vector<report::Finding> findings(const Subject& subject, const Evidence& evidence) {
  return judgement(subject, evidence).findings;
}

Judgement judgement(const Subject& subject, const Evidence& evidence) {
  std::vector<WrongTensor> wrong = standing(subject, evidence);
  const Orders orders = orders_of(subject, wrong);
  step(subject);
  join_uncut(wrong);
  step(subject);
  join_kinds(wrong);
  join_alternatives(wrong);
  step(subject);
  join_drifts(subject, wrong);
  step(subject);
  name_seeds(subject, wrong);
  step(subject);
  name_placement(subject, evidence, orders, wrong);
  step(subject);

  std::vector<WrongScalar> scalars = wrong_scalars(subject, evidence, orders);
  WrongItems items = counted(scalars);
  items.blocks = wrong_blocks(wrong);
  name_seeds(subject, wrong, scalars);
  drop_scalars_of_other_widths(subject, wrong, scalars);
  std::map<Group, std::vector<const WrongTensor*>> groups;
  for (const WrongTensor& one : wrong) {
    for (const Cause cause : one.causes.list()) {
      const std::uint64_t parameter = cause == Cause::payload_of_other_layer ? one.seed : 0;
      groups[{one.target.side, cause, parameter}].push_back(&one);
    }
  }
  std::vector<report::Finding> made;
  for (const auto& [group, members] : groups) {
    const auto& [side, cause, seed] = group;
    for (const auto& [places, kinds] : by_places(members)) {
      Alike alike{kinds, {}};
      if (cause == Cause::payload_of_other_layer)
        alike.scalars = taken(scalars, side, seed, places);
      if (moves_experts(cause)) alike.scalars = taken_along(scalars, side, places);
      for (const Widely& where : statements(subject, group, members, places)) {
        step(subject);
        made.push_back(finding(subject, wrong, group, alike, where));
      }
    }
  }
  add_declared(subject, evidence, made);
  add_wrong_scalars(subject, scalars, made);
  const std::optional<report::Finding> mismatch = gate_up_mismatch(subject, evidence);
  if (mismatch) {
    const auto experts = static_cast<std::int64_t>(mismatch->experts.size());
    items.relations =
        std::max(items.relations, experts == 0 ? subject.layer.shape.experts : experts);
  }
  if (mismatch) made.push_back(*mismatch);
  std::stable_sort(made.begin(), made.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.side, a.severity) < std::make_pair(b.side, b.severity);
  });
  if (made.size() > findings_max) made.resize(findings_max);
  return {std::move(made), items};
}

}  // namespace slicecheck::verify
