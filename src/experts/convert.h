// The conversion, by moving rows, written to be read: [w3; w1], rows interleaved, rows shuffled,
// scales laid in tiles. Theorem: convert(slice r of W) equals slice r of convert(W), byte for byte,
// for all four tensors, when I' % 64 == 0 and H % 128 == 0. `place.h` says the same by index
// formula; the two are never one text.
// Source: FlashInfer fb28d72, flashinfer/fused_moe; vLLM, flashinfer_fp4_moe.py.
#pragma once

#include "experts/experts.h"
#include "layout/cut.h"

namespace slicecheck::experts {

/// One expert in the kernel's layout: four byte matrices, see layout::matrix.
struct ConvertedExpert {
  layout::Widths widths;
  ByteVector w13;
  ByteVector w13_sf;
  ByteVector w2;
  ByteVector w2_sf;
};

const ByteVector& bytes_of(const ConvertedExpert& expert, layout::Kind kind);
ByteVector& bytes_of(ConvertedExpert& expert, layout::Kind kind);

/// The converted expert of a plain one: of a whole expert for the stock, of a slice for tp.
ConvertedExpert converted(const PlainExpert& plain);

/// The plain expert of a converted one: the inverse, by the inverse moves.
/// Law: Convert.unconvert_undoes_convert
PlainExpert unconverted(const ConvertedExpert& expert);

/// Slice d of tp of a plain expert, as a TP loader cuts it before conversion: rows [d I', (d + 1)
/// I') of w1 and w3, columns [d I', (d + 1) I') of w2.
PlainExpert slice(const PlainExpert& plain, std::int64_t tp, std::int64_t d);

/// Slice d of tp of a converted expert, cut without knowing the rows (layout::cut, packed).
/// Law: Cut.slice_of_converted_is_converted_slice
ConvertedExpert slice(const ConvertedExpert& expert, std::int64_t tp, std::int64_t d);

// The single moves, each on a row-major [rows, row_bytes] byte matrix.

/// Rows of a and b in turn: a's row 0, b's row 0, a's row 1, ...
ByteVector interleaved_rows(Bytes a, Bytes b, std::int64_t row_bytes);

/// The 32-row shuffle.
ByteVector shuffled_rows(Bytes rows, std::int64_t row_bytes);

/// The 128x4 interleave of a [rows, cols] matrix of block scales.
ByteVector interleaved_scales(Bytes scales, std::int64_t cols);

}  // namespace slicecheck::experts
