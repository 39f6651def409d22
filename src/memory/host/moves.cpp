#include "memory/host/moves.h"

#include <algorithm>
#include <array>

#include "memory/host/payload_run.h"

namespace slicecheck::memory {
namespace {

// Small enough to lie in the L1 cache between the look and the count.
constexpr std::int64_t compared_at_once = 4096;

const std::uint8_t* matrix_of(const PlainSource& from, layout::Projection projection) {
  switch (projection) {
    case layout::Projection::w1:
      return from.gate;
    case layout::Projection::w3:
      return from.up;
    case layout::Projection::w2:
      break;
  }
  return from.down;
}

// 128 units of 4 bytes, each `at` bytes into its row.
void move_tile(std::uint8_t* to, const std::array<const std::uint8_t*, tile_units>& rows,
               std::int64_t at) {
  for (std::int64_t u = 0; u < tile_units; ++u) {
    store(to + layout::unit_bytes * u, load<std::uint32_t>(rows[u] + at));
  }
}

SLICECHECK_VECTOR_CLONES
std::int64_t differing(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < bytes; ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

template <typename Unit, typename Of>
void write_units(std::uint8_t* to, std::int64_t bytes, const Of& of) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Unit));
  for (std::int64_t j = 0; j < bytes / size; ++j) store<Unit>(to + size * j, of(j));
}

void fill_plain_matrix(std::uint8_t* to, const PayloadPlain& plain, std::int64_t expert) {
  const layout::Payload& payload = plain.payload;
  const std::int64_t bytes =
      layout::plain_matrix(plain.projection, plain.scale, plain.whole).bytes();
  const std::uint64_t key =
      layout::word_key(payload.seed, expert, layout::word_kind(plain.projection));
  if (plain.scale) {
    const std::uint64_t key8 = layout::scale_key(payload.seed);
    const std::int64_t g = layout::scale_unit(expert, plain.projection, 0, plain.whole);
    write_units<std::uint32_t>(
        to, bytes, [&](std::int64_t j) { return layout::unit_of(payload.kind, key8, g + j); });
  } else if (payload.kind == layout::PayloadKind::exact &&
             plain.projection == layout::Projection::w2) {
    write_units<std::uint64_t>(to, bytes, [&](std::int64_t j) {
      return layout::exact_word(j, payload.round, plain.whole);
    });
  } else {
    weight_words(to, key, 0, bytes / layout::word_bytes);
  }
}

}  // namespace

PlainSource plain_expert(const PlainSource& from, layout::Kind kind, const layout::Matrix& matrix,
                         std::int64_t expert) {
  const std::int64_t at = expert * matrix.bytes() / (layout::is_w13(kind) ? 2 : 1);
  if (layout::is_w13(kind)) return {from.up + at, from.gate + at, nullptr};
  return {nullptr, nullptr, from.down + at};
}

void convert_weights(std::uint8_t* to, layout::Kind kind, const layout::Matrix& matrix,
                     const PlainSource& from) {
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const layout::PlainRow source = layout::row_source(kind, row);
    std::memcpy(to + row * matrix.row_bytes,
                matrix_of(from, source.projection) + source.row * matrix.row_bytes,
                static_cast<std::size_t>(matrix.row_bytes));
  }
}

void convert_scales(std::uint8_t* to, layout::Kind kind, const layout::Matrix& matrix,
                    const PlainSource& from) {
  std::array<const std::uint8_t*, tile_units> rows{};
  for (std::int64_t m_tile = 0; m_tile < matrix.rows / layout::sf_tile_rows; ++m_tile) {
    for (std::int64_t u = 0; u < tile_units; ++u) {
      const layout::PlainRow source = unit_row(kind, m_tile, u);
      rows[u] = matrix_of(from, source.projection) + source.row * matrix.row_bytes;
    }
    for (std::int64_t at = 0; at < matrix.row_bytes; at += layout::sf_tile_cols) {
      move_tile(to, rows, at);
      to += layout::sf_tile_bytes;
    }
  }
}

void pack_slices(const Packed& to, const std::uint8_t* stock, const layout::Cut& cut,
                 const layout::Shape& shape) {
  const std::int64_t held = shape.experts_per_rank();
  std::vector<std::uint8_t*> blocks;
  for (std::int64_t d = 0; d < shape.tp; ++d) {
    blocks.push_back(d == to.own ? to.own_to : to.to + d * held * cut.slice_bytes());
  }
  for (std::int64_t e = 0; e < held; ++e) {
    for (std::int64_t run = 0; run < cut.runs; ++run) {
      const std::uint8_t* from = stock + e * cut.expert_bytes + run * cut.run_stride;
      const std::int64_t at = e * cut.slice_bytes() + run * cut.run_bytes;
      for (std::int64_t d = 0; d < shape.tp; ++d) {
        std::memcpy(blocks[d] + at, from + d * cut.run_bytes,
                    static_cast<std::size_t>(cut.run_bytes));
      }
    }
  }
}

void fill_plain_matrices(std::uint8_t* to, const PayloadPlain& plain) {
  const std::int64_t bytes =
      layout::plain_matrix(plain.projection, plain.scale, plain.whole).bytes();
  for (std::int64_t local = 0; local < plain.experts; ++local) {
    fill_plain_matrix(to + local * bytes, plain, plain.first_expert + local);
  }
}

Difference difference(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes) {
  Difference sum;
  for (std::int64_t at = 0; at < bytes; at += compared_at_once) {
    const std::int64_t part = std::min(compared_at_once, bytes - at);
    if (std::memcmp(a + at, b + at, static_cast<std::size_t>(part)) == 0) continue;
    if (sum.differing == 0) sum.first = std::mismatch(a + at, a + at + part, b + at).first - a;
    sum.differing += differing(a + at, b + at, part);
  }
  return sum;
}

void add(Difference& sum, const Difference& run, std::int64_t offset) {
  if (run.differing == 0) return;
  if (sum.differing == 0) sum.first = offset + run.first;
  sum.differing += run.differing;
}

}  // namespace slicecheck::memory
