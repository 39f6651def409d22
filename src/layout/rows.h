// The row order of converted weights and scales: up and gate rows alternate (w13), then rows are
// shuffled inside blocks of 32. Neither map is its own inverse, so each says its direction.
// Source: FlashInfer fb28d72, flashinfer/utils.py; TensorRT-LLM, quantization/utils/fp4_utils.py.
#pragma once

#include "layout/shape.h"

namespace slicecheck::layout {

inline constexpr std::int64_t shuffle_rows = 32;

/// The row before the 32-row shuffle that lies at `dest` after it.
/// Law: Rows.shuffle_dest_undoes_shuffle_source
constexpr std::int64_t shuffle_source(std::int64_t dest) {
  return dest / 32 * 32 + dest % 8 * 4 + dest % 32 / 8;
}

/// Where row `source` lies after the 32-row shuffle.
constexpr std::int64_t shuffle_dest(std::int64_t source) {
  return source / 32 * 32 + source % 4 * 8 + source % 32 / 4;
}

static_assert(shuffle_source(0) == 0);
static_assert(shuffle_source(1) == 4);    // eight rows apart four become neighbours
static_assert(shuffle_source(8) == 1);    // the next eight start one on
static_assert(shuffle_source(31) == 31);  // first and last stay
static_assert(shuffle_source(32 + 9) == 32 + 5);
static_assert(shuffle_dest(1) == 8);
static_assert(shuffle_dest(4) == 1);

/// A row of one projection, as the checkpoint has it.
struct PlainRow {
  Projection projection = Projection::w1;
  std::int64_t row = 0;
  constexpr bool operator==(const PlainRow&) const = default;
};

/// The row that lies at interleaved row `dest` of [w3; w1]: up at even rows, gate at odd ones.
constexpr PlainRow gated_source(std::int64_t dest) {
  return {dest % 2 == 0 ? Projection::w3 : Projection::w1, dest / 2};
}

/// Where a row of w3 or w1 lies after the gated interleave.
constexpr std::int64_t gated_dest(const PlainRow& source) {
  return 2 * source.row + (source.projection == Projection::w3 ? 0 : 1);
}

/// The checkpoint's row that lies at row `dest` of converted w13 (and of w13_sf before its tiles).
/// Law: Rows.w13_dest_undoes_w13_source
constexpr PlainRow w13_source(std::int64_t dest) { return gated_source(shuffle_source(dest)); }

/// Where a row of w3 or w1 lies in converted w13.
constexpr std::int64_t w13_dest(const PlainRow& source) { return shuffle_dest(gated_dest(source)); }

static_assert(w13_source(0) == PlainRow{Projection::w3, 0});
static_assert(w13_source(1) == PlainRow{Projection::w3, 2});   // eight even up rows
static_assert(w13_source(8) == PlainRow{Projection::w1, 0});   // the eight gate rows beside them
static_assert(w13_source(16) == PlainRow{Projection::w3, 1});  // eight odd up rows
static_assert(w13_source(31) == PlainRow{Projection::w1, 15});
static_assert(w13_source(32) == PlainRow{Projection::w3, 16});  // a block covers 16 channels

/// The checkpoint's row that lies at row `dest` of the converted tensor `kind`.
constexpr PlainRow row_source(Kind kind, std::int64_t dest) {
  return is_w13(kind) ? w13_source(dest) : PlainRow{Projection::w2, shuffle_source(dest)};
}

/// Where the checkpoint's row lies in its converted tensor: w13's for w1 and w3, w2's for w2.
constexpr std::int64_t row_dest(const PlainRow& source) {
  return source.projection == Projection::w2 ? shuffle_dest(source.row) : w13_dest(source);
}

}  // namespace slicecheck::layout
