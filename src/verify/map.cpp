#include "verify/map.h"

#include <algorithm>

#include "experts/place.h"

namespace slicecheck::verify {
namespace {

using layout::Kind;
using layout::Matrix;
using layout::Projection;
using layout::SfPlace;

// A byte of a tensor before its conversion: a row of the stacked [w3; w1], or of w2.
struct Stacked {
  std::int64_t row = 0;
  std::int64_t byte = 0;
};

SfPlace tiles_source(Tiles tiles, std::int64_t offset, std::int64_t cols) {
  switch (tiles) {
    case Tiles::due:
      return layout::sf_source(offset, cols);
    case Tiles::linear:
      break;
    case Tiles::twice: {
      const SfPlace once = layout::sf_source(offset, cols);
      return layout::sf_source(once.row * cols + once.col, cols);
    }
    case Tiles::eight_by_four: {
      const std::int64_t tile = offset / 32;
      return {tile / (cols / 4) * 8 + offset % 32 / 4, tile % (cols / 4) * 4 + offset % 4};
    }
  }
  return {offset / cols, offset % cols};
}

std::int64_t shuffle_source(Shuffle shuffle, std::int64_t dest) {
  switch (shuffle) {
    case Shuffle::due:
      return layout::shuffle_source(dest);
    case Shuffle::none:
      return dest;
    case Shuffle::twice:
      return layout::shuffle_source(layout::shuffle_source(dest));
    case Shuffle::inverse:
      return layout::shuffle_dest(dest);
    case Shuffle::by_16:
      break;
  }
  return dest / 16 * 16 + dest % 8 * 2 + dest % 16 / 8;
}

std::int64_t alternating(std::int64_t dest, std::int64_t rows) {
  return dest % 2 * (rows / 2) + dest / 2;
}

std::int64_t order_source(Kind kind, const Map& map, std::int64_t dest, std::int64_t rows) {
  switch (map.order) {
    case RowOrder::due:
      return layout::is_w13(kind) ? alternating(dest, rows) : dest;
    case RowOrder::other:
      return layout::is_w13(kind) ? dest : alternating(dest, rows);
    case RowOrder::blocks:
      break;
  }
  const std::int64_t block = dest / map.block_rows * map.block_rows;
  return block + alternating(dest - block, map.block_rows);
}

// The conversion undone: from a byte of a converted tensor of these extents to its stacked row.
Stacked unconverted(Kind kind, const Map& map, std::int64_t offset, const Matrix& matrix) {
  const SfPlace at = layout::is_scale(kind)
                         ? tiles_source(map.tiles, offset, matrix.row_bytes)
                         : SfPlace{offset / matrix.row_bytes, offset % matrix.row_bytes};
  std::int64_t row = order_source(kind, map, shuffle_source(map.shuffle, at.row), matrix.rows);
  // Halves exchanged before a cut of the stack are exchanged in the whole stack: slice_place().
  if (map.halves_swapped && map.cut != CutWay::before_interleave) {
    row = (row + matrix.rows / 2) % matrix.rows;
  }
  return {row, at.col};
}

Stacked unconverted_all(Kind kind, const Map& map, std::int64_t offset, const Matrix& matrix) {
  if (!map.converted_twice) return unconverted(kind, map, offset, matrix);
  const Stacked outer = unconverted(kind, Map{}, offset, matrix);
  return unconverted(kind, map, outer.row * matrix.row_bytes + outer.byte, matrix);
}

// From a byte of a slice to a byte of the whole converted tensor.
std::int64_t whole_offset(const Case& layer, Kind kind, const Map& map, std::int64_t offset) {
  const layout::Cut cut = layout::cut(kind, layer.shape);
  if (map.cut == CutWay::flat) return map.slice * cut.slice_bytes() + offset;
  if (map.cut == CutWay::other_axis) {
    const std::int64_t row = layout::matrix(kind, layout::stock_widths(layer.shape)).row_bytes;
    const std::int64_t each = row / layer.shape.tp;
    return offset / each * row + map.slice * each + offset % each;
  }
  return cut.whole_offset(map.slice, offset);
}

// A stacked row of w13, `rows` a half: the first half is up.
layout::PlainPlace w13_place(Kind kind, const Stacked& at, std::int64_t rows) {
  return {at.row < rows ? Projection::w3 : Projection::w1, layout::is_scale(kind), at.row % rows,
          at.byte};
}

std::optional<layout::PlainPlace> unless_padded(const layout::PlainPlace& place, std::int64_t at,
                                                std::int64_t data) {
  return at < data ? std::optional(place) : std::nullopt;
}

// Stacked rows where the data of both halves come first, `data` a half, then all the zeros.
std::optional<layout::PlainPlace> together(Kind kind, const Stacked& at, std::int64_t data,
                                           std::int64_t first) {
  layout::PlainPlace place = w13_place(kind, {at.row % (2 * data), at.byte}, data);
  place.row += first;
  return unless_padded(place, at.row, 2 * data);
}

std::optional<layout::PlainPlace> whole_place(const Case& layer, Kind kind, const Map& map,
                                              const Stacked& at) {
  const std::int64_t all = layer.shape.intermediate;
  if (!layout::is_w13(kind)) {
    return layout::PlainPlace{Projection::w2, layout::is_scale(kind), at.row, at.byte};
  }
  if (map.padding == Padding::together) return together(kind, at, layer.data->intermediate, 0);
  return w13_place(kind, at, all);
}

// A slice of data that was cut before it was padded.
std::optional<layout::PlainPlace> padded_after(const Case& layer, Kind kind, const Map& map,
                                               const Stacked& at) {
  const std::int64_t data = layer.data->intermediate / layer.shape.tp;
  if (map.padding == Padding::together) return together(kind, at, data, map.slice * data);
  if (layout::is_w13(kind)) {
    layout::PlainPlace place = w13_place(kind, at, layer.shape.slice());
    const std::int64_t row = place.row;
    place.row += map.slice * data;
    return unless_padded(place, row, data);
  }
  const std::int64_t bytes =
      data / (layout::is_scale(kind) ? layout::sf_vec : layout::codes_per_byte);
  return unless_padded(
      {Projection::w2, layout::is_scale(kind), at.row, at.byte + map.slice * bytes}, at.byte,
      bytes);
}

std::optional<layout::PlainPlace> slice_place(const Case& layer, Kind kind, const Map& map,
                                              const Stacked& at) {
  if (map.padding != Padding::due) return padded_after(layer, kind, map, at);
  const std::int64_t slice = layer.shape.slice();
  if (map.cut == CutWay::before_interleave) {
    const std::int64_t half = layer.shape.intermediate;
    const std::int64_t row = at.row + map.slice * 2 * slice + (map.halves_swapped ? half : 0);
    return w13_place(kind, {row % (2 * half), at.byte}, half);
  }
  if (!layout::is_w13(kind)) {
    return layout::whole_place({Projection::w2, layout::is_scale(kind), at.row, at.byte}, map.slice,
                               slice);
  }
  const layout::PlainPlace place = w13_place(kind, at, slice);
  const bool gate = place.projection == Projection::w1;
  return layout::whole_place(place, gate ? gate_slice(map, layer.shape.tp) : map.slice, slice);
}

std::uint8_t swapped(std::uint8_t byte) { return static_cast<std::uint8_t>(byte << 4 | byte >> 4); }

int steps(const Map& map) {
  return (map.cut != CutWay::due) + (map.order != RowOrder::due) + (map.shuffle != Shuffle::due) +
         (map.tiles != Tiles::due) + (map.padding != Padding::due) + map.halves_swapped +
         map.nibbles_swapped + map.converted_twice;
}

std::vector<Map> cuts(const Case& layer, const Target& target, const Map& map) {
  std::vector<Map> made;
  const auto add = [&](CutWay cut, bool whole, Padding padding) {
    Map one = map;
    one.cut = cut;
    one.converted_whole = whole;
    one.padding = padding;
    made.push_back(one);
  };
  const bool w13 = layout::is_w13(target.kind);
  add(CutWay::due, false, Padding::due);
  if (layer.data && w13) add(CutWay::due, true, Padding::together);
  if (target.side == Side::stock) return made;
  add(CutWay::due, true, Padding::due);
  if (w13) add(CutWay::before_interleave, false, Padding::due);
  if (!w13) add(CutWay::flat, true, Padding::due);
  const Matrix whole = layout::matrix(target.kind, layout::stock_widths(layer.shape));
  if (w13 && whole.row_bytes % layer.shape.tp == 0) {
    add(CutWay::other_axis, true, Padding::due);
  }
  if (layer.data && layer.data->intermediate % (16 * layer.shape.tp) == 0) {
    add(CutWay::due, false, Padding::after_cut);
    if (w13) add(CutWay::due, false, Padding::together);
  }
  return made;
}

std::vector<Map> orders(const Case& layer, const Target& target, const Map& map) {
  std::vector<Map> made;
  for (const RowOrder order : {RowOrder::due, RowOrder::other}) {
    made.push_back(map);
    made.back().order = order;
  }
  if (!layout::is_w13(target.kind)) return made;
  const std::int64_t rows = layout::matrix(target.kind, widths_of(layer, target.side)).rows;
  for (std::int64_t parts = 2; parts <= 16 && rows / parts >= 32; ++parts) {
    if (rows % (32 * parts) != 0) continue;
    made.push_back(map);
    made.back().order = RowOrder::blocks;
    made.back().block_rows = rows / parts;
  }
  return made;
}

std::vector<Map> conversions(const Case& layer, const Target& target, const Map& map) {
  const bool scale = layout::is_scale(target.kind);
  const std::vector<Tiles> tiles =
      scale ? std::vector{Tiles::due, Tiles::linear, Tiles::twice, Tiles::eight_by_four}
            : std::vector{Tiles::due};
  const std::vector<bool> swaps =
      layout::is_w13(target.kind) ? std::vector{false, true} : std::vector{false};
  const std::vector<bool> codes = scale ? std::vector{false} : std::vector{false, true};
  std::vector<Map> made;
  for (Map one : orders(layer, target, map)) {
    for (int shuffle = 0; shuffle < 5; ++shuffle) {
      for (const Tiles tile : tiles) {
        for (const bool halves : swaps) {
          for (const bool nibbles : codes) {
            one.shuffle = static_cast<Shuffle>(shuffle);
            one.tiles = tile;
            one.halves_swapped = halves;
            one.nibbles_swapped = nibbles;
            made.push_back(one);
          }
        }
      }
    }
  }
  return made;
}

}  // namespace

std::optional<layout::PlainPlace> source_of(const Case& layer, const Target& target, const Map& map,
                                            std::int64_t offset) {
  const Kind kind = target.kind;
  if (target.side == Side::tp && !map.converted_whole) {
    const Matrix mine = layout::matrix(kind, layout::tp_widths(layer.shape));
    return slice_place(layer, kind, map, unconverted_all(kind, map, offset, mine));
  }
  const Matrix whole = layout::matrix(kind, layout::stock_widths(layer.shape));
  const std::int64_t at = target.side == Side::tp ? whole_offset(layer, kind, map, offset) : offset;
  return whole_place(layer, kind, map, unconverted_all(kind, map, at, whole));
}

std::int64_t run_bytes(const Case& layer, const Target& target, const Map& map) {
  const Matrix mine = layout::matrix(target.kind, widths_of(layer, target.side));
  std::int64_t run = layout::is_scale(target.kind) ? 4 : mine.row_bytes;
  if (map.cut == CutWay::other_axis) {
    const Matrix whole = layout::matrix(target.kind, layout::stock_widths(layer.shape));
    const std::int64_t each = whole.row_bytes / layer.shape.tp;
    run = layout::is_scale(target.kind) ? (each % 4 == 0 ? 4 : 1) : each;
  }
  // Padded columns end inside a row, at any element.
  return map.padding == Padding::after_cut && !layout::is_w13(target.kind) ? 1 : run;
}

std::uint8_t mapped_byte(const Case& layer, const Target& target, const Map& map,
                         const experts::PlainExpert& whole, std::int64_t offset) {
  const auto place = source_of(layer, target, map, offset);
  const std::uint8_t byte = place ? experts::byte_at(whole, *place) : std::uint8_t{0};
  return map.nibbles_swapped ? swapped(byte) : byte;
}

ByteVector mapped(const Case& layer, const Target& target, const Map& map,
                  const experts::PlainExpert& whole) {
  ByteVector made(layout::matrix(target.kind, widths_of(layer, target.side)).bytes(), 0);
  const std::int64_t run = run_bytes(layer, target, map);
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(made.size()); at += run) {
    const auto place = source_of(layer, target, map, at);
    if (!place) continue;
    const experts::PlainProjection& from = experts::projection_of(whole, place->projection);
    const ByteVector& bytes = place->scale ? from.scale : from.weight;
    const std::int64_t row =
        layout::plain_matrix(place->projection, place->scale, whole.widths).row_bytes;
    std::copy_n(bytes.begin() + place->row * row + place->byte, run, made.begin() + at);
  }
  if (map.nibbles_swapped) std::transform(made.begin(), made.end(), made.begin(), swapped);
  return made;
}

bool is_padding(const Case& layer, const Target& target, std::int64_t offset) {
  if (!layer.data) return false;
  const auto place = source_of(layer, target, healthy_map(target), offset);
  const Matrix data = layout::plain_matrix(place->projection, place->scale, *layer.data);
  return place->row >= data.rows || place->byte >= data.row_bytes;
}

std::vector<Map> deviations(const Case& layer, const Target& target) {
  std::vector<Map> made;
  for (const Map& cut : cuts(layer, target, healthy_map(target))) {
    const std::vector<Map> some = conversions(layer, target, cut);
    made.insert(made.end(), some.begin(), some.end());
    Map twice = cut;
    twice.converted_twice = true;
    made.push_back(twice);
    twice.nibbles_swapped = !layout::is_scale(target.kind);
    if (twice.nibbles_swapped) made.push_back(twice);
  }
  std::erase_if(
      made, [](const Map& map) { return steps(map) > (map.order == RowOrder::blocks ? 2 : 4); });
  std::stable_sort(made.begin(), made.end(), [](const Map& a, const Map& b) {
    return std::make_pair(steps(a), a.converted_whole) <
           std::make_pair(steps(b), b.converted_whole);
  });
  return made;
}

}  // namespace slicecheck::verify
