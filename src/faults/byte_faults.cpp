#include "faults/byte_faults.h"

#include <algorithm>
#include <random>

#include "base/must.h"
#include "layout/place.h"

namespace slicecheck::faults {
namespace {

using layout::Kind;

MutableBytes part_of(MutableBytes bytes, const Part& part) {
  const std::size_t first = bytes.size() * static_cast<std::size_t>(part.first) / 16;
  const std::size_t last = bytes.size() * static_cast<std::size_t>(part.last) / 16;
  return bytes.subspan(first, last - first);
}

const Tensor& tensor_at(const Layer& layer, const Spot& spot) {
  return spot.side == Side::tp ? experts::tensor_of(layer.tps[spot.rank], spot.kind)
                               : experts::tensor_of(layer.stocks[spot.rank], spot.kind);
}

std::int64_t index_of(const Layer& layer, const Spot& spot) {
  return spot.side == Side::tp ? spot.expert : spot.expert % layer.shape.experts_per_rank();
}

// Rows [first, first + count) of a matrix, then zeros up to `due` rows.
ByteVector rows_padded(const ByteVector& rows, std::int64_t row_bytes, std::int64_t first,
                       std::int64_t count, std::int64_t due) {
  ByteVector made(rows.begin() + first * row_bytes, rows.begin() + (first + count) * row_bytes);
  made.resize(due * row_bytes, 0);
  return made;
}

// Columns [first, first + count) bytes of every row, then zeros up to `due` bytes a row.
ByteVector columns_padded(const ByteVector& rows, std::int64_t row_bytes, std::int64_t first,
                          std::int64_t count, std::int64_t due) {
  ByteVector made;
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(rows.size()); at += row_bytes) {
    made.insert(made.end(), rows.begin() + at + first, rows.begin() + at + first + count);
    made.resize(made.size() + static_cast<std::size_t>(due - count), 0);
  }
  return made;
}

ByteVector rows_and_columns(const ByteVector& plain, const layout::Matrix& is,
                            const layout::Matrix& due) {
  return rows_padded(columns_padded(plain, is.row_bytes, 0, is.row_bytes, due.row_bytes),
                     due.row_bytes, 0, is.rows, due.rows);
}

experts::PlainExpert padded(const experts::PlainExpert& plain, const layout::Widths& widths) {
  experts::PlainExpert made;
  made.widths = widths;
  for (const layout::Projection p : layout::projections) {
    const auto due = [&](bool scale) { return layout::plain_matrix(p, scale, widths); };
    const auto is = [&](bool scale) { return layout::plain_matrix(p, scale, plain.widths); };
    const experts::PlainProjection& from = experts::projection_of(plain, p);
    experts::projection_of(made, p) = {rows_and_columns(from.weight, is(false), due(false)),
                                       rows_and_columns(from.scale, is(true), due(true))};
  }
  return made;
}

const ByteVector& side_of(const experts::PlainProjection& projection, Kind kind) {
  return layout::is_scale(kind) ? projection.scale : projection.weight;
}

ByteVector& side_of(experts::PlainProjection& projection, Kind kind) {
  return layout::is_scale(kind) ? projection.scale : projection.weight;
}

// [w3; w1] of the rows that are data, then all the zeros: split in two halves for the interleave.
void together_at_the_end(experts::PlainExpert& part, Kind kind, std::int64_t data_rows) {
  ByteVector& up = side_of(part.w3, kind);
  ByteVector& gate = side_of(part.w1, kind);
  const std::int64_t row_bytes = layout::matrix(kind, part.widths).row_bytes;
  ByteVector stacked(up.begin(), up.begin() + data_rows * row_bytes);
  stacked.insert(stacked.end(), gate.begin(), gate.begin() + data_rows * row_bytes);
  stacked.resize(up.size() * 2, 0);
  const auto middle = stacked.begin() + static_cast<std::ptrdiff_t>(up.size());
  gate.assign(middle, stacked.end());
  up.assign(stacked.begin(), middle);
}

// The rank's slice of the unpadded expert, padded to the due slice.
void after_the_cut(experts::PlainExpert& part, const experts::PlainExpert& whole, Kind kind,
                   std::int64_t rank, std::int64_t data) {
  const layout::Widths& due = part.widths;
  const layout::Matrix matrix = layout::matrix(kind, whole.widths);
  if (layout::is_w13(kind)) {
    for (const layout::Projection p : {layout::Projection::w3, layout::Projection::w1}) {
      side_of(experts::projection_of(part, p), kind) =
          rows_padded(side_of(experts::projection_of(whole, p), kind), matrix.row_bytes,
                      rank * data, data, due.intermediate);
    }
    return;
  }
  const std::int64_t per_byte = layout::is_scale(kind) ? layout::sf_vec : layout::codes_per_byte;
  side_of(part.w2, kind) =
      columns_padded(side_of(whole.w2, kind), matrix.row_bytes, rank * data / per_byte,
                     data / per_byte, due.intermediate / per_byte);
}

}  // namespace

void never_written(Layer& layer, const Where& where, std::uint8_t value, const Part& part) {
  for (const Spot& spot : spots(layer, where)) {
    const MutableBytes bytes = part_of(bytes_at(layer, spot), part);
    std::fill(bytes.begin(), bytes.end(), value);
  }
}

void bit_corruption(Layer& layer, const Where& where, std::int64_t bits, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  for (const Spot& spot : spots(layer, where)) {
    const MutableBytes bytes = bytes_at(layer, spot);
    for (std::int64_t i = 0; i < bits; ++i) {
      bytes[draw() % bytes.size()] ^= static_cast<std::uint8_t>(1U << draw() % 8);
    }
  }
}

void payload_of_other_layer(Layer& layer, const Where& where, std::uint64_t seed) {
  const layout::Payload payload{layer.payload.kind, seed, layer.payload.round};
  const Layer other = healthy_layer(payload, layer.shape);
  for (const Spot& spot : spots(layer, where)) {
    const MutableBytes from = bytes_at(other, spot);
    std::copy(from.begin(), from.end(), bytes_at(layer, spot).begin());
  }
}

void expert_offset_drift(Layer& layer, const Where& where, std::int64_t drift) {
  replace(layer, where, [drift](const Layer& healthy, const Spot& spot) {
    const MutableBytes all = host_bytes(tensor_at(healthy, spot));
    const auto each = static_cast<std::int64_t>(bytes_at(healthy, spot).size());
    const std::int64_t from = index_of(healthy, spot) * (each + drift);
    ByteVector made(each, 0);
    const std::int64_t inside =
        std::clamp(static_cast<std::int64_t>(all.size()) - from, std::int64_t{0}, each);
    must(from >= 0, "a drift before the tensor");
    std::copy_n(all.begin() + from, inside, made.begin());
    return made;
  });
}

void expert_write_drift(Layer& layer, const Where& where, std::int64_t drift) {
  replace(layer, where, [drift](const Layer& healthy, const Spot& spot) {
    const MutableBytes all = host_bytes(tensor_at(healthy, spot));
    const auto each = static_cast<std::int64_t>(bytes_at(healthy, spot).size());
    ByteVector made(each, 0);
    for (std::int64_t x = 0; x < each; ++x) {
      const std::int64_t at = index_of(healthy, spot) * each + x;
      const std::int64_t expert = at / (each + drift);
      const std::int64_t in = at % (each + drift);
      const std::int64_t from = expert * each + in;
      if (in < each && from < static_cast<std::int64_t>(all.size())) made[x] = all[from];
    }
    return made;
  });
}

void block_scales_set(Layer& layer, const Where& where, std::int64_t count, std::uint8_t value) {
  for (const Spot& spot : spots(layer, where)) {
    if (!layout::is_scale(spot.kind)) continue;
    const MutableBytes bytes = bytes_at(layer, spot);
    for (std::int64_t i = 0; i < count; ++i) {
      bytes[static_cast<std::size_t>(i) * bytes.size() / static_cast<std::size_t>(count)] = value;
    }
  }
}

void rows_scrambled(Layer& layer, const Where& where, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  for (const Spot& spot : spots(layer, where)) {
    const MutableBytes bytes = bytes_at(layer, spot);
    const std::int64_t row_bytes = tensor_at(layer, spot).extents[2];
    const std::int64_t rows = tensor_at(layer, spot).extents[1];
    for (std::int64_t row = rows - 1; row > 0; --row) {
      const auto other = static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(row + 1));
      if (other == row) continue;
      std::swap_ranges(bytes.begin() + row * row_bytes, bytes.begin() + (row + 1) * row_bytes,
                       bytes.begin() + other * row_bytes);
    }
  }
}

Layer padded_layer(const layout::Payload& payload, const layout::Shape& shape,
                   const layout::Widths& plain) {
  Layer layer = healthy_layer(payload, shape);
  const std::int64_t held = shape.experts_per_rank();
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    const experts::ConvertedExpert made = experts::converted(
        padded(experts::payload_expert(payload, e, plain), layout::stock_widths(shape)));
    for (const Kind kind : layout::kinds) {
      const ByteVector& from = experts::bytes_of(made, kind);
      std::copy(from.begin(), from.end(),
                bytes_at(layer, {Side::stock, e / held, e, kind}).begin());
    }
  }
  for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
    const experts::Scalars due = experts::payload_scalars(payload.seed, rank * held, held, plain);
    for (const experts::Scalar scalar : experts::all_scalars) {
      experts::tensor_of(layer.stocks[rank], scalar) = host_floats(experts::values_of(due, scalar));
    }
  }
  recut(layer);
  return layer;
}

void padding_misplaced(Layer& layer, const Where& where, const layout::Widths& plain,
                       Padding padding) {
  replace(layer, where, [&](const Layer& healthy, const Spot& spot) {
    experts::PlainExpert part = plain_part(healthy, spot);
    const std::int64_t ways = spot.side == Side::tp ? healthy.shape.tp : 1;
    const std::int64_t data = plain.intermediate / ways;
    if (padding == Padding::together_at_the_end) {
      if (layout::is_w13(spot.kind)) {
        const experts::PlainExpert whole = experts::unconverted(stock_expert(healthy, spot.expert));
        if (spot.side == Side::tp) after_the_cut(part, whole, spot.kind, spot.rank, data);
        together_at_the_end(part, spot.kind, data);
      }
    } else {
      const experts::PlainExpert whole = experts::unconverted(stock_expert(healthy, spot.expert));
      after_the_cut(part, whole, spot.kind, spot.rank, data);
    }
    return experts::bytes_of(experts::converted(part), spot.kind);
  });
}

void padding_dirty(Layer& layer, const Where& where, const layout::Widths& plain,
                   std::uint8_t value) {
  const layout::Shape& shape = layer.shape;
  for (const Spot& spot : spots(layer, where)) {
    const MutableBytes bytes = bytes_at(layer, spot);
    const bool tp = spot.side == Side::tp;
    const layout::Widths widths = tp ? layout::tp_widths(shape) : layout::stock_widths(shape);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      layout::PlainPlace place =
          layout::plain_place(spot.kind, static_cast<std::int64_t>(at), widths);
      if (tp) place = layout::whole_place(place, spot.rank, shape.slice());
      const layout::Matrix data = layout::plain_matrix(place.projection, place.scale, plain);
      if (place.row >= data.rows || place.byte >= data.row_bytes) bytes[at] = value;
    }
  }
}

}  // namespace slicecheck::faults
