#include "reshard/control.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "group/shared.h"
#include "layout/rows.h"

namespace slicecheck::reshard {
namespace {

constexpr double bounds_least = 4;
constexpr std::int64_t tile_channels = layout::slice_multiple;

ByteVector part_of(const std::uint8_t* from, layout::Kind kind, const layout::Widths& widths,
                   std::int64_t local) {
  const std::int64_t bytes = layout::matrix(kind, widths).bytes();
  return {from + local * bytes, from + (local + 1) * bytes};
}

std::int64_t tiles_per_rank(const layout::Widths& widths) {
  return widths.intermediate / tile_channels;
}

// One k-tile of w2_sf: 512 bytes of every m-tile, packed.
struct ScaleTile {
  std::int64_t m_tiles = 0;
  std::int64_t stride = 0;
  std::int64_t first = 0;

  ScaleTile(const layout::Widths& widths, std::int64_t tile)
      : m_tiles(widths.hidden / layout::sf_tile_rows),
        stride(tiles_per_rank(widths) * layout::sf_tile_bytes),
        first(tile * layout::sf_tile_bytes) {}

  ByteVector read(const ByteVector& w2_sf) const {
    ByteVector made;
    for (std::int64_t m = 0; m < m_tiles; ++m) {
      const auto at = w2_sf.begin() + m * stride + first;
      made.insert(made.end(), at, at + layout::sf_tile_bytes);
    }
    return made;
  }
  void write(ByteVector& w2_sf, const ByteVector& tile) const {
    for (std::int64_t m = 0; m < m_tiles; ++m) {
      std::memcpy(w2_sf.data() + m * stride + first, tile.data() + m * layout::sf_tile_bytes,
                  layout::sf_tile_bytes);
    }
  }
};

void swap_bytes(std::uint8_t* a, std::uint8_t* b, std::int64_t bytes) {
  std::swap_ranges(a, a + bytes, b);
}

// The sum of every rank's value, in rank order. Collective.
double total(group::Group& group, double mine) {
  double sum = 0;
  for (const double value : group::shared(group, mine)) sum += value;
  return sum;
}

std::vector<std::int64_t> tokens_of(const ControlInput& input) {
  std::vector<std::int64_t> tokens;
  for (const std::int64_t route : moe::routes_of(input.routing, input.expert)) {
    tokens.push_back(route / input.routing.top_k);
  }
  return tokens;
}

// An expert with its requantised intermediate for the routes at hand.
struct Evaluated {
  TpExpert expert;
  moe::Quantised y;
};

std::vector<float> values_of(const moe::Quantised& y) {
  std::vector<float> made;
  for (std::int64_t i = 0; i < y.rows; ++i) {
    const std::vector<float> row = moe::row_values(y, i);
    made.insert(made.end(), row.begin(), row.end());
  }
  return made;
}

// This rank's channels of the prediction: sum of (d(w2 y) g2_alphas)^2 over routes, rows, channels.
double predicted_part(const Evaluated& healthy, const Evaluated& changed) {
  const std::int64_t width = healthy.expert.widths.intermediate;
  const moe::CodeMatrix before{healthy.expert.w2.data(), healthy.expert.w2_sf.data(), width};
  const moe::CodeMatrix after{changed.expert.w2.data(), changed.expert.w2_sf.data(), width};
  const std::vector<float> y_before = values_of(healthy.y);
  const std::vector<float> y_after = values_of(changed.y);
  std::vector<float> w_before(width);
  std::vector<float> w_after(width);
  double sum = 0;
  for (std::int64_t row = 0; row < healthy.expert.widths.hidden; ++row) {
    moe::decode_row(before, row, w_before);
    moe::decode_row(after, row, w_after);
    for (std::size_t i = 0; i < y_before.size(); ++i) {
      const std::size_t c = i % width;
      const double off = double{w_after[c]} * y_after[i] - double{w_before[c]} * y_before[i];
      sum += off * off;
    }
  }
  const double alpha = load<float>(healthy.expert.scalars.data() + 8);
  return sum * alpha * alpha;
}

// The damage of p tiles, on a copy. Collective where tiles lie on different ranks.
Evaluated damaged(group::Group& group, const ControlInput& input, const Evaluated& healthy,
                  Damage damage, std::int64_t p) {
  Evaluated made = healthy;
  const std::int64_t mine = tiles_per_rank(made.expert.widths);
  const std::int64_t all = mine * group.size();
  for (std::int64_t i = 0; i < p; ++i) {
    if (damage == Damage::scale_tiles) {
      const std::int64_t a = (input.first_tile + 2 * i) % all;
      exchange_scale_tiles(group, made.expert, a, (a + 1) % all);
      continue;
    }
    const std::int64_t tile = (input.first_tile + i) % all;
    if (tile / mine == group.rank()) exchange_gate_rows(made.expert, tile % mine);
  }
  if (damage == Damage::gate_rows) {
    made.y =
        moe::intermediate_of(op_experts(made.expert), input.expert, input.hidden, tokens_of(input));
  }
  return made;
}

// The expert's routes with the damaged rows on every rank, judged as a probe of its own.
// Collective.
void judge_damage(group::Group& group, const ControlInput& input, const Evaluated& changed,
                  Control& made) {
  const std::vector<std::int64_t> routes = moe::routes_of(input.routing, input.expert);
  const std::int64_t hidden = input.ep.hidden;
  moe::RouteRows tp{hidden, moe::rows_of(op_experts(changed.expert), input.expert, changed.y),
                    std::vector<std::uint8_t>(routes.size(), 1)};
  moe::RouteRows ep{hidden, {}, {}};
  for (const std::int64_t route : routes) {
    ep.rows.insert(ep.rows.end(), input.ep.row(route), input.ep.row(route) + hidden);
    ep.local.push_back(input.ep.local[route]);
  }
  const auto count = static_cast<std::int64_t>(routes.size());
  const Judged verdict =
      judged(route_norms(group, ep, tp),
             moe::all_to_one(count, static_cast<std::int32_t>(input.expert)), input.rule);
  made.rel_l2 = verdict.rel_l2;
  made.bound = verdict.bound;
  made.seen = !verdict.number_faults.empty();
}

}  // namespace

std::string_view name(Damage damage) { return damage == Damage::scale_tiles ? "w2_sf" : "w13"; }

TpExpert tp_expert(const moe::OpExperts& from, std::int64_t expert) {
  const std::int64_t local = expert - from.first;
  TpExpert made{expert,
                from.widths,
                part_of(from.w13, layout::Kind::w13, from.widths, local),
                part_of(from.w13_sf, layout::Kind::w13_sf, from.widths, local),
                part_of(from.w2, layout::Kind::w2, from.widths, local),
                part_of(from.w2_sf, layout::Kind::w2_sf, from.widths, local),
                {}};
  for (const std::uint8_t* scalar : {from.g1_alphas, from.g1_scale_c, from.g2_alphas}) {
    made.scalars.insert(made.scalars.end(), scalar + 4 * local, scalar + 4 * local + 4);
  }
  return made;
}

moe::OpExperts op_experts(const TpExpert& from) {
  moe::OpExperts made;
  made.widths = from.widths;
  made.first = from.expert;
  made.count = 1;
  made.w13 = from.w13.data();
  made.w13_sf = from.w13_sf.data();
  made.w2 = from.w2.data();
  made.w2_sf = from.w2_sf.data();
  made.g1_alphas = from.scalars.data();
  made.g1_scale_c = from.scalars.data() + 4;
  made.g2_alphas = from.scalars.data() + 8;
  return made;
}

void exchange_scale_tiles(group::Group& group, TpExpert& expert, std::int64_t a, std::int64_t b) {
  const std::int64_t mine = tiles_per_rank(expert.widths);
  const std::int64_t numbers[2] = {a, b};
  ByteVector tiles[2];
  for (int i = 0; i < 2; ++i) {
    // Every tile of a kind is equally large; whoever does not own it gives room.
    tiles[i] = ScaleTile(expert.widths, numbers[i] % mine).read(expert.w2_sf);
    group.broadcast(tiles[i], static_cast<int>(numbers[i] / mine));
  }
  for (int i = 0; i < 2; ++i) {
    if (numbers[i] / mine != group.rank()) continue;
    ScaleTile(expert.widths, numbers[i] % mine).write(expert.w2_sf, tiles[1 - i]);
  }
}

void exchange_gate_rows(TpExpert& expert, std::int64_t tile) {
  const std::int64_t row_bytes = layout::matrix(layout::Kind::w13, expert.widths).row_bytes;
  const std::int64_t scales = layout::matrix(layout::Kind::w13_sf, expert.widths).row_bytes;
  for (std::int64_t channel = tile * tile_channels; channel < (tile + 1) * tile_channels;
       ++channel) {
    const std::int64_t up = layout::w13_dest({layout::Projection::w3, channel});
    const std::int64_t gate = layout::w13_dest({layout::Projection::w1, channel});
    swap_bytes(&expert.w13[up * row_bytes], &expert.w13[gate * row_bytes], row_bytes);
    for (std::int64_t col = 0; col < scales; col += layout::sf_tile_cols) {
      swap_bytes(&expert.w13_sf[layout::sf_offset(up, col, scales)],
                 &expert.w13_sf[layout::sf_offset(gate, col, scales)], layout::sf_tile_cols);
    }
  }
}

Control control(group::Group& group, const ControlInput& input, Damage damage) {
  Control made{damage, input.expert, 0, 0, bounds_least * input.healthy.bound(input.rule), 0,
               0,      false};
  const TpExpert whole = tp_expert(input.tp, input.expert);
  const Evaluated healthy{
      whole, moe::intermediate_of(input.tp, input.expert, input.hidden, tokens_of(input))};
  const std::int64_t all = tiles_per_rank(whole.widths) * group.size();
  const std::int64_t most = damage == Damage::scale_tiles ? all / 2 : all;
  Evaluated changed;
  bool reached = false;
  while (!reached && made.tiles < most) {
    made.tiles = std::min(most, std::max<std::int64_t>(1, 2 * made.tiles));
    changed = damaged(group, input, healthy, damage, made.tiles);
    made.predicted = std::sqrt(total(group, predicted_part(healthy, changed)) / input.healthy.want);
    reached = made.predicted > 0 && made.predicted >= made.needed;
  }
  judge_damage(group, input, changed, made);
  made.seen = made.seen && reached;
  return made;
}

}  // namespace slicecheck::reshard
