#include "reshard/probe.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "group/agree.h"
#include "moe/codes.h"

namespace slicecheck::reshard {
namespace {

constexpr std::string_view what = "cannot probe the experts";

bool all_finite(const std::uint16_t* row, std::int64_t hidden) {
  for (std::int64_t h = 0; h < hidden; ++h) {
    if ((row[h] & 0x7F80) == 0x7F80) return false;
  }
  return true;
}

// The TP rows summed in FP32 in rank order; a rank that lacks the route adds nothing.
std::vector<float> summed(const std::vector<RankRow>& ranks, std::int64_t hidden) {
  std::vector<float> sum(hidden, 0);
  for (const RankRow& rank : ranks) {
    if (rank.tp == nullptr) continue;
    for (std::int64_t h = 0; h < hidden; ++h) sum[h] += moe::bf16_value(rank.tp[h]);
  }
  return sum;
}

double rounding_of(const std::uint16_t* row, std::int64_t hidden) {
  double sum = 0;
  for (std::int64_t h = 0; h < hidden; ++h) {
    const double ulp = bf16_ulp(row[h]);
    sum += ulp * ulp;
  }
  return sum;
}

void note_served(RouteNorms& made, const std::vector<RankRow>& ranks, std::int64_t hidden) {
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(ranks.size()); ++r) {
    if (ranks[r].ep != nullptr) {
      if (made.ep_ranks == 0) made.ep_first = r;
      if (made.ep_ranks == 1) made.ep_second = r;
      ++made.ep_ranks;
      if (made.not_finite_ep < 0 && !all_finite(ranks[r].ep, hidden)) made.not_finite_ep = r;
    }
    if (ranks[r].tp == nullptr) {
      if (made.tp_missing < 0) made.tp_missing = r;
    } else {
      ++made.tp_ranks;
      if (made.not_finite_tp < 0 && !all_finite(ranks[r].tp, hidden)) made.not_finite_tp = r;
    }
  }
}

// What rank r sends to rank d: its rows and flags of the routes [d share, (d + 1) share).
struct Parcel {
  std::int64_t share = 0;
  std::int64_t hidden = 0;

  std::int64_t rows_bytes() const { return share * hidden * 2; }
  std::int64_t bytes() const { return 2 * rows_bytes() + 2 * share; }
};

void put_routes(std::uint8_t* to, const moe::RouteRows& from, std::int64_t first,
                const Parcel& parcel, std::int64_t side) {
  const std::int64_t count = std::min(parcel.share, from.routes() - first);
  if (count <= 0) return;
  std::memcpy(to + side * parcel.rows_bytes(), from.row(first), count * parcel.hidden * 2);
  std::memcpy(to + 2 * parcel.rows_bytes() + side * parcel.share, from.local.data() + first, count);
}

const std::uint16_t* row_in(const std::uint8_t* parcel, const Parcel& of, std::int64_t side,
                            std::int64_t i) {
  if (parcel[2 * of.rows_bytes() + side * of.share + i] == 0) return nullptr;
  return reinterpret_cast<const std::uint16_t*>(parcel + side * of.rows_bytes()) + i * of.hidden;
}

// Every rank's parcel for this one, through the group's own memory. Collective.
ByteVector exchanged(group::Group& group, const ByteVector& sent, std::int64_t block_bytes) {
  memory::Space& space = group.space();
  const auto bytes = static_cast<std::int64_t>(sent.size());
  const auto from = space.allocate(bytes, "route rows to send");
  const auto to = space.allocate(bytes, "route rows to receive");
  group::refuse_together(group, from.reason ? from.reason : to.reason, what);
  space.upload(from->get(), sent);
  group.all_to_all(to->get(), from->get(), block_bytes);
  ByteVector received(sent.size());
  space.download(received, to->get());
  return received;
}

// The norms of every rank's share, joined in route order. Collective.
std::vector<RouteNorms> joined(group::Group& group, const std::vector<RouteNorms>& mine,
                               std::int64_t routes) {
  std::vector<RouteNorms> all(mine.size() * group.size());
  const auto bytes_of = [](auto& norms) {
    return MutableBytes(reinterpret_cast<std::uint8_t*>(norms.data()),
                        norms.size() * sizeof(RouteNorms));
  };
  std::vector<RouteNorms> own = mine;
  group.share(bytes_of(own), bytes_of(all));
  all.resize(routes);
  return all;
}

// Routes and their width.
struct RowExtents {
  std::int64_t routes = 0;
  std::int64_t hidden = 0;
  bool operator==(const RowExtents&) const = default;
};

RowExtents extents_of(const ProbeRows& rows) {
  return {static_cast<std::int64_t>(rows.ep.map.size()), rows.ep.rows.extents[1]};
}

Reason unequal_to_first(int rank, const RowExtents& mine, const RowExtents& first) {
  if (mine == first) return {};
  return Reason(fmt::format("rank {} has {} routes of width {}, rank 0 {} of width {}", rank,
                            mine.routes, mine.hidden, first.routes, first.hidden),
                "shape-differs-across-ranks");
}

// The same numbers on all ranks, or who differs from rank 0. Collective.
Reason differing_extents(group::Group& group, std::int64_t routes, std::int64_t hidden) {
  const std::int64_t mine[2] = {routes, hidden};
  std::vector<std::int64_t> all(2 * group.size());
  group.share({reinterpret_cast<const std::uint8_t*>(mine), sizeof mine},
              {reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof all[0]});
  return unequal_to_first(group.rank(), {routes, hidden}, {all[0], all[1]});
}

Reason unreadable(const ProbeRows& rows) {
  Reason reason = moe::unreadable(rows.ep);
  if (reason) return Reason(fmt::format("EP: {}", reason.text()), reason.cause());
  reason = moe::unreadable(rows.tp);
  if (reason) return Reason(fmt::format("TP: {}", reason.text()), reason.cause());
  if (rows.ep.map.size() != rows.tp.map.size() ||
      rows.ep.rows.extents[1] != rows.tp.rows.extents[1]) {
    return Reason(fmt::format("EP has {} routes of width {}, TP {} of width {}", rows.ep.map.size(),
                              rows.ep.rows.extents[1], rows.tp.map.size(),
                              rows.tp.rows.extents[1]));
  }
  return {};
}

}  // namespace

double bf16_ulp(std::uint16_t bits) {
  const double x = std::abs(static_cast<double>(moe::bf16_value(bits)));
  if (!std::isfinite(x)) return std::numeric_limits<double>::infinity();
  return x == 0 ? 0 : std::ldexp(1.0, std::ilogb(x) - 7);
}

RouteNorms norms_of(const std::vector<RankRow>& ranks, std::int64_t hidden) {
  RouteNorms made;
  note_served(made, ranks, hidden);
  std::vector<std::uint16_t> got(hidden);
  const std::vector<float> sum = summed(ranks, hidden);
  for (std::int64_t h = 0; h < hidden; ++h) got[h] = moe::bf16_bits(sum[h]);
  if (made.not_finite_tp < 0 && !all_finite(got.data(), hidden)) made.sum_not_finite = 1;
  made.rounding = rounding_of(got.data(), hidden);
  for (const RankRow& rank : ranks) {
    if (rank.tp != nullptr) made.rounding += rounding_of(rank.tp, hidden);
    if (rank.ep == nullptr) continue;
    made.rounding += rounding_of(rank.ep, hidden);
    // FP64: BF16 rows of large magnitude must not overflow the squares.
    for (std::int64_t h = 0; h < hidden; ++h) {
      const double want = moe::bf16_value(rank.ep[h]);
      const double off = moe::bf16_value(got[h]) - want;
      made.difference += off * off;
      made.want += want * want;
    }
  }
  return made;
}

Reason unequal(const std::vector<ProbeRows>& ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Reason reason = unreadable(ranks[r]);
    if (reason) return Reason(fmt::format("rank {}: {}", r, reason.text()), reason.cause());
    Reason other =
        unequal_to_first(static_cast<int>(r), extents_of(ranks[r]), extents_of(ranks[0]));
    if (other) return other;
  }
  return {};
}

std::vector<RouteNorms> route_norms(const std::vector<ProbeRows>& ranks) {
  std::vector<moe::RouteRows> ep;
  std::vector<moe::RouteRows> tp;
  for (const ProbeRows& rank : ranks) {
    ep.push_back(moe::route_rows(rank.ep));
    tp.push_back(moe::route_rows(rank.tp));
  }
  std::vector<RouteNorms> made;
  for (std::int64_t i = 0; !ranks.empty() && i < ep[0].routes(); ++i) {
    std::vector<RankRow> rows;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      rows.push_back({ep[r].local[i] != 0 ? ep[r].row(i) : nullptr,
                      tp[r].local[i] != 0 ? tp[r].row(i) : nullptr});
    }
    made.push_back(norms_of(rows, ep[0].hidden));
  }
  return made;
}

std::vector<RouteNorms> route_norms(group::Group& group, const moe::RouteRows& ep,
                                    const moe::RouteRows& tp) {
  const std::int64_t size = group.size();
  const Parcel parcel{(ep.routes() + size - 1) / size, ep.hidden};
  ByteVector sent(size * parcel.bytes());
  for (std::int64_t d = 0; d < size; ++d) {
    put_routes(sent.data() + d * parcel.bytes(), ep, d * parcel.share, parcel, 0);
    put_routes(sent.data() + d * parcel.bytes(), tp, d * parcel.share, parcel, 1);
  }
  const ByteVector received = exchanged(group, sent, parcel.bytes());
  std::vector<RouteNorms> mine;
  for (std::int64_t i = 0; i < parcel.share; ++i) {
    std::vector<RankRow> rows;
    for (std::int64_t s = 0; s < size; ++s) {
      const std::uint8_t* from = received.data() + s * parcel.bytes();
      rows.push_back({row_in(from, parcel, 0, i), row_in(from, parcel, 1, i)});
    }
    mine.push_back(norms_of(rows, parcel.hidden));
  }
  return joined(group, mine, ep.routes());
}

double probe_rel_l2(group::Group& group, const ProbeRows& mine) {
  Reason reason = unreadable(mine);
  group::refuse_together(group, reason, what);
  const moe::RouteRows ep = moe::route_rows(mine.ep);
  const moe::RouteRows tp = moe::route_rows(mine.tp);
  group::refuse_together(group, differing_extents(group, ep.routes(), ep.hidden), what);
  for (std::int64_t i = 0; i < tp.routes() && !reason; ++i) {
    if (tp.local[i] == 0) reason = Reason("the TP experts left a route unserved", "route-unserved");
  }
  group::refuse_together(group, reason, what);
  return rel_l2_of(route_norms(group, ep, tp));
}

double rel_l2_of(const std::vector<RouteNorms>& routes) {
  double difference = 0;
  double want = 0;
  for (const RouteNorms& route : routes) {
    difference += route.difference;
    want += route.want;
  }
  return std::sqrt(difference / want);
}

}  // namespace slicecheck::reshard
