#include "memory/host/payload_run.h"

namespace slicecheck::memory {
namespace {

// Half an L1 cache: a run is computed, then compared while it is there.
constexpr std::int64_t run_bytes_max = 16384;
constexpr std::int64_t run_rows_max = 64;

using Units = std::array<std::uint32_t, tile_units>;

// Made apart and then moved: what is written cannot be what is read, so the loop is a vector's.
SLICECHECK_VECTOR_CLONES
void bytes_tile(std::uint8_t* to, const Units& first, std::uint32_t further) {
  Units made;
  for (std::int64_t u = 0; u < tile_units; ++u) made[u] = bytes_unit_at(first[u], further);
  std::memcpy(to, made.data(), layout::sf_tile_bytes);
}

SLICECHECK_VECTOR_CLONES
void numeric_tile(std::uint8_t* to, const Units& first, std::uint32_t further) {
  Units made;
  for (std::int64_t u = 0; u < tile_units; ++u) made[u] = numeric_unit_at(first[u], further);
  std::memcpy(to, made.data(), layout::sf_tile_bytes);
}

// Row r is the words after starts[r]: key + word golden_gamma.
SLICECHECK_VECTOR_CLONES
void word_rows(std::uint8_t* to, const std::uint64_t* starts, std::int64_t rows,
               std::int64_t words) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::uint64_t argument = starts[row];  // of the mixer: weight_word(start, j) without a product
    for (std::int64_t j = 0; j < words; ++j) {
      argument += layout::golden_gamma;
      store(to + layout::word_bytes * j, layout::mix64(argument));
    }
    to += layout::word_bytes * words;
  }
}

bool is_exact_w2(const PayloadTensor& tensor) {
  return tensor.payload.kind == layout::PayloadKind::exact && tensor.kind == layout::Kind::w2;
}

}  // namespace

void weight_words(std::uint8_t* to, std::uint64_t key, std::int64_t first, std::int64_t words) {
  const std::uint64_t start = key + static_cast<std::uint64_t>(first) * layout::golden_gamma;
  word_rows(to, &start, 1, words);
}

PayloadRuns::PayloadRuns(const PayloadTensor& tensor)
    : tensor_(tensor), rows_(row_steps(tensor)), units_(unit_steps(tensor)) {
  const layout::Matrix matrix = layout::matrix(tensor.kind, tensor.widths());
  const bool scale = layout::is_scale(tensor.kind);
  unit_bytes_ = scale ? layout::sf_tile_bytes : matrix.row_bytes;
  groups_ = scale ? matrix.rows / layout::sf_tile_rows : 1;
  group_units_ = scale ? matrix.row_bytes / layout::sf_tile_cols : matrix.rows;
  run_units_ = std::min(
      {group_units_, run_rows_max, std::max<std::int64_t>(1, run_bytes_max / unit_bytes_)});
  if (!scale) return;
  const std::uint64_t key8 = layout::scale_key(tensor.payload.seed);
  const bool bytes = tensor.payload.kind == layout::PayloadKind::bytes;
  for (std::int64_t u = 0; u < tile_units; ++u) {
    first_[u] = bytes ? layout::bytes_value(key8, units_.first(u))
                      : layout::numeric_value(key8, units_.first(u));
  }
}

void PayloadRuns::write(std::uint8_t* to, const Run& run) const {
  if (layout::is_scale(tensor_.kind)) {
    write_tiles(to, run);
  } else if (is_exact_w2(tensor_)) {
    write_exact_rows(to, run);
  } else {
    write_rows(to, run);
  }
}

void PayloadRuns::write_rows(std::uint8_t* to, const Run& run) const {
  std::array<std::uint64_t, layout::projections.size()> keys{};
  for (const layout::Projection projection : layout::projections) {
    keys[static_cast<std::size_t>(projection)] =
        layout::word_key(tensor_.payload.seed, run.expert, layout::word_kind(projection));
  }
  std::array<std::uint64_t, run_rows_max> starts;
  for (std::int64_t i = 0; i < run.count; ++i) {
    const RowStart start = rows_.start(run.at + i);
    starts[i] = keys[static_cast<std::size_t>(start.projection)] +
                static_cast<std::uint64_t>(start.word) * layout::golden_gamma;
  }
  word_rows(to, starts.data(), run.count, unit_bytes_ / layout::word_bytes);
}

void PayloadRuns::write_exact_rows(std::uint8_t* to, const Run& run) const {
  const std::int64_t words = unit_bytes_ / layout::word_bytes;
  std::memset(to, 0, static_cast<std::size_t>(run.count * unit_bytes_));
  for (std::int64_t i = 0; i < run.count; ++i) {
    const RowStart start = rows_.start(run.at + i);
    const std::int64_t channel =
        layout::exact_channel(start.row, tensor_.payload.round, tensor_.whole);
    const std::int64_t lit =
        start.row * rows_.row_words + channel / layout::word_codes - start.word;
    if (lit < 0 || lit >= words) continue;
    store(to + i * unit_bytes_ + layout::word_bytes * lit,
          layout::exact_word(start.word + lit, tensor_.payload.round, tensor_.whole));
  }
}

void PayloadRuns::write_tiles(std::uint8_t* to, const Run& run) const {
  const std::int64_t m_tile = run.at / group_units_;
  for (std::int64_t i = 0; i < run.count; ++i) {
    const std::int64_t further = units_.further(run.expert, m_tile, run.at % group_units_ + i);
    std::uint8_t* tile = to + i * layout::sf_tile_bytes;
    if (tensor_.payload.kind == layout::PayloadKind::bytes) {
      bytes_tile(tile, first_, bytes_further(further));
    } else {
      numeric_tile(tile, first_, numeric_further(further));
    }
  }
}

}  // namespace slicecheck::memory
