// The stepping of hot loops: layout's maps evaluated once a row (weights) or once a tensor for the
// 128 units of a tile (block scales), and the constants by which rows, tiles and experts follow one
// another. Usable in device code.
#pragma once

#include "layout/payload.h"
#include "memory/space.h"

namespace slicecheck::memory {

inline constexpr std::int64_t tile_units = layout::sf_tile_bytes / layout::unit_bytes;

/// Where a row of a converted weight tensor starts in the plain weights: `word` is the number of
/// its first 8-byte word, the words of the row follow one another.
struct RowStart {
  layout::Projection projection = layout::Projection::w1;
  std::int64_t row = 0;
  std::int64_t word = 0;
};

/// The rows of the weight tensor w13 or w2.
struct RowSteps {
  layout::Kind kind = layout::Kind::w13;
  std::int64_t row_words = 0;   // of a whole plain row
  std::int64_t first_row = 0;   // of slice d: d I' in w1 and w3
  std::int64_t first_word = 0;  // of slice d in a row of w2

  /// The start of row `row` of an expert. Law: Step.a_row_is_its_words_in_turn
  constexpr RowStart start(std::int64_t row) const {
    const layout::PlainRow source = layout::row_source(kind, row);
    const std::int64_t plain = source.row + first_row;
    return {source.projection, plain, plain * row_words + first_word};
  }
};

constexpr RowSteps row_steps(const PayloadTensor& tensor) {
  const std::int64_t before = tensor.d * tensor.widths().intermediate;
  if (layout::is_w13(tensor.kind)) {
    return {tensor.kind, tensor.whole.hidden / layout::word_codes, before, 0};
  }
  return {tensor.kind, tensor.whole.intermediate / layout::word_codes, 0,
          before / layout::word_codes};
}

/// The row of the plain scales that lies at unit `unit` (0 to 127) of the tiles of an m-tile.
constexpr layout::PlainRow unit_row(layout::Kind kind, std::int64_t m_tile, std::int64_t unit) {
  const layout::SfPlace at = layout::sf_source(unit * layout::unit_bytes, layout::sf_tile_cols);
  return layout::row_source(kind, m_tile * layout::sf_tile_rows + at.row);
}

/// The tiles of the scale tensor w13_sf or w2_sf: unit `unit` of k-tile k of m-tile m of expert e
/// has the number first(unit) + further(e, m, k).
struct UnitSteps {
  layout::Kind kind = layout::Kind::w13_sf;
  std::int64_t matrix_units = 0;  // U, of a whole plain matrix
  std::int64_t row_units = 0;     // of a whole plain row
  std::int64_t m_tile_units = 0;  // from one m-tile to the next, for each of its units
  std::int64_t first_row = 0;     // of slice d: d I' in w1 and w3
  std::int64_t first_unit = 0;    // of slice d in a row of w2

  /// The number g of unit `unit` in the first tile of expert 0.
  constexpr std::int64_t first(std::int64_t unit) const {
    const layout::PlainRow source = unit_row(kind, 0, unit);
    return static_cast<std::int64_t>(source.projection) * matrix_units +
           (source.row + first_row) * row_units + first_unit;
  }

  /// Law: Step.a_tile_is_its_units_in_turn
  constexpr std::int64_t further(std::int64_t expert, std::int64_t m_tile,
                                 std::int64_t k_tile) const {
    return 3 * expert * matrix_units + m_tile * m_tile_units + k_tile;
  }
};

constexpr UnitSteps unit_steps(const PayloadTensor& tensor) {
  const std::int64_t before = tensor.d * tensor.widths().intermediate;
  const std::int64_t units = layout::scale_units(tensor.whole);
  const std::int64_t unit_codes = layout::unit_bytes * layout::sf_vec;
  if (layout::is_w13(tensor.kind)) {
    const std::int64_t row = tensor.whole.hidden / unit_codes;
    return {tensor.kind, units, row, layout::sf_tile_rows / 2 * row, before, 0};
  }
  const std::int64_t row = tensor.whole.intermediate / unit_codes;
  return {tensor.kind, units, row, layout::sf_tile_rows * row, 0, before / unit_codes};
}

/// What is added to the value behind a unit when the unit lies `further` on.
constexpr std::uint32_t bytes_further(std::int64_t further) {
  return static_cast<std::uint32_t>(further) * layout::bytes_step;
}
constexpr std::uint32_t numeric_further(std::int64_t further) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(further) * layout::numeric_step %
                                    layout::numeric_range);
}

/// layout::numeric_digits without a division: a pair of digits is b + 130 (b / 126), for b % 126
/// and b / 126 lie 256 apart. The two products are exact for value < numeric_range, b < 126^2.
/// Law: Step.fast_digits_are_the_digits
constexpr std::uint32_t fast_digits(std::uint32_t value) {
  const auto high = static_cast<std::uint32_t>(value * std::uint64_t{1108099399} >> 44);
  const std::uint32_t low = value - high * 15876;
  const std::uint32_t low_pair = low + 130 * (low * 33289 >> 22);
  const std::uint32_t high_pair = high + 130 * (high * 33289 >> 22);
  return 0x01010101U + low_pair + (high_pair << 16);
}

/// The unit whose value is `first` + `further`: both below numeric_range for `numeric`.
/// Law: Step.a_unit_further_is_one_step
constexpr std::uint32_t bytes_unit_at(std::uint32_t first, std::uint32_t further) {
  return layout::mix32(first + further);
}
constexpr std::uint32_t numeric_unit_at(std::uint32_t first, std::uint32_t further) {
  constexpr auto range = static_cast<std::uint32_t>(layout::numeric_range);
  const std::uint32_t sum = first + further;
  return fast_digits(sum < range ? sum : sum - range);
}

}  // namespace slicecheck::memory
