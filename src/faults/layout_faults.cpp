#include "faults/layout_faults.h"

#include <algorithm>

#include "layout/rows.h"

namespace slicecheck::faults {
namespace {

using experts::interleaved_rows;
using experts::interleaved_scales;
using experts::shuffled_rows;
using layout::Kind;

// A tensor of one expert before its conversion: for w13 the halves [w3; w1], for w2 its own rows.
struct Parts {
  ByteVector first;   // up, or the first half of w2's rows
  ByteVector second;  // gate, or the second half
  std::int64_t row_bytes = 0;
};

const ByteVector& side_of(const experts::PlainProjection& projection, Kind kind) {
  return layout::is_scale(kind) ? projection.scale : projection.weight;
}

Parts parts_of(const experts::PlainExpert& plain, Kind kind) {
  const std::int64_t row_bytes = layout::matrix(kind, plain.widths).row_bytes;
  if (layout::is_w13(kind)) return {side_of(plain.w3, kind), side_of(plain.w1, kind), row_bytes};
  const ByteVector& rows = side_of(plain.w2, kind);
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2);
  return {{rows.begin(), middle}, {middle, rows.end()}, row_bytes};
}

Parts parts_of(const Layer& healthy, const Spot& spot) {
  return parts_of(plain_part(healthy, spot), spot.kind);
}

ByteVector joined(const ByteVector& a, const ByteVector& b) {
  ByteVector made = a;
  made.insert(made.end(), b.begin(), b.end());
  return made;
}

// The rows of a tensor in the order before the shuffle.
ByteVector ordered(const Parts& parts, Kind kind) {
  return layout::is_w13(kind) ? interleaved_rows(parts.first, parts.second, parts.row_bytes)
                              : joined(parts.first, parts.second);
}

ByteVector laid(const ByteVector& rows, Kind kind, std::int64_t row_bytes) {
  return layout::is_scale(kind) ? interleaved_scales(rows, row_bytes) : rows;
}

ByteVector rows_moved(const ByteVector& rows, std::int64_t row_bytes,
                      std::int64_t (*dest)(std::int64_t)) {
  ByteVector made(rows.size());
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(rows.size()) / row_bytes; ++row) {
    std::copy_n(rows.begin() + row * row_bytes, row_bytes, made.begin() + dest(row) * row_bytes);
  }
  return made;
}

std::int64_t dest_by_16(std::int64_t i) { return i / 16 * 16 + 8 * (i % 2) + i % 16 / 2; }

ByteVector healthy_bytes(const Layer& healthy, const Spot& spot) {
  const MutableBytes bytes = bytes_at(healthy, spot);
  return {bytes.begin(), bytes.end()};
}

ByteVector slice_bytes(const Layer& healthy, std::int64_t expert, std::int64_t d, Kind kind) {
  return experts::bytes_of(experts::slice(stock_expert(healthy, expert), healthy.shape.tp, d),
                           kind);
}

ByteVector run_of(const ByteVector& whole, std::int64_t tp, std::int64_t d) {
  const auto each = static_cast<std::ptrdiff_t>(whole.size()) / tp;
  return {whole.begin() + d * each, whole.begin() + (d + 1) * each};
}

}  // namespace

ByteVector gate_up_swapped(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  const ByteVector rows = interleaved_rows(parts.second, parts.first, parts.row_bytes);
  return laid(shuffled_rows(rows, parts.row_bytes), spot.kind, parts.row_bytes);
}

ByteVector gate_up_concatenated(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  return laid(shuffled_rows(joined(parts.first, parts.second), parts.row_bytes), spot.kind,
              parts.row_bytes);
}

ByteVector rows_not_shuffled(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  return laid(ordered(parts, spot.kind), spot.kind, parts.row_bytes);
}

ByteVector rows_shuffled_twice(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  const ByteVector once = shuffled_rows(ordered(parts, spot.kind), parts.row_bytes);
  return laid(shuffled_rows(once, parts.row_bytes), spot.kind, parts.row_bytes);
}

ByteVector rows_shuffled_inverse(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  return laid(rows_moved(ordered(parts, spot.kind), parts.row_bytes, layout::shuffle_source),
              spot.kind, parts.row_bytes);
}

ByteVector rows_shuffled_by_16(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  return laid(rows_moved(ordered(parts, spot.kind), parts.row_bytes, dest_by_16), spot.kind,
              parts.row_bytes);
}

ByteVector converted_twice(const Layer& healthy, const Spot& spot) {
  const ByteVector once = healthy_bytes(healthy, spot);
  const std::int64_t row_bytes = parts_of(healthy, spot).row_bytes;
  ByteVector rows = once;
  if (layout::is_w13(spot.kind)) {
    rows = interleaved_rows(run_of(once, 2, 0), run_of(once, 2, 1), row_bytes);
  }
  return laid(shuffled_rows(rows, row_bytes), spot.kind, row_bytes);
}

ByteVector not_converted(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  return layout::is_w13(spot.kind) ? joined(parts.second, parts.first)
                                   : joined(parts.first, parts.second);
}

ByteVector scales_linear(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  return shuffled_rows(ordered(parts, spot.kind), parts.row_bytes);
}

ByteVector scales_interleaved_twice(const Layer& healthy, const Spot& spot) {
  return interleaved_scales(healthy_bytes(healthy, spot), parts_of(healthy, spot).row_bytes);
}

ByteVector scales_8x4(const Layer& healthy, const Spot& spot) {
  const ByteVector rows = scales_linear(healthy, spot);
  const std::int64_t cols = parts_of(healthy, spot).row_bytes;
  ByteVector made(rows.size());
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(rows.size()); ++at) {
    const std::int64_t row = at / cols;
    const std::int64_t col = at % cols;
    const std::int64_t tile = row / 8 * (cols / 4) + col / 4;
    made[tile * 32 + row % 8 * 4 + col % 4] = rows[at];
  }
  return made;
}

ByteVector nibbles_swapped(const Layer& healthy, const Spot& spot) {
  ByteVector made = healthy_bytes(healthy, spot);
  for (std::uint8_t& byte : made) byte = static_cast<std::uint8_t>(byte << 4 | byte >> 4);
  return made;
}

ByteVector flat_cut(const Layer& healthy, const Spot& spot) {
  const experts::ConvertedExpert whole = stock_expert(healthy, spot.expert);
  return run_of(experts::bytes_of(whole, spot.kind), healthy.shape.tp, spot.rank);
}

ByteVector cut_before_interleave(const Layer& healthy, const Spot& spot) {
  const Parts whole = parts_of(experts::unconverted(stock_expert(healthy, spot.expert)), spot.kind);
  const ByteVector mine = run_of(joined(whole.first, whole.second), healthy.shape.tp, spot.rank);
  const ByteVector rows = interleaved_rows(run_of(mine, 2, 0), run_of(mine, 2, 1), whole.row_bytes);
  return laid(shuffled_rows(rows, whole.row_bytes), spot.kind, whole.row_bytes);
}

ByteVector wrong_axis_cut(const Layer& healthy, const Spot& spot) {
  if (!layout::is_w13(spot.kind)) return flat_cut(healthy, spot);
  const experts::ConvertedExpert whole = stock_expert(healthy, spot.expert);
  const ByteVector& bytes = experts::bytes_of(whole, spot.kind);
  const std::int64_t row_bytes = layout::matrix(spot.kind, whole.widths).row_bytes;
  const std::int64_t each = row_bytes / healthy.shape.tp;
  ByteVector made;
  for (std::int64_t at = spot.rank * each; at < static_cast<std::int64_t>(bytes.size());
       at += row_bytes) {
    made.insert(made.end(), bytes.begin() + at, bytes.begin() + at + each);
  }
  return made;
}

ByteVector wrong_slice_shifted(const Layer& healthy, const Spot& spot) {
  return slice_bytes(healthy, spot.expert, (spot.rank + 1) % healthy.shape.tp, spot.kind);
}

ByteVector wrong_slice_reversed(const Layer& healthy, const Spot& spot) {
  return slice_bytes(healthy, spot.expert, healthy.shape.tp - 1 - spot.rank, spot.kind);
}

ByteVector wrong_slice_transposed(const Layer& healthy, const Spot& spot) {
  const std::int64_t held = healthy.shape.experts_per_rank();
  const std::int64_t at = spot.rank * held + spot.expert % held;
  const std::int64_t expert = spot.expert / held * held + at / healthy.shape.tp;
  return slice_bytes(healthy, expert, at % healthy.shape.tp, spot.kind);
}

ByteVector permutation_of_other_shape(const Layer& healthy, const Spot& spot) {
  const Parts parts = parts_of(healthy, spot);
  ByteVector rows;
  if (!layout::is_w13(spot.kind)) {
    rows = interleaved_rows(parts.first, parts.second, parts.row_bytes);
  } else {
    const ByteVector stacked = joined(parts.first, parts.second);
    for (const ByteVector& half : {run_of(stacked, 2, 0), run_of(stacked, 2, 1)}) {
      rows =
          joined(rows, interleaved_rows(run_of(half, 2, 0), run_of(half, 2, 1), parts.row_bytes));
    }
  }
  return laid(shuffled_rows(rows, parts.row_bytes), spot.kind, parts.row_bytes);
}

const std::vector<LayoutEntry>& layout_faults() {
  static const std::vector<Kind> w13{Kind::w13, Kind::w13_sf};
  static const std::vector<Kind> w2{Kind::w2, Kind::w2_sf};
  static const std::vector<Kind> weights{Kind::w13, Kind::w2};
  static const std::vector<Kind> scales{Kind::w13_sf, Kind::w2_sf};
  static const std::vector<Kind> all{layout::kinds.begin(), layout::kinds.end()};
  static const std::vector<LayoutEntry> entries{
      {"gate-up-swapped", "gate-up-swapped", w13, gate_up_swapped},
      {"gate-up-concatenated", "gate-up-concatenated", w13, gate_up_concatenated},
      {"rows-not-shuffled", "rows-not-shuffled", all, rows_not_shuffled},
      {"rows-shuffled-twice", "rows-shuffled-twice", all, rows_shuffled_twice},
      {"rows-shuffled-inverse", "rows-shuffled-inverse", all, rows_shuffled_inverse},
      {"rows-shuffled-by-16", "rows-shuffled-by-16", all, rows_shuffled_by_16},
      {"converted-twice", "rows-shuffled-twice", all, converted_twice},
      {"not-converted", "not-converted", all, not_converted},
      {"scales-linear", "scales-linear", scales, scales_linear},
      {"scales-interleaved-twice", "scales-interleaved-twice", scales, scales_interleaved_twice},
      {"scales-8x4", "scales-8x4", scales, scales_8x4},
      {"scale-rows-not-shuffled", "scale-rows-not-shuffled", scales, rows_not_shuffled},
      {"nibbles-swapped", "nibbles-swapped", weights, nibbles_swapped},
      {"flat-cut", "flat-cut", w2, flat_cut, true},
      {"cut-before-interleave", "cut-before-interleave", w13, cut_before_interleave, true},
      {"wrong-axis-cut", "wrong-axis-cut", all, wrong_axis_cut, true},
      {"wrong-slice/shifted", "wrong-slice", all, wrong_slice_shifted, true},
      {"wrong-slice/reversed", "wrong-slice", all, wrong_slice_reversed, true},
      {"wrong-slice/transposed", "wrong-slice", all, wrong_slice_transposed, true},
      {"permutation-of-other-shape", "permutation-of-other-shape", all,
       permutation_of_other_shape}};
  return entries;
}

void plant(Layer& layer, const LayoutEntry& entry, const Where& where) {
  Where shown = where;
  shown.kinds.clear();
  for (const Kind kind : entry.kinds) {
    if (where.kinds.empty() ||
        std::find(where.kinds.begin(), where.kinds.end(), kind) != where.kinds.end()) {
      shown.kinds.push_back(kind);
    }
  }
  if (!shown.kinds.empty()) replace(layer, shown, entry.fault);
}

}  // namespace slicecheck::faults
