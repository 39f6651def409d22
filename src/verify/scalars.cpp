#include "verify/scalars.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/majority.h"
#include "verify/agreed_scalars.h"
#include "verify/gate_up.h"
#include "verify/places.h"
#include "verify/sentence.h"

namespace slicecheck::verify {
namespace {

using experts::Scalar;

ScalarName name_of(Scalar scalar) { return static_cast<ScalarName>(static_cast<int>(scalar) + 2); }

class Scalars {
 public:
  Scalars(const Subject& subject, const Evidence& evidence, const Orders& orders)
      : subject_(subject), evidence_(evidence), orders_(orders), shape_(subject.layer.shape) {
    gather();
  }

  std::vector<WrongScalar> all() {
    judge_globals(ScalarName::a1_gscale);
    judge_globals(ScalarName::a2_gscale);
    for (const RankScalars& rank : evidence_.scalars) {
      if (rank.first_expert) judge_stock(rank);
    }
    name_order_of_stock();
    for (const RankScalars& rank : evidence_.scalars) {
      for (const Scalar scalar : experts::all_scalars) judge_tp(rank, scalar);
    }
    name_mixed();
    return wrong_;
  }

 private:
  float common(ScalarName name) const;
  void gather();
  void judge_globals(ScalarName name);
  void judge_stock(const RankScalars& rank);
  void judge_stock_value(const RankScalars& rank, Scalar scalar, std::int64_t local);
  void judge_relation(const RankScalars& rank, std::int64_t local);
  void name_order_of_stock();
  void judge_tp(const RankScalars& rank, Scalar scalar);
  bool local_only(const RankScalars& rank, const std::vector<float>& values,
                  const std::vector<float>& due) const;
  bool is_replaced(Scalar scalar, std::int64_t expert) const;
  void name_mixed();

  const std::vector<float>& global(const RankScalars& rank, ScalarName name) const {
    return name == ScalarName::a1_gscale ? rank.a1_gscale : rank.a2_gscale;
  }
  const std::vector<float>& due_of(Scalar scalar) const {
    return experts::values_of(subject_.due->values, scalar);
  }
  std::int64_t tolerance() const { return subject_.due->exact ? 0 : 8; }
  bool is_wrong(Side side, ScalarName name, std::int64_t rank, std::int64_t expert) const {
    return std::any_of(wrong_.begin(), wrong_.end(), [&](const WrongScalar& one) {
      return one.side == side && one.name == name && one.rank == rank && one.expert == expert;
    });
  }
  bool input_differs(std::int64_t rank) const {
    return std::any_of(wrong_.begin(), wrong_.end(), [&](const WrongScalar& one) {
      return one.rank == rank && one.expert < 0 && one.side == Side::stock;
    });
  }

  const Subject& subject_;
  const Evidence& evidence_;
  const Orders& orders_;
  const layout::Shape& shape_;
  Globals globals_;
  std::array<std::vector<float>, 3> stock_;  // [E] by slot, empty where a stock is missing
  std::vector<WrongScalar> wrong_;
};

// What most ranks' stocks have as a global scale; of equally many the first rank's.
float Scalars::common(ScalarName name) const {
  std::vector<std::uint32_t> bits;
  for (const RankScalars& rank : evidence_.scalars) {
    if (rank.first_expert) bits.push_back(std::bit_cast<std::uint32_t>(global(rank, name).front()));
  }
  return std::bit_cast<float>(majority(bits));
}

void Scalars::gather() {
  std::map<std::int64_t, const RankScalars*> ranks;
  for (const RankScalars& one : evidence_.scalars) {
    if (one.first_expert) ranks[one.rank] = &one;
  }
  if (!ranks.empty()) globals_ = {common(ScalarName::a1_gscale), common(ScalarName::a2_gscale)};
  if (subject_.due) {
    globals_ = {subject_.due->values.a1_gscale, subject_.due->values.a2_gscale};
  }
  if (static_cast<std::int64_t>(ranks.size()) != shape_.tp) return;
  for (const auto& [number, rank] : ranks) {
    for (std::size_t s = 0; s < 3; ++s) {
      stock_[s].insert(stock_[s].end(), rank->stock[s].begin(), rank->stock[s].end());
    }
  }
}

// Not a scale; not the same bits on every rank: the minority; else not the due value.
void Scalars::judge_globals(ScalarName name) {
  std::map<std::uint32_t, std::vector<const RankScalars*>> by_bits;
  for (const RankScalars& rank : evidence_.scalars) {
    if (!rank.first_expert) continue;
    for (const float value : global(rank, name)) {
      auto& ranks = by_bits[std::bit_cast<std::uint32_t>(value)];
      if (ranks.empty() || ranks.back() != &rank) ranks.push_back(&rank);
    }
  }
  for (auto it = by_bits.begin(); it != by_bits.end();) {
    const float value = std::bit_cast<float>(it->first);
    if (finite_positive(value)) {
      ++it;
      continue;
    }
    for (const RankScalars* rank : it->second) {
      wrong_.push_back(
          {Side::stock, Flaw::not_finite_positive, name, rank->rank, -1, value, 0, {}});
    }
    it = by_bits.erase(it);
  }
  if (by_bits.empty()) return;
  const auto due = !subject_.due                   ? std::optional<float>{}
                   : name == ScalarName::a1_gscale ? subject_.due->values.a1_gscale
                                                   : subject_.due->values.a2_gscale;
  const auto weight = [&](const auto& entry) {
    const bool is_due = due && ulp_distance(std::bit_cast<float>(entry.first), *due) <= 8;
    return std::make_tuple(is_due, entry.second.size(), -entry.second.front()->rank);
  };
  const auto most =
      std::max_element(by_bits.begin(), by_bits.end(),
                       [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
  const float common = std::bit_cast<float>(most->first);
  for (const auto& [bits, ranks] : by_bits) {
    if (bits == most->first) continue;
    const float value = std::bit_cast<float>(bits);
    for (const RankScalars* rank : ranks) {
      wrong_.push_back({Side::stock, Flaw::input_differs, name, rank->rank, -1, value, common, {}});
    }
  }
  if (!due || same_bits(common, *due)) return;
  Found found{Flaw::stale, ulp_distance(common, *due), {}};
  if (found.ulp <= 8 && !subject_.due->exact) return;
  if (found.ulp <= 4) found.flaw = Flaw::rounding;
  if (found.ulp > 4 && found.ulp <= 8) return;
  if (near(static_cast<double>(common) * *due, 1, 4)) found.flaw = Flaw::reciprocal;
  if (common == 1) found.flaw = Flaw::dropped;
  for (const RankScalars* rank : most->second) {
    wrong_.push_back({Side::stock, found.flaw, name, rank->rank, -1, common, *due, found});
  }
}

void Scalars::judge_stock(const RankScalars& rank) {
  for (std::int64_t local = 0; local < shape_.experts_per_rank(); ++local) {
    for (const Scalar scalar : experts::all_scalars) judge_stock_value(rank, scalar, local);
    judge_relation(rank, local);
  }
}

void Scalars::judge_stock_value(const RankScalars& rank, Scalar scalar, std::int64_t local) {
  const float value = rank.stock[static_cast<std::size_t>(scalar)][local];
  const std::int64_t slot = rank.rank * shape_.experts_per_rank() + local;
  WrongScalar made{Side::stock, Flaw::none, name_of(scalar), rank.rank, slot, value, 0, {}};
  if (!finite_positive(value)) {
    made.flaw = Flaw::not_finite_positive;
    wrong_.push_back(made);
    return;
  }
  const auto& gathered = stock_[static_cast<std::size_t>(scalar)];
  if (!subject_.due) {
    const bool all_one = !gathered.empty() && std::all_of(gathered.begin(), gathered.end(),
                                                          [](float v) { return v == 1; });
    if (!all_one) return;
    made.flaw = Flaw::dropped;
    wrong_.push_back(made);
    return;
  }
  const std::vector<float>& due = due_of(scalar);
  const std::int64_t declared = *rank.first_expert + local;
  std::vector<std::int64_t> owners{slot, orders_.stock[slot]};
  if (declared >= 0 && declared < shape_.experts) owners.push_back(declared);
  for (const std::int64_t owner : owners) {
    if (ulp_distance(value, due[owner]) <= tolerance()) return;
  }
  made.due = due[slot];
  // A rank with its own input scale builds its own scalars from it: one mistake.
  if (input_differs(rank.rank)) {
    const double a1 = static_cast<double>(globals_.a1_gscale) / rank.a1_gscale.front();
    const double a2 = static_cast<double>(rank.a2_gscale.front()) / globals_.a2_gscale;
    const double factor = scalar == Scalar::g1_alphas    ? a1
                          : scalar == Scalar::g1_scale_c ? a1 * a2
                                                         : 1 / a2;
    if (near(value, due[slot] * factor, 8)) return;
  }
  if (scalar == Scalar::g1_scale_c && carries_up(*subject_.due, slot, value)) return;
  made.found = flaw_of(scalar, value, due[slot], due, globals_);
  made.flaw = made.found.flaw;
  if (made.flaw == Flaw::stale && made.found.ulp <= 8) return;
  if (made.flaw != Flaw::none) wrong_.push_back(made);
}

// Judged where no due value already says what is wrong.
void Scalars::judge_relation(const RankScalars& rank, std::int64_t local) {
  const std::int64_t slot = rank.rank * shape_.experts_per_rank() + local;
  const std::vector<float>& alphas = rank.stock[0];
  const std::vector<float>& scale_cs = rank.stock[1];
  const float a2 = rank.a2_gscale.front();
  if (is_wrong(Side::stock, ScalarName::g1_alphas, rank.rank, slot) ||
      is_wrong(Side::stock, ScalarName::g1_scale_c, rank.rank, slot) || !finite_positive(a2)) {
    return;
  }
  const float product = alphas[local] * a2;
  if (same_bits(product, scale_cs[local])) return;
  if (input_differs(rank.rank) &&
      near(scale_cs[local], static_cast<double>(alphas[local]) * globals_.a2_gscale, 4)) {
    return;
  }
  if (subject_.due && !subject_.due->up_by_gate.empty() &&
      near(scale_cs[local], static_cast<double>(product) * subject_.due->up_by_gate[slot], 8)) {
    return;
  }
  if (ulp_distance(product, scale_cs[local]) > 4 && subject_.due && !subject_.due->exact &&
      ulp_distance(product, scale_cs[local]) <= 8) {
    return;
  }
  BrokenRelation broken;
  if (stock_[0].empty()) {
    broken = broken_relation(alphas, scale_cs, local, a2);
  } else {
    broken = broken_relation(stock_[0], stock_[1], slot, a2);
  }
  const bool alpha = broken.scalar == Scalar::g1_alphas;
  wrong_.push_back({Side::stock, broken.found.flaw, name_of(broken.scalar), rank.rank, slot,
                    alpha ? alphas[local] : scale_cs[local], alpha ? scale_cs[local] / a2 : product,
                    broken.found});
}

// All due values are there, in another order.
void Scalars::name_order_of_stock() {
  if (!subject_.due) return;
  for (const Scalar scalar : experts::all_scalars) {
    std::vector<float> is = stock_[static_cast<std::size_t>(scalar)];
    std::vector<float> due = due_of(scalar);
    std::sort(is.begin(), is.end());
    std::sort(due.begin(), due.end());
    if (is != due) continue;
    for (WrongScalar& one : wrong_) {
      if (one.side == Side::stock && one.name == name_of(scalar) && one.flaw == Flaw::stale) {
        one.flaw = Flaw::misordered;
      }
    }
  }
}

// The rank's own values (or one rank's) over and over; or at their places, and nothing elsewhere.
bool Scalars::local_only(const RankScalars& rank, const std::vector<float>& values,
                         const std::vector<float>& due) const {
  const std::int64_t held = shape_.experts_per_rank();
  const auto is = [&](std::int64_t at, std::int64_t expert) {
    return same_bits(values[at], due[expert]);
  };
  for (std::int64_t from = 0; from < shape_.tp; ++from) {
    bool tiled = true;
    for (std::int64_t e = 0; e < shape_.experts; ++e) {
      tiled = tiled && is(e, from * held + e % held);
    }
    if (tiled) return true;
  }
  if (shape_.experts < held + 2) return false;  // one value elsewhere is that expert's own flaw
  for (const std::int64_t begin : {rank.rank * held, std::int64_t{0}}) {
    bool local = true;
    std::optional<float> rest;
    for (std::int64_t e = 0; e < shape_.experts; ++e) {
      if (e >= begin && e < begin + held) {
        local = local && is(e, rank.rank * held + e - begin);
      } else {
        if (!rest) rest = values[e];
        local = local && same_bits(*rest, values[e]) && !is(e, e);
      }
    }
    if (local) return true;
  }
  return false;
}

// True where a true stock's slot holds another expert and its scalar: what is due nobody says.
bool Scalars::is_replaced(Scalar scalar, std::int64_t expert) const {
  const std::vector<float>& stock = stock_[static_cast<std::size_t>(scalar)];
  const std::int64_t held = orders_.stock[expert];
  return !subject_.due && held != expert && same_bits(stock[expert], stock[held]);
}

void Scalars::judge_tp(const RankScalars& rank, Scalar scalar) {
  const std::vector<float>& values = rank.tp[static_cast<std::size_t>(scalar)];
  if (values.empty()) return;
  const std::vector<float>& stock = stock_[static_cast<std::size_t>(scalar)];
  const bool known = !stock.empty() || subject_.due.has_value();
  if (!known) {
    for (std::int64_t e = 0; e < shape_.experts; ++e) {
      if (finite_positive(values[e])) continue;
      wrong_.push_back(
          {Side::tp, Flaw::not_finite_positive, name_of(scalar), rank.rank, e, values[e], 0, {}});
    }
    return;
  }
  const std::vector<float> due =
      stock.empty() ? agreed_scalars(evidence_, scalar, due_of(scalar), tolerance()) : stock;
  // The true value is no second mistake beside a stock that is wrong.
  const auto is = [&](std::int64_t e, std::int64_t held) {
    return same_bits(values[e], due[held]) ||
           (subject_.due && same_bits(values[e], due_of(scalar)[held]) &&
            ulp_distance(due[held], due_of(scalar)[held]) > tolerance());
  };
  std::vector<std::int64_t> bad;
  for (std::int64_t e = 0; e < shape_.experts; ++e) {
    const std::int64_t held = orders_.tp[rank.rank][e];
    const bool carries =
        stock.empty() && scalar == Scalar::g1_scale_c && carries_up(*subject_.due, e, values[e]);
    if (is(e, e) || carries) continue;
    if (is_replaced(scalar, e) && finite_positive(values[e])) continue;
    if (is(e, held)) {
      wrong_.push_back({Side::tp,
                        Flaw::moved,
                        name_of(scalar),
                        rank.rank,
                        e,
                        values[e],
                        due[e],
                        {Flaw::moved, 0, held}});
    } else {
      bad.push_back(e);
    }
  }
  if (bad.empty()) return;
  std::vector<float> sorted_values = values;
  std::vector<float> sorted_due = due;
  std::sort(sorted_values.begin(), sorted_values.end());
  std::sort(sorted_due.begin(), sorted_due.end());
  Flaw all = Flaw::none;
  if (local_only(rank, values, due)) {
    all = Flaw::not_gathered;
  } else if (sorted_values == sorted_due) {
    all = Flaw::misordered;
  }
  for (const std::int64_t e : bad) {
    const Found found = flaw_of(scalar, values[e], due[e], due, globals_);
    wrong_.push_back({Side::tp, all == Flaw::none ? found.flaw : all, name_of(scalar), rank.rank, e,
                      values[e], due[e], found});
  }
}

// All three scalars of an expert are those of one other expert.
void Scalars::name_mixed() {
  std::map<std::tuple<Side, std::int64_t, std::int64_t>, std::vector<WrongScalar*>> places;
  for (WrongScalar& one : wrong_) {
    if (one.flaw == Flaw::stale && one.found.other) {
      places[{one.side, one.rank, one.expert}].push_back(&one);
    }
  }
  for (auto& [place, all] : places) {
    const auto as_the_first = [first = all[0]](const WrongScalar* one) {
      return one->found.other == first->found.other;
    };
    const bool mixed = all.size() == 3 && std::all_of(all.begin(), all.end(), as_the_first);
    if (!mixed) continue;
    for (WrongScalar* one : all) one->flaw = Flaw::mixed;
  }
}

}  // namespace

std::vector<WrongScalar> wrong_scalars(const Subject& subject, const Evidence& evidence,
                                       const Orders& orders) {
  return Scalars(subject, evidence, orders).all();
}

bool refuses(const report::Finding& finding) {
  constexpr std::array<std::string_view, 5> causes{
      "not-linear-placement", "input-scale-differs-across-ranks", "scale-not-finite-positive",
      "shape-unsupported", "shape-differs-across-ranks"};
  return finding.side == report::Side::stock &&
         std::find(causes.begin(), causes.end(), finding.cause) != causes.end();
}

}  // namespace slicecheck::verify
