#include "memory/host/payload_run.h"

#include <algorithm>

namespace slicecheck::memory {
namespace {

// One step of the state is one k-tile: `bytes` counts in steps of the golden ratio before mix32,
// `numeric` in numeric_step mod numeric_range before the digits.
SLICECHECK_VECTOR_CLONES
void mixed_units(std::uint32_t* state, std::uint8_t* to) {
  for (std::int64_t u = 0; u < tile_units; ++u) {
    store(to + 4 * u, layout::mix32(state[u]));
    state[u] += layout::bytes_step;
  }
}

SLICECHECK_VECTOR_CLONES
void numeric_units(std::uint32_t* state, std::uint8_t* to) {
  constexpr auto range = static_cast<std::uint32_t>(layout::numeric_range);
  for (std::int64_t u = 0; u < tile_units; ++u) {
    store(to + 4 * u, layout::numeric_digits(state[u]));
    const std::uint32_t next = state[u] + static_cast<std::uint32_t>(layout::numeric_step);
    state[u] = std::min(next, next - range);  // wraps to something large while next < range
  }
}

}  // namespace

SLICECHECK_VECTOR_CLONES
void weight_words(std::uint8_t* to, std::uint64_t key, std::int64_t first, std::int64_t words) {
  const std::uint64_t start = key + static_cast<std::uint64_t>(first) * layout::golden_gamma;
  for (std::int64_t j = 0; j < words; ++j) store(to + 8 * j, layout::weight_word(start, j));
}

TileRun::TileRun(const PayloadTensor& tensor, std::int64_t expert, std::int64_t m_tile)
    : numeric_(tensor.payload.kind != layout::PayloadKind::bytes) {
  const std::uint64_t key8 = layout::scale_key(tensor.payload.seed);
  for (std::int64_t u = 0; u < tile_units; ++u) {
    const UnitStart start = unit_start(tensor, m_tile, u);
    const std::int64_t g = layout::scale_unit(expert, start.projection, start.unit, tensor.whole);
    state_[u] = numeric_ ? layout::numeric_value(key8, g) : layout::bytes_value(key8, g);
  }
}

void TileRun::next(std::uint8_t* to) {
  if (numeric_) {
    numeric_units(state_.data(), to);
  } else {
    mixed_units(state_.data(), to);
  }
}

void weight_row(std::uint8_t* to, const PayloadTensor& tensor, std::int64_t expert,
                std::int64_t row) {
  const RowStart start = row_start(tensor, row);
  const std::int64_t words =
      layout::matrix(tensor.kind, tensor.widths()).row_bytes / layout::word_bytes;
  const layout::Payload& payload = tensor.payload;
  if (payload.kind != layout::PayloadKind::exact || tensor.kind != layout::Kind::w2) {
    weight_words(to, layout::word_key(payload.seed, expert, layout::word_kind(start.projection)),
                 start.word, words);
    return;
  }
  std::memset(to, 0, static_cast<std::size_t>(words * layout::word_bytes));
  const std::int64_t row_words = tensor.whole.intermediate / layout::word_codes;
  const std::int64_t channel = layout::exact_channel(start.row, payload.round, tensor.whole);
  const std::int64_t lit = start.row * row_words + channel / layout::word_codes;
  if (lit >= start.word && lit < start.word + words) {
    store(to + layout::word_bytes * (lit - start.word),
          layout::exact_word(lit, payload.round, tensor.whole));
  }
}

}  // namespace slicecheck::memory
