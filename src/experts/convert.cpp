#include "experts/convert.h"

#include "base/must.h"
#include "layout/rows.h"

namespace slicecheck::experts {
namespace {

std::int64_t ssize(Bytes bytes) { return static_cast<std::int64_t>(bytes.size()); }

void copy_row(ByteVector& to, std::int64_t row, Bytes from, std::int64_t source,
              std::int64_t row_bytes) {
  std::memcpy(to.data() + row * row_bytes, from.data() + source * row_bytes,
              static_cast<std::size_t>(row_bytes));
}

ByteVector unshuffled_rows(Bytes rows, std::int64_t row_bytes) {
  ByteVector made(rows.size());
  for (std::int64_t row = 0; row < ssize(rows) / row_bytes; ++row) {
    copy_row(made, layout::shuffle_source(row), rows, row, row_bytes);
  }
  return made;
}

ByteVector every_second_row(Bytes rows, std::int64_t row_bytes, std::int64_t first) {
  ByteVector made(rows.size() / 2);
  for (std::int64_t row = 0; row < ssize(made) / row_bytes; ++row) {
    copy_row(made, row, rows, 2 * row + first, row_bytes);
  }
  return made;
}

ByteVector linear_scales(Bytes interleaved, std::int64_t cols) {
  ByteVector made(interleaved.size());
  for (std::int64_t at = 0; at < ssize(made); ++at) {
    made[at] = interleaved[layout::sf_offset(at / cols, at % cols, cols)];
  }
  return made;
}

ByteVector rows_between(Bytes matrix, std::int64_t row_bytes, std::int64_t first,
                        std::int64_t count) {
  const Bytes part = matrix.subspan(first * row_bytes, count * row_bytes);
  return {part.begin(), part.end()};
}

ByteVector columns_between(Bytes matrix, std::int64_t row_bytes, std::int64_t first,
                           std::int64_t count) {
  ByteVector made;
  made.reserve(matrix.size() / row_bytes * count);
  for (std::int64_t at = first; at < ssize(matrix); at += row_bytes) {
    const Bytes part = matrix.subspan(at, count);
    made.insert(made.end(), part.begin(), part.end());
  }
  return made;
}

}  // namespace

ByteVector interleaved_rows(Bytes a, Bytes b, std::int64_t row_bytes) {
  must(a.size() == b.size(), "rows of two matrices of different size cannot alternate");
  ByteVector made(a.size() + b.size());
  for (std::int64_t row = 0; row < ssize(a) / row_bytes; ++row) {
    copy_row(made, 2 * row, a, row, row_bytes);
    copy_row(made, 2 * row + 1, b, row, row_bytes);
  }
  return made;
}

ByteVector shuffled_rows(Bytes rows, std::int64_t row_bytes) {
  ByteVector made(rows.size());
  for (std::int64_t row = 0; row < ssize(rows) / row_bytes; ++row) {
    copy_row(made, row, rows, layout::shuffle_source(row), row_bytes);
  }
  return made;
}

ByteVector interleaved_scales(Bytes scales, std::int64_t cols) {
  ByteVector made(scales.size());
  for (std::int64_t at = 0; at < ssize(scales); ++at) {
    made[layout::sf_offset(at / cols, at % cols, cols)] = scales[at];
  }
  return made;
}

const ByteVector& bytes_of(const ConvertedExpert& expert, layout::Kind kind) {
  return bytes_of(const_cast<ConvertedExpert&>(expert), kind);  // NOLINT: one text for both
}

ByteVector& bytes_of(ConvertedExpert& expert, layout::Kind kind) {
  switch (kind) {
    case layout::Kind::w13: return expert.w13;
    case layout::Kind::w13_sf: return expert.w13_sf;
    case layout::Kind::w2: return expert.w2;
    case layout::Kind::w2_sf: break;
  }
  return expert.w2_sf;
}

ConvertedExpert converted(const PlainExpert& plain) {
  const std::int64_t h = plain.widths.hidden;
  const std::int64_t i = plain.widths.intermediate;
  ConvertedExpert made;
  made.widths = plain.widths;
  made.w13 = shuffled_rows(interleaved_rows(plain.w3.weight, plain.w1.weight, h / 2), h / 2);
  made.w13_sf = interleaved_scales(
      shuffled_rows(interleaved_rows(plain.w3.scale, plain.w1.scale, h / 16), h / 16), h / 16);
  made.w2 = shuffled_rows(plain.w2.weight, i / 2);
  made.w2_sf = interleaved_scales(shuffled_rows(plain.w2.scale, i / 16), i / 16);
  return made;
}

PlainExpert unconverted(const ConvertedExpert& expert) {
  const std::int64_t h = expert.widths.hidden;
  const std::int64_t i = expert.widths.intermediate;
  const ByteVector rows = unshuffled_rows(expert.w13, h / 2);
  const ByteVector scales = unshuffled_rows(linear_scales(expert.w13_sf, h / 16), h / 16);
  PlainExpert made;
  made.widths = expert.widths;
  made.w3 = {every_second_row(rows, h / 2, 0), every_second_row(scales, h / 16, 0)};
  made.w1 = {every_second_row(rows, h / 2, 1), every_second_row(scales, h / 16, 1)};
  made.w2 = {unshuffled_rows(expert.w2, i / 2),
             unshuffled_rows(linear_scales(expert.w2_sf, i / 16), i / 16)};
  return made;
}

PlainExpert slice(const PlainExpert& plain, std::int64_t tp, std::int64_t d) {
  const std::int64_t h = plain.widths.hidden;
  const std::int64_t i = plain.widths.intermediate;
  const std::int64_t part = i / tp;
  PlainExpert made;
  made.widths = {h, part};
  made.w1 = {rows_between(plain.w1.weight, h / 2, d * part, part),
             rows_between(plain.w1.scale, h / 16, d * part, part)};
  made.w3 = {rows_between(plain.w3.weight, h / 2, d * part, part),
             rows_between(plain.w3.scale, h / 16, d * part, part)};
  made.w2 = {columns_between(plain.w2.weight, i / 2, d * part / 2, part / 2),
             columns_between(plain.w2.scale, i / 16, d * part / 16, part / 16)};
  return made;
}

ConvertedExpert slice(const ConvertedExpert& expert, std::int64_t tp, std::int64_t d) {
  const layout::Shape shape{tp, expert.widths.hidden, expert.widths.intermediate, tp};
  ConvertedExpert made;
  made.widths = layout::tp_widths(shape);
  for (const layout::Kind kind : layout::kinds) {
    const layout::Cut cut = layout::cut(kind, shape);
    bytes_of(made, kind) = columns_between(bytes_of(expert, kind), cut.run_stride,
                                           d * cut.run_bytes, cut.run_bytes);
  }
  return made;
}

}  // namespace slicecheck::experts
