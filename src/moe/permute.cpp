#include "moe/permute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "layout/payload.h"

namespace slicecheck::moe {
namespace {

constexpr std::uint64_t order_kind = 13;
constexpr std::uint64_t padding_kind = 15;
constexpr std::uint16_t nan_bits = 0x7FC0;
constexpr std::int64_t bytes_least = 128 * 1024;

std::int64_t tiles(std::int64_t count, std::int64_t tile) { return (count + tile - 1) / tile; }

// Rows of NaN and rows of arbitrary bits in turn.
void fill_garbage(const PermutedRows& permuted, std::uint64_t seed) {
  const std::int64_t hidden = permuted.rows.extents[1];
  for (std::int64_t row = 0; row < permuted.rows.extents[0]; ++row) {
    std::uint16_t* values = row_of(permuted, row);
    const std::uint64_t key = layout::word_key(seed, row, padding_kind);
    for (std::int64_t h = 0; h < hidden; ++h) {
      values[h] = row % 2 == 0 ? nan_bits : static_cast<std::uint16_t>(layout::weight_word(key, h));
    }
  }
}

}  // namespace

std::int64_t rows_allocated(std::int64_t tile, std::int64_t experts, std::int64_t routes,
                            std::int64_t hidden) {
  const std::int64_t hit = std::min(experts, routes);
  const std::int64_t padded = tile * (hit + (routes - hit) / tile);
  const std::int64_t row_bytes = 2 * hidden;
  return std::max(padded, tiles(bytes_least, row_bytes));
}

PermutedRows unwritten_rows(const Routing& routing, const LocalExperts& local, std::int64_t hidden,
                            const Placement& placement) {
  const std::int64_t routes = routing.routes();
  PermutedRows made;
  made.rows =
      host_tensor(Dtype::bf16, {rows_allocated(placement.tile, local.all, routes, hidden), hidden});
  made.map.assign(routes, -1);
  fill_garbage(made, placement.seed);
  std::int64_t start = 0;
  for (std::int64_t e = local.first; e < local.first + local.count; ++e) {
    const std::vector<std::int64_t> served = routes_of(routing, e);
    const auto count = static_cast<std::int64_t>(served.size());
    const std::uint64_t key = layout::word_key(placement.seed, e, order_kind);
    const std::vector<std::int64_t> order = shuffled(count, key);
    for (std::int64_t i = 0; i < count; ++i) {
      made.map[served[i]] = static_cast<std::int32_t>(start + order[i]);
    }
    start += tiles(count, placement.tile) * placement.tile;
  }
  return made;
}

std::uint16_t* row_of(const PermutedRows& permuted, std::int64_t row) {
  return reinterpret_cast<std::uint16_t*>(permuted.rows.data.get()) +
         row * permuted.rows.extents[1];
}

Reason unreadable(const PermutedRows& permuted) {
  const Tensor& rows = permuted.rows;
  if (rows.dtype != Dtype::bf16 || rows.extents.size() != 2 || !is_contiguous(rows)) {
    return Reason(fmt::format("the route rows are {}, expected BF16 [P, H]", text(rows)));
  }
  for (std::size_t i = 0; i < permuted.map.size(); ++i) {
    if (permuted.map[i] >= rows.extents[0]) {
      return Reason(
          fmt::format("route {} lies in row {} of {}", i, permuted.map[i], rows.extents[0]));
    }
  }
  return {};
}

RouteRows route_rows(const PermutedRows& permuted) {
  RouteRows made;
  made.hidden = permuted.rows.extents[1];
  made.rows.assign(permuted.map.size() * made.hidden, 0);
  made.local.assign(permuted.map.size(), 0);
  for (std::size_t i = 0; i < permuted.map.size(); ++i) {
    if (permuted.map[i] < 0) continue;
    made.local[i] = 1;
    const std::int64_t row_bytes = 2 * made.hidden;
    std::memcpy(made.rows.data() + i * made.hidden,
                permuted.rows.data.get() + permuted.map[i] * row_bytes, row_bytes);
  }
  return made;
}

}  // namespace slicecheck::moe
