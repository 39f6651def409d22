// Kernels that move bytes: the cut and the conversion. A block writes one contiguous stretch; what
// it reads lies in rows of a known length, found by one division a block.
#include <algorithm>

#include "memory/cuda/vectors.cuh"

namespace slicecheck::memory::kernels {
namespace {

// Wide blocks of few vectors a thread: of 14 forms tried on one H200 the best by 1 % over the cut
// of 792 MB tp 8 (3885 GB/s read and written, the device's own copy 4076).
constexpr int wide = 1024;
constexpr int pack_vectors = 2;
constexpr std::int64_t pack_span = wide * pack_vectors;

struct PackPlan {
  const uint4* from;
  uint4* to;
  uint4* own_to;
  std::int64_t own;
  SmallQuotient run;     // vectors of a run
  std::int64_t slice;    // vectors of a slice of all experts: runs of all experts, packed
  std::uint32_t slices;  // tp
  std::uint32_t chunks;  // of all slices
};

// Chunk (start, d) is vectors [start, start + span) of slice d. d is the fastest, so that blocks
// which read the same rows run at the same time. As many blocks as chunks, or fewer where others
// are to have room beside.
__global__ void pack_kernel(PackPlan plan) {
  const std::uint32_t skip = (plan.slices - 1) * plan.run.divisor;  // to the next row of the slice
  for (std::uint32_t chunk = blockIdx.x; chunk < plan.chunks; chunk += gridDim.x) {
    const std::uint32_t d = chunk % plan.slices;
    const std::int64_t start = std::int64_t{chunk / plan.slices} * pack_span;
    const std::int64_t row = start / plan.run.divisor;
    const auto col = static_cast<std::uint32_t>(start - row * plan.run.divisor);
    const uint4* from = plan.from + row * (std::int64_t{plan.slices} * plan.run.divisor) +
                        std::int64_t{d} * plan.run.divisor + col;
    uint4* to = (d == plan.own ? plan.own_to : plan.to + d * plan.slice) + start;
    const std::int64_t left = plan.slice - start;
    uint4 moved[pack_vectors];
#pragma unroll
    for (int i = 0; i < pack_vectors; ++i) {
      const std::uint32_t x = threadIdx.x + i * wide;
      if (x < left) moved[i] = read_once(from + x + std::int64_t{plan.run.of(col + x)} * skip);
    }
#pragma unroll
    for (int i = 0; i < pack_vectors; ++i) {
      const std::uint32_t x = threadIdx.x + i * wide;
      if (x < left) write_once(to + x, moved[i]);
    }
  }
}

struct ConvertPlan {
  const uint4* up;
  const uint4* gate;
  const uint4* down;
  uint4* to;
  layout::Kind kind;
  SmallQuotient row;   // vectors of a row
  std::int64_t total;  // vectors
};

__device__ const uint4* matrix_of(const ConvertPlan& plan, layout::Projection projection) {
  if (projection == layout::Projection::w2) return plan.down;
  return projection == layout::Projection::w3 ? plan.up : plan.gate;
}

// Rows of all experts are numbered through: 32-row blocks never straddle experts.
__global__ void convert_weights_kernel(ConvertPlan plan) {
  const std::int64_t start = std::int64_t{blockIdx.x} * pack_span;
  const std::int64_t row = start / plan.row.divisor;
  const auto col = static_cast<std::uint32_t>(start - row * plan.row.divisor);
  const std::int64_t left = plan.total - start;
  uint4 moved[pack_vectors];
#pragma unroll
  for (int i = 0; i < pack_vectors; ++i) {
    const std::uint32_t x = threadIdx.x + i * wide;
    if (x >= left) continue;
    const std::uint32_t rows = plan.row.of(col + x);
    const layout::PlainRow source = layout::row_source(plan.kind, row + rows);
    moved[i] = read_once(matrix_of(plan, source.projection) + source.row * plan.row.divisor +
                         (col + x - rows * plan.row.divisor));
  }
#pragma unroll
  for (int i = 0; i < pack_vectors; ++i) {
    const std::uint32_t x = threadIdx.x + i * wide;
    if (x < left) write_once(plan.to + start + x, moved[i]);
  }
}

struct ScalePlan {
  const std::uint8_t* up;
  const std::uint8_t* gate;
  const std::uint8_t* down;
  uint4* to;
  layout::Kind kind;
  std::int64_t row_bytes;
  std::int64_t k_tiles;
  std::int64_t total;  // threads with work
};

__device__ const std::uint8_t* scale_row(const ScalePlan& plan, std::int64_t m_tile,
                                         std::int64_t unit) {
  const layout::PlainRow source = unit_row(plan.kind, m_tile, unit);
  if (source.projection == layout::Projection::w2) return plan.down + source.row * plan.row_bytes;
  return (source.projection == layout::Projection::w3 ? plan.up : plan.gate) +
         source.row * plan.row_bytes;
}

// One vector of one tile: four units of four rows. For k-tiles that do not come in fours.
__global__ void convert_tiles_kernel(ScalePlan plan) {
  const std::int64_t v = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (v >= plan.total) return;
  const std::int64_t tile = v / 32;
  const std::int64_t at = tile % plan.k_tiles * layout::sf_tile_cols;
  std::uint32_t unit[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unit[i] = *reinterpret_cast<const std::uint32_t*>(
        scale_row(plan, tile / plan.k_tiles, v % 32 * 4 + i) + at);
  }
  plan.to[v] = make_uint4(unit[0], unit[1], unit[2], unit[3]);
}

// Vector q of four tiles: 16 bytes of each of four rows, transposed. Eight lanes read along a row,
// so that a warp reads whole lines and writes 64 bytes a tile.
__global__ void convert_four_tiles_kernel(ScalePlan plan) {
  const std::int64_t v = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (v >= plan.total) return;
  const std::int64_t fours = plan.k_tiles / 4;
  const std::int64_t four = v / 4 % fours;
  const std::int64_t group = v / 4 / fours;  // four neighbouring q of an m-tile
  const std::int64_t q = group % 8 * 4 + v % 4;
  const std::int64_t m_tile = group / 8;
  uint4 row[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    row[i] = read_once(reinterpret_cast<const uint4*>(scale_row(plan, m_tile, q * 4 + i)) + four);
  }
  uint4* to = plan.to + (m_tile * plan.k_tiles + four * 4) * 32 + q;
  write_once(to, make_uint4(row[0].x, row[1].x, row[2].x, row[3].x));
  write_once(to + 32, make_uint4(row[0].y, row[1].y, row[2].y, row[3].y));
  write_once(to + 64, make_uint4(row[0].z, row[1].z, row[2].z, row[3].z));
  write_once(to + 96, make_uint4(row[0].w, row[1].w, row[2].w, row[3].w));
}

const uint4* vectors(const std::uint8_t* at) { return reinterpret_cast<const uint4*>(at); }
uint4* vectors(std::uint8_t* at) { return reinterpret_cast<uint4*>(at); }

}  // namespace

void pack(const Packed& to, const std::uint8_t* stock, const layout::Cut& cut,
          const layout::Shape& shape, unsigned blocks_max, Stream stream) {
  const std::int64_t slice = shape.experts_per_rank() * cut.slice_bytes() / vector_bytes;
  const PackPlan plan{vectors(stock),
                      vectors(to.to),
                      vectors(to.own_to),
                      to.own,
                      SmallQuotient::by(cut.run_bytes / vector_bytes, pack_span),
                      slice,
                      static_cast<std::uint32_t>(shape.tp),
                      blocks_for(slice, pack_span) * static_cast<std::uint32_t>(shape.tp)};
  const unsigned blocks = std::min(plan.chunks, blocks_max);
  if (blocks != 0) pack_kernel<<<blocks, wide, 0, stream>>>(plan);
}

void convert_weights(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
                     const PlainSource& from, std::int64_t experts, Stream stream) {
  const layout::Matrix matrix = layout::matrix(kind, widths);
  const ConvertPlan plan{vectors(from.up),
                         vectors(from.gate),
                         vectors(from.down),
                         vectors(to),
                         kind,
                         SmallQuotient::by(matrix.row_bytes / vector_bytes, pack_span),
                         experts * matrix.bytes() / vector_bytes};
  const unsigned blocks = blocks_for(plan.total, pack_span);
  if (blocks != 0) convert_weights_kernel<<<blocks, wide, 0, stream>>>(plan);
}

void convert_scales(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
                    const PlainSource& from, std::int64_t experts, Stream stream) {
  const layout::Matrix matrix = layout::matrix(kind, widths);
  const std::int64_t k_tiles = matrix.row_bytes / layout::sf_tile_cols;
  const bool fours = k_tiles % 4 == 0;
  const std::int64_t total = experts * matrix.bytes() / vector_bytes / (fours ? 4 : 1);
  const ScalePlan plan{from.up, from.gate,        from.down, vectors(to),
                       kind,    matrix.row_bytes, k_tiles,   total};
  const unsigned blocks = blocks_for(total, threads);
  if (blocks == 0) return;
  if (fours) {
    convert_four_tiles_kernel<<<blocks, threads, 0, stream>>>(plan);
  } else {
    convert_tiles_kernel<<<blocks, threads, 0, stream>>>(plan);
  }
}

}  // namespace slicecheck::memory::kernels
