// The rows of GEMM2 as the kernel hands them over: each local expert with routes has a segment that
// starts at a multiple of a tile, rows inside it in no promised order, padding never written. A map
// says where each route's row lies, -1 where its expert is not local. A reader has to select by the
// map after the gather: padding is NaN and garbage here, as it may be there.
// Source: FlashInfer fb28d72, include/flashinfer/trtllm/fused_moe/RoutingKernel.cuh; the seed,
//   route_rows.
#pragma once

#include "base/tensor.h"
#include "moe/routing.h"

namespace slicecheck::moe {

/// rows BF16 [P, H]; map[t K + k] is the row of route (t, k), or -1.
struct PermutedRows {
  Tensor rows;
  std::vector<std::int32_t> map;
};

/// Tile of the segments (8 to 256) and the seed of the order inside them and of the padding.
struct Placement {
  std::int64_t tile = 8;
  std::uint64_t seed = 1;
};

/// Experts [first, first + count) of E are local to a rank.
struct LocalExperts {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t all = 0;  // E
};

/// Rows P that the kernel's buffer has for `routes` routes over E experts: whole tiles for any
/// distribution of them, and 128 KiB at least. Never to be relied on by a reader.
std::int64_t rows_allocated(std::int64_t tile, std::int64_t experts, std::int64_t routes,
                            std::int64_t hidden);

/// The map of the local routes and a buffer of P rows without a valid one: NaN and garbage.
PermutedRows unwritten_rows(const Routing& routing, const LocalExperts& local, std::int64_t hidden,
                            const Placement& placement);

/// The BF16 values of a row.
std::uint16_t* row_of(const PermutedRows& permuted, std::int64_t row);

/// Rows by route, [routes, H] BF16, zero where a route is not local; and which routes are.
struct RouteRows {
  std::int64_t hidden = 0;
  std::vector<std::uint16_t> rows;
  std::vector<std::uint8_t> local;

  std::int64_t routes() const { return static_cast<std::int64_t>(local.size()); }
  const std::uint16_t* row(std::int64_t route) const { return rows.data() + route * hidden; }
};

/// Why the rows cannot be read by their map: not BF16 [P, H] in contiguous host memory, or an entry
/// at or beyond P. Entries below 0 mean not local. Nothing is trusted.
Reason unreadable(const PermutedRows& permuted);

/// The row of every route, in route order, gathered and then selected.
/// Checked by unreadable().
/// Law: Permute.route_rows_do_not_depend_on_tile_or_order
/// Source: the seed, route_rows.
RouteRows route_rows(const PermutedRows& permuted);

}  // namespace slicecheck::moe
