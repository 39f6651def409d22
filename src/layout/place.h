// The closed form of the conversion: for a byte of a converted tensor the byte of the checkpoint
// that belongs there, and back. `experts` derives the same by moving rows; the two are held against
// each other.
#pragma once

#include "layout/rows.h"
#include "layout/sf_tile.h"

namespace slicecheck::layout {

/// A byte of one expert as the checkpoint has it: `byte` counts within the row.
struct PlainPlace {
  Projection projection = Projection::w1;
  bool scale = false;
  std::int64_t row = 0;
  std::int64_t byte = 0;
  constexpr bool operator==(const PlainPlace&) const = default;
};

/// Which byte of the plain expert of these widths lies at `offset` of its converted tensor.
/// Law: Place.converted_offset_undoes_plain_place
constexpr PlainPlace plain_place(Kind kind, std::int64_t offset, const Widths& widths) {
  const std::int64_t row_bytes = matrix(kind, widths).row_bytes;
  const SfPlace at = is_scale(kind) ? sf_source(offset, row_bytes)
                                    : SfPlace{offset / row_bytes, offset % row_bytes};
  const PlainRow source = row_source(kind, at.row);
  return {source.projection, is_scale(kind), source.row, at.col};
}

/// The tensor kind in which a plain byte ends up.
constexpr Kind kind_of(Projection projection, bool scale) {
  if (projection == Projection::w2) return scale ? Kind::w2_sf : Kind::w2;
  return scale ? Kind::w13_sf : Kind::w13;
}

/// Where a byte of the plain expert lies in its converted tensor: the inverse of plain_place.
constexpr std::int64_t converted_offset(const PlainPlace& place, const Widths& widths) {
  const Kind kind = kind_of(place.projection, place.scale);
  const std::int64_t row_bytes = matrix(kind, widths).row_bytes;
  const std::int64_t row = row_dest({place.projection, place.row});
  return place.scale ? sf_offset(row, place.byte, row_bytes) : row * row_bytes + place.byte;
}

/// A byte of slice d as a byte of the whole expert: rows of w1 and w3 move down by d I', bytes of
/// w2's rows move right by d I' / 2 (weights) or d I' / 16 (scales).
constexpr PlainPlace whole_place(const PlainPlace& place, std::int64_t d, std::int64_t slice) {
  PlainPlace whole = place;
  if (place.projection != Projection::w2) {
    whole.row += d * slice;
  } else {
    whole.byte += d * slice / (place.scale ? sf_vec : codes_per_byte);
  }
  return whole;
}

static_assert(plain_place(Kind::w13, 8 * 64, {128, 128}) ==
              PlainPlace{Projection::w1, false, 0, 0});
static_assert(plain_place(Kind::w2_sf, 16, {128, 128}) == PlainPlace{Projection::w2, true, 4, 0});
static_assert(whole_place({Projection::w2, true, 4, 0}, 1, 64) ==
              PlainPlace{Projection::w2, true, 4, 4});

}  // namespace slicecheck::layout
