// The stepping of hot loops: layout's maps evaluated once a row (weights) or once a row of a tile
// (block scales), and what follows from them for the bytes in between. Usable in device code.
#pragma once

#include "layout/payload.h"
#include "memory/space.h"

namespace slicecheck::memory {

/// Where a row of a converted weight tensor starts in the plain weights: `word` is the number of
/// its first 8-byte word, the words of the row follow one another.
struct RowStart {
  layout::Projection projection = layout::Projection::w1;
  std::int64_t row = 0;
  std::int64_t word = 0;
};

/// Row `row` of the weight tensor w13 or w2. Law: Step.a_row_is_its_words_in_turn
constexpr RowStart row_start(const PayloadTensor& tensor, std::int64_t row) {
  const std::int64_t row_bytes = layout::matrix(tensor.kind, tensor.widths()).row_bytes;
  const layout::PlainPlace place =
      layout::whole_place(layout::plain_place(tensor.kind, row * row_bytes, tensor.widths()),
                          tensor.d, tensor.widths().intermediate);
  const std::int64_t plain_row_bytes =
      layout::plain_matrix(place.projection, false, tensor.whole).row_bytes;
  return {place.projection, place.row,
          (place.row * plain_row_bytes + place.byte) / layout::word_bytes};
}

inline constexpr std::int64_t tile_units = layout::sf_tile_bytes / layout::unit_bytes;

/// Which plain scale unit lies first (k-tile 0) at unit `unit` of m-tile `m_tile`: its number in
/// the matrix of its projection. In k-tile k lies the one k further.
struct UnitStart {
  layout::Projection projection = layout::Projection::w1;
  std::int64_t unit = 0;
};

/// Unit `unit` (0 to 127) of the tiles of m-tile `m_tile` of w13_sf or w2_sf.
/// Law: Step.a_tile_is_its_units_in_turn
constexpr UnitStart unit_start(const PayloadTensor& tensor, std::int64_t m_tile,
                               std::int64_t unit) {
  const layout::Widths widths = tensor.widths();
  const std::int64_t row_bytes = layout::matrix(tensor.kind, widths).row_bytes;
  const std::int64_t offset = m_tile * layout::sf_tile_rows * row_bytes + unit * layout::unit_bytes;
  const layout::PlainPlace place = layout::whole_place(
      layout::plain_place(tensor.kind, offset, widths), tensor.d, widths.intermediate);
  const std::int64_t plain_row_bytes =
      layout::plain_matrix(place.projection, true, tensor.whole).row_bytes;
  return {place.projection, (place.row * plain_row_bytes + place.byte) / layout::unit_bytes};
}

/// The row of the plain scales under unit `unit` of an m-tile: for conversion, without payload.
constexpr layout::PlainRow unit_row(layout::Kind kind, std::int64_t m_tile, std::int64_t unit) {
  const layout::SfPlace at = layout::sf_source(unit * layout::unit_bytes, layout::sf_tile_cols);
  return layout::row_source(kind, m_tile * layout::sf_tile_rows + at.row);
}

}  // namespace slicecheck::memory
