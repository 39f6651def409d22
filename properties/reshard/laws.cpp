// The laws of the reshard, over whatever group carries it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/digest.h"
#include "properties/law.h"
#include "properties/reshard/stock.h"
#include "reshard/reshard.h"

namespace slicecheck::properties {
namespace {

using experts::Scalar;
using experts::StockExperts;
using experts::TpExperts;
using layout::Kind;

// Where a tensor of this rank is not what is due, or nothing.
Reason different(std::string_view name, const Tensor& got, const Tensor& due, int rank) {
  if (got.dtype != due.dtype || got.extents != due.extents || got.data == nullptr) {
    return Reason(
        fmt::format("{} of rank {} is {}, expected {}", name, rank, text(got), text(due)));
  }
  const Bytes mine = host_bytes(got);
  const auto at = std::mismatch(mine.begin(), mine.end(), host_bytes(due).begin());
  if (at.first == mine.end()) return {};
  return Reason(fmt::format("{} of rank {} has {:02x} at byte {}, expected {:02x}", name, rank,
                            *at.first, at.first - mine.begin(), *at.second));
}

Reason different(const TpExperts& got, const TpExperts& due, int rank) {
  for (const Kind kind : layout::kinds) {
    Reason reason = different(name(kind), tensor_of(got, kind), tensor_of(due, kind), rank);
    if (reason) return reason;
  }
  for (const Scalar scalar : experts::all_scalars) {
    Reason reason = different(name(scalar), tensor_of(got, scalar), tensor_of(due, scalar), rank);
    if (reason) return reason;
  }
  if (got.intermediate == due.intermediate && got.num_experts == due.num_experts) return {};
  return Reason(fmt::format("rank {} has {} experts of slice {}, expected {} of {}", rank,
                            got.num_experts, got.intermediate, due.num_experts, due.intermediate));
}

Digest digest_of(const StockExperts& stock) {
  DigestStream all;
  for (const Kind kind : layout::kinds) all.add(host_bytes(tensor_of(stock, kind)));
  for (const Scalar scalar : experts::all_scalars) all.add(host_bytes(tensor_of(stock, scalar)));
  all.add(host_bytes(stock.a1_gscale));
  all.add(host_bytes(stock.a2_gscale));
  return all.of();
}

using Way = decltype(Subject::reshard);

/// The tp experts of a stock, or why there are none. Collective: a refusal is of all ranks.
Result<TpExperts> resharded(const StockExperts& stock, std::int64_t experts, Way way,
                            group::Group& group) {
  try {
    return way(stock, group, experts);
  } catch (const group::Refusal& refusal) {
    return Reason(refusal.what());
  }
}

/// What a way of the exchange makes of a sound stock that is not due, or nothing. Collective.
Reason not_what_is_due(const StockExperts& stock, const TpExperts& due, Way way,
                       group::Group& group) {
  const Digest before = digest_of(stock);
  const Result<TpExperts> tp = resharded(stock, due.num_experts, way, group);
  if (tp.reason) return Reason(fmt::format("refused what is sound: {}", tp.reason.text()));
  if (digest_of(stock) != before) {
    return Reason(fmt::format("the stock of rank {} has changed", group.rank()));
  }
  return different(*tp, due, group.rank());
}

// Both ways are tried whatever the first gave: no rank leaves the others alone in the second.
Reason not_the_conversion_of_the_slice(const Case& given, const Subject& subject,
                                       group::Group& group) {
  const StockExperts stock = experts::payload_stock(given.payload, given.shape, group.rank());
  const TpExperts due = experts::payload_tp(given.payload, given.shape, group.rank());
  Reason first = not_what_is_due(stock, due, subject.reshard, group);
  const Reason second = not_what_is_due(stock, due, subject.streamed, group);
  if (first || !second) return first;
  return Reason(fmt::format("streamed: {}", second.text()));
}

// Any finite positive normal number, by expert and scalar: the exponent is not 0 or 255.
float any_scalar(const Case& given, std::int64_t expert, std::int64_t j) {
  const std::int64_t whose = given.scales == Scales::equal ? 0 : expert;
  const std::uint64_t key = layout::word_key(given.payload.seed, whose, 7);
  const auto bits = static_cast<std::uint32_t>(layout::weight_word(key, 16 + j));
  return std::bit_cast<float>((1 + (bits >> 23) % 254) << 23 | (bits & 0x7FFFFF));
}

experts::Scalars any_scalars(const Case& given, std::int64_t first, std::int64_t count) {
  experts::Scalars made;
  for (std::int64_t e = first; e < first + count; ++e) {
    made.g1_alphas.push_back(any_scalar(given, e, 0));
    made.g1_scale_c.push_back(any_scalar(given, e, 1));
    made.g2_alphas.push_back(any_scalar(given, e, 2));
  }
  made.a1_gscale = any_scalar(given, 0, 3);
  made.a2_gscale = any_scalar(given, 0, 4);
  return made;
}

// The scalars alone, of one tile a rank: they do not depend on the widths.
Reason scalars_not_in_expert_order(const Case& given, const Subject& subject, group::Group& group) {
  const std::int64_t held = given.shape.experts_per_rank();
  const layout::Shape small{given.shape.experts, 128, 64 * given.shape.tp, given.shape.tp};
  const std::int64_t first = group.rank() * held;
  const StockExperts stock = experts::stock_of(small, any_scalars(given, first, held), first);
  const Result<TpExperts> tp = resharded(stock, small.experts, subject.reshard, group);
  if (tp.reason) return Reason(fmt::format("refused what is sound: {}", tp.reason.text()));
  const TpExperts due = experts::tp_of(small, any_scalars(given, 0, small.experts));
  for (const Scalar scalar : experts::all_scalars) {
    Reason reason =
        different(name(scalar), tensor_of(*tp, scalar), tensor_of(due, scalar), group.rank());
    if (reason) return reason;
  }
  return {};
}

Reason not_refused_alike(const Case& given, const Subject& subject, group::Group& group) {
  const Given mine = given_to(given, group.rank());
  const Result<TpExperts> tp = resharded(mine.stock, mine.experts, subject.reshard, group);
  // Whoever left the others alone in there would be missed here.
  const std::int64_t refused = group.least(tp.reason ? 1 : 0);
  if (refused == 0) {
    return Reason(fmt::format("rank {} {}, the fault {} of rank {} does not reach all",
                              group.rank(), tp.reason ? "refuses" : "goes on", name(given.fault),
                              given.fault_rank));
  }
  const std::string due = fmt::format("{}: {}", reshard::refusal, due_sentence(given));
  const std::string& said = tp.reason.text();
  if (said.starts_with(due) && said.find(due_name(given)) != std::string::npos) return {};
  return Reason(fmt::format("rank {} refuses with \"{}\", expected \"{}\" {}", group.rank(), said,
                            due, due_name(given)));
}

// The lowest rank that does not hold its linear share, in its words, and how many more there are.
std::string due_refusal(const Case& given) {
  const std::int64_t held = given.shape.experts_per_rank();
  std::string made;
  std::int64_t more = 0;
  for (std::int64_t rank = 0; rank < given.shape.tp; ++rank) {
    const std::int64_t first = misplaced_first(given, rank);
    if (first == rank * held) continue;
    if (made.empty()) {
      made = fmt::format("{}: rank {} holds experts from {}, not {} (linear placement)",
                         reshard::refusal, rank, first, rank * held);
    } else {
      ++more;
    }
  }
  if (more == 0) return made;
  return made + fmt::format(", and {} more rank{}", more, more == 1 ? "" : "s");
}

// Every rank is told the whole sentence, none goes on; and where nobody is misplaced, all do.
Reason misplaced_not_refused(const Case& given, const Subject& subject, group::Group& group) {
  const Given mine = misplaced_to(given, group.rank());
  const Result<TpExperts> tp = resharded(mine.stock, mine.experts, subject.reshard, group);
  const std::string due = due_refusal(given);
  const std::string said = tp.reason ? tp.reason.text() : "";
  if (said == due) return {};
  return Reason(fmt::format("rank {} says \"{}\", expected \"{}\"", group.rank(), said, due));
}

}  // namespace

std::vector<Law> reshard_laws() {
  using enum Dimension;
  return {
      {"Reshard.equals_the_conversion_of_the_slice",
       Draw::valid,
       {tp, hidden_tiles, slice_tiles, experts_per_rank, payload},
       nullptr,
       not_the_conversion_of_the_slice},
      {"Reshard.scalars_arrive_in_expert_order_with_their_bits",
       Draw::scaled,
       {tp, experts_per_rank, scales},
       nullptr,
       scalars_not_in_expert_order},
      {"Reshard.a_refusal_is_all_ranks_with_one_sentence",
       Draw::invalid,
       {tp, fault},
       nullptr,
       not_refused_alike},
      {"Reshard.experts_that_are_not_linear_are_refused_by_all_ranks",
       Draw::misplaced,
       {tp, placement},
       nullptr,
       misplaced_not_refused},
  };
}

}  // namespace slicecheck::properties
