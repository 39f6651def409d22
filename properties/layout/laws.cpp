// The laws of the index maps, each over every row, byte or offset of the case's widths.
#include <fmt/format.h>

#include <array>

#include "properties/law.h"

namespace slicecheck::properties {
namespace {

using layout::Kind;
using layout::Matrix;
using layout::Widths;

Reason shuffle_dest_undoes_shuffle_source(const Case& given, const Subject& subject) {
  const std::int64_t rows = 2 * given.shape.intermediate;
  for (std::int64_t dest = 0; dest < rows; ++dest) {
    const std::int64_t source = subject.shuffle_source(dest);
    if (source / 32 != dest / 32) {
      return Reason(fmt::format("row {} comes from row {} of another block", dest, source));
    }
    if (subject.shuffle_dest(source) != dest) {
      return Reason(fmt::format("row {} comes from {}, which goes to {}", dest, source,
                                subject.shuffle_dest(source)));
    }
  }
  return {};
}

Reason w13_dest_undoes_w13_source(const Case& given, const Subject& subject) {
  const std::int64_t rows = 2 * given.shape.intermediate;
  for (std::int64_t dest = 0; dest < rows; ++dest) {
    const layout::PlainRow source = subject.w13_source(dest);
    if (source.projection == layout::Projection::w2 || source.row / 16 != dest / 32) {
      return Reason(fmt::format("row {} comes from row {} of {}, outside its 16 channels", dest,
                                source.row, name(source.projection)));
    }
    if (subject.w13_dest(source) != dest) {
      return Reason(fmt::format("row {} comes from row {} of {}, which goes to {}", dest,
                                source.row, name(source.projection), subject.w13_dest(source)));
    }
  }
  return {};
}

// The scale matrices of a case: of w13 and w2, of a stock expert and of a slice.
std::array<Matrix, 4> scale_matrices(const layout::Shape& shape) {
  const Widths stock = layout::stock_widths(shape);
  const Widths tp = layout::tp_widths(shape);
  return {layout::matrix(Kind::w13_sf, stock), layout::matrix(Kind::w2_sf, stock),
          layout::matrix(Kind::w13_sf, tp), layout::matrix(Kind::w2_sf, tp)};
}

Reason offset_not_one_to_one(const Matrix& matrix, const Subject& subject) {
  std::vector<char> taken(static_cast<std::size_t>(matrix.bytes()));
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t col = 0; col < matrix.row_bytes; ++col) {
      const std::int64_t offset = subject.sf_offset(row, col, matrix.row_bytes);
      if (offset < 0 || offset >= matrix.bytes() || taken[offset]) {
        return Reason(fmt::format("scale ({}, {}) of {} columns lies at {}, outside or taken", row,
                                  col, matrix.row_bytes, offset));
      }
      taken[offset] = 1;
    }
  }
  return {};
}

Reason offset_is_one_to_one_and_onto(const Case& given, const Subject& subject) {
  for (const Matrix& matrix : scale_matrices(given.shape)) {
    Reason reason = offset_not_one_to_one(matrix, subject);
    if (reason) return reason;
  }
  return {};
}

Reason source_undoes_offset(const Case& given, const Subject& subject) {
  for (const Matrix& matrix : scale_matrices(given.shape)) {
    for (std::int64_t at = 0; at < matrix.bytes(); ++at) {
      const std::int64_t row = at / matrix.row_bytes;
      const std::int64_t col = at % matrix.row_bytes;
      const std::int64_t offset = subject.sf_offset(row, col, matrix.row_bytes);
      const layout::SfPlace back = subject.sf_source(offset, matrix.row_bytes);
      if (back != layout::SfPlace{row, col}) {
        return Reason(fmt::format("scale ({}, {}) lies at {}, where ({}, {}) is said to lie", row,
                                  col, offset, back.row, back.col));
      }
    }
  }
  return {};
}

Reason converted_offset_undoes_plain_place(const Case& given, const Subject& subject) {
  const Widths widths = layout::stock_widths(given.shape);
  for (const Kind kind : layout::kinds) {
    for (std::int64_t offset = 0; offset < layout::matrix(kind, widths).bytes(); ++offset) {
      const layout::PlainPlace place = subject.plain_place(kind, offset, widths);
      const std::int64_t back = subject.converted_offset(place, widths);
      if (layout::kind_of(place.projection, place.scale) != kind || back != offset) {
        return Reason(fmt::format("byte {} of {} is byte {} of row {} of {}, which lies at {}",
                                  offset, name(kind), place.byte, place.row, name(place.projection),
                                  back));
      }
    }
  }
  return {};
}

// Packed byte `at` of slice d, as an offset of the whole expert.
std::int64_t cut_offset(const layout::Cut& cut, std::int64_t d, std::int64_t at) {
  return at / cut.run_bytes * cut.run_stride + d * cut.run_bytes + at % cut.run_bytes;
}

// The cut in integers: what the closed form says of the slice's own byte, moved into the whole, is
// what it says of the whole's byte that the cut takes.
Reason cut_takes_the_place_of_the_slice(const Case& given, const Subject& subject) {
  const layout::Shape& shape = given.shape;
  for (const Kind kind : layout::kinds) {
    const layout::Cut cut = subject.cut(kind, shape);
    for (std::int64_t d = 0; d < shape.tp; ++d) {
      for (std::int64_t at = 0; at < cut.slice_bytes(); ++at) {
        const std::int64_t offset = cut_offset(cut, d, at);
        const layout::PlainPlace own = subject.plain_place(kind, at, layout::tp_widths(shape));
        const layout::PlainPlace due = subject.whole_place(own, d, shape.slice());
        if (subject.plain_place(kind, offset, layout::stock_widths(shape)) != due) {
          return Reason(
              fmt::format("byte {} of slice {} of {} is cut from byte {}, which is not "
                          "byte {} of row {} of {}",
                          at, d, name(kind), offset, due.byte, due.row, name(due.projection)));
        }
      }
    }
  }
  return {};
}

Reason slices_overlap(Kind kind, const layout::Shape& shape, const layout::Cut& cut) {
  std::vector<char> taken(static_cast<std::size_t>(cut.expert_bytes));
  if (cut.expert_bytes != shape.tp * cut.slice_bytes()) {
    return Reason(fmt::format("{} slices of {} bytes of {} are not {} bytes", shape.tp,
                              cut.slice_bytes(), name(kind), cut.expert_bytes));
  }
  for (std::int64_t d = 0; d < shape.tp; ++d) {
    for (std::int64_t at = 0; at < cut.slice_bytes(); ++at) {
      const std::int64_t offset = cut_offset(cut, d, at);
      if (offset >= cut.expert_bytes || taken[offset]) {
        return Reason(fmt::format("byte {} of {} is outside or in two slices, slice {} the second",
                                  offset, name(kind), d));
      }
      taken[offset] = 1;
    }
  }
  return {};
}

Reason slices_partition_the_converted_bytes(const Case& given, const Subject& subject) {
  for (const Kind kind : layout::kinds) {
    Reason reason = slices_overlap(kind, given.shape, subject.cut(kind, given.shape));
    if (reason) return reason;
  }
  return {};
}

}  // namespace

std::vector<Law> layout_laws() {
  using enum Dimension;
  const std::vector<Dimension> rows{tp, slice_tiles};
  const std::vector<Dimension> tiles{tp, hidden_tiles, slice_tiles};
  return {
      {"Rows.shuffle_dest_undoes_shuffle_source", Draw::valid, rows,
       shuffle_dest_undoes_shuffle_source},
      {"Rows.w13_dest_undoes_w13_source", Draw::valid, rows, w13_dest_undoes_w13_source},
      {"SfTile.offset_is_one_to_one_and_onto", Draw::valid, tiles, offset_is_one_to_one_and_onto},
      {"SfTile.source_undoes_offset", Draw::valid, tiles, source_undoes_offset},
      {"Place.converted_offset_undoes_plain_place", Draw::valid, tiles,
       converted_offset_undoes_plain_place},
      {"Cut.takes_the_place_of_the_slice", Draw::valid, tiles, cut_takes_the_place_of_the_slice},
      {"Cut.slices_partition_the_converted_bytes", Draw::valid, tiles,
       slices_partition_the_converted_bytes},
  };
}

}  // namespace slicecheck::properties
