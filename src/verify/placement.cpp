#include "verify/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace slicecheck::verify {
namespace {

using Order = std::vector<std::int64_t>;

Order identity(std::int64_t experts) {
  Order order(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

// w2 of payload `exact` is the same in every expert: it can neither say nor deny.
bool says_nothing(const Subject& subject, layout::Kind kind) {
  return kind == layout::Kind::w2 && subject.payload &&
         subject.payload->kind == layout::PayloadKind::exact;
}

// Per slot of one side (and rank): the experts whose bytes its four tensors hold.
using Slots = std::vector<std::array<std::int64_t, 4>>;

Slots slots_of(const Subject& subject, const std::vector<WrongTensor>& wrong, Side side,
               std::int64_t rank) {
  Slots slots;
  for (std::int64_t e = 0; e < subject.layer.shape.experts; ++e) slots.push_back({e, e, e, e});
  for (const WrongTensor& one : wrong) {
    if (one.target.side != side || (side == Side::tp && one.target.rank != rank)) continue;
    slots[one.target.expert][static_cast<std::size_t>(one.target.kind)] = one.map.expert;
  }
  return slots;
}

Order order_of(const Subject& subject, const Slots& slots) {
  Order order = identity(static_cast<std::int64_t>(slots.size()));
  for (std::size_t e = 0; e < slots.size(); ++e) {
    const std::int64_t held = slots[e][0];
    const bool whole =
        std::all_of(layout::kinds.begin(), layout::kinds.end(), [&](layout::Kind kind) {
          return says_nothing(subject, kind) || slots[e][static_cast<std::size_t>(kind)] == held;
        });
    if (whole) order[e] = held;
  }
  return order;
}

bool is_permutation_of_all(Order order) {
  std::sort(order.begin(), order.end());
  return order == identity(static_cast<std::int64_t>(order.size()));
}

bool is_round_robin(const Order& order, const layout::Shape& shape) {
  const std::int64_t held = shape.experts_per_rank();
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    if (order[e] != e / held + e % held * shape.tp) return false;
  }
  return true;
}

// Whole ranks' experts, each in its own order, on other ranks.
bool is_rank_order(const Order& order, const layout::Shape& shape) {
  const std::int64_t held = shape.experts_per_rank();
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    if (order[e] % held != e % held || order[e] / held != order[e / held * held] / held) {
      return false;
    }
  }
  return true;
}

// Er = tp only: the receive buffer [tp, Er] read as [Er, tp] gives the same order.
bool is_transposed_too(const Order& order, const layout::Shape& shape) {
  const std::int64_t held = shape.experts_per_rank();
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    if (order[e] != e % shape.tp * held + e / shape.tp) return false;
  }
  return true;
}

struct Named {
  Cause cause = Cause::placement_permuted;
  std::optional<Cause> also;
};

Named named(const Order& order, const layout::Shape& shape, Side side) {
  if (!is_permutation_of_all(order)) return {Cause::expert_duplicated, {}};
  if (is_round_robin(order, shape)) {
    if (is_transposed_too(order, shape)) {
      return {Cause::placement_round_robin, Cause::placement_permuted};
    }
    return {Cause::placement_round_robin, {}};
  }
  if (side == Side::stock && is_rank_order(order, shape)) {
    return {Cause::rank_order, Cause::placement_permuted};
  }
  return {Cause::placement_permuted, {}};
}

// The slice and expert that slot `expert` of a rank gets when both axes are exchanged.
bool is_transposed(const WrongTensor& one, const layout::Shape& shape) {
  const std::int64_t held = shape.experts_per_rank();
  const std::int64_t at = one.target.rank * held + one.target.expert % held;
  return one.map.expert == one.target.expert / held * held + at / shape.tp &&
         one.map.slice == at % shape.tp && one.map.gate_ahead == 0;
}

void name_transposed(const layout::Shape& shape, std::vector<WrongTensor>& wrong) {
  for (const layout::Kind kind : layout::kinds) {
    bool all = true;
    bool slices = false;
    bool experts = false;
    const auto moved = [&](const WrongTensor& one) {
      return one.target.side == Side::tp && one.target.kind == kind &&
             (one.causes.has(Cause::placement_permuted) || one.causes.has(Cause::wrong_slice));
    };
    for (const WrongTensor& one : wrong) {
      if (!moved(one)) continue;
      all = all && is_transposed(one, shape);
      slices = slices || one.causes.has(Cause::wrong_slice);
      experts = experts || one.causes.has(Cause::placement_permuted);
    }
    if (!all || !slices || !experts) continue;
    for (WrongTensor& one : wrong) {
      if (!moved(one)) continue;
      one.causes.remove(Cause::placement_permuted);
      one.causes.add(Cause::wrong_slice);
      one.axes_exchanged = true;
    }
  }
}

// A rank whose four tensors hold one other slice in every expert.
void name_rank_order(const layout::Shape& shape, std::vector<WrongTensor>& wrong) {
  for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
    std::int64_t count = 0;
    std::optional<std::int64_t> slice;
    bool one_slice = true;
    const auto sliced = [&](const WrongTensor& one) {
      return one.target.side == Side::tp && one.target.rank == rank &&
             one.causes.has(Cause::wrong_slice) && one.map.expert == one.target.expert &&
             one.map.gate_ahead == 0;
    };
    for (const WrongTensor& one : wrong) {
      if (!sliced(one)) continue;
      ++count;
      if (!slice) slice = one.map.slice;
      one_slice = one_slice && *slice == one.map.slice;
    }
    if (!one_slice || count != 4 * shape.experts) continue;
    for (WrongTensor& one : wrong) {
      if (!sliced(one)) continue;
      one.causes.remove(Cause::wrong_slice);
      one.causes.add(Cause::rank_order);
      one.alternatives.add(Cause::wrong_slice);
    }
  }
}

bool as_declared(const Subject& subject, const Evidence& evidence, const WrongTensor& one) {
  if (one.target.side != Side::stock) return false;
  const std::int64_t held = subject.layer.shape.experts_per_rank();
  for (const RankScalars& rank : evidence.scalars) {
    if (rank.rank != one.target.rank || !rank.first_expert) continue;
    return one.map.expert == *rank.first_expert + one.target.expert % held;
  }
  return false;
}

}  // namespace

Orders orders_of(const Subject& subject, const std::vector<WrongTensor>& wrong) {
  Orders made;
  made.stock = order_of(subject, slots_of(subject, wrong, Side::stock, 0));
  for (std::int64_t rank = 0; rank < subject.layer.shape.tp; ++rank) {
    made.tp.push_back(order_of(subject, slots_of(subject, wrong, Side::tp, rank)));
  }
  return made;
}

void add_declared(const Subject& subject, const Evidence& evidence,
                  std::vector<report::Finding>& made) {
  const std::int64_t held = subject.layer.shape.experts_per_rank();
  report::Finding one;
  std::vector<std::string> lines;
  for (const RankScalars& rank : evidence.scalars) {
    if (!rank.first_expert || *rank.first_expert == rank.rank * held) continue;
    one.ranks.push_back(subject.ranks[rank.rank]);
    lines.push_back(fmt::format("rank {} holds experts from {}, not {}", subject.ranks[rank.rank],
                                *rank.first_expert, rank.rank * held));
  }
  if (lines.empty()) return;
  std::sort(one.ranks.begin(), one.ranks.end());
  constexpr std::size_t shown = 12;
  if (lines.size() > shown) {
    lines.resize(shown);
    lines.emplace_back("...");
  }
  if (static_cast<std::int64_t>(one.ranks.size()) == subject.layer.shape.tp) one.ranks.clear();
  one.cause = "not-linear-placement";
  one.side = report::Side::stock;
  one.layer = subject.number;
  one.group = subject.group;
  one.text = fmt::format("{} (linear placement)", fmt::join(lines, ", "));
  made.push_back(one);
}

void name_placement(const Subject& subject, const Evidence& evidence, const Orders& orders,
                    std::vector<WrongTensor>& wrong) {
  const layout::Shape& shape = subject.layer.shape;
  name_transposed(shape, wrong);
  name_rank_order(shape, wrong);
  for (WrongTensor& one : wrong) {
    if (!one.causes.has(Cause::placement_permuted)) continue;
    one.causes.remove(Cause::placement_permuted);
    if (as_declared(subject, evidence, one)) continue;
    const Order& order = one.target.side == Side::stock ? orders.stock : orders.tp[one.target.rank];
    if (order[one.target.expert] != one.map.expert) {
      one.causes.add(Cause::expert_mixed);
      continue;
    }
    const Named name = named(order, shape, one.target.side);
    one.causes.add(name.cause);
    if (name.also) one.alternatives.add(*name.also);
  }
  std::erase_if(wrong, [](const WrongTensor& one) { return one.causes.count() == 0; });
}

}  // namespace slicecheck::verify
