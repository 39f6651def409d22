// Kernels that compute the payload: to fill a tensor, or to compare one with it without an expected
// copy. A thread evaluates the index map once and steps from there by constants.
#include <algorithm>

#include "memory/cuda/vectors.cuh"

namespace slicecheck::memory::kernels {
namespace {

constexpr int in_flight = 4;                  // vectors that a thread reads before it looks at them
constexpr std::int64_t blocks_a_thread = 16;  // 32-row blocks, so vectors, of a thread

/// A tensor that is written (found null) or judged (to null).
struct Target {
  const uint4* got;
  uint4* to;
  Found* found;
};

Target written(std::uint8_t* to) { return {nullptr, reinterpret_cast<uint4*>(to), nullptr}; }
Target judged(const std::uint8_t* got, Found* found) {
  return {reinterpret_cast<const uint4*>(got), nullptr, found};
}

struct RowPlan {
  Target target;
  PayloadTensor tensor;
  RowSteps steps;
  std::uint32_t row_vectors;
  std::uint32_t stretch;     // vectors of 32 rows
  std::uint32_t row_blocks;  // 32-row blocks of an expert
  std::uint32_t parts;       // of an expert, blocks_a_thread row blocks each
  std::uint64_t block_step;  // of the mixer's argument from one 32-row block to the next
};

// What lies in the words of one vector: start is the mixer's argument of the first.
__device__ uint4 mixed_vector(std::uint64_t start) {
  return vector_of(layout::mix64(start), layout::mix64(start + layout::golden_gamma));
}

// Vector v of 32 rows, of each 32-row block of a part of an expert. The rows under it are 32 apart,
// so source rows and words step by a constant.
template <bool judge>
__global__ void mixed_rows_kernel(RowPlan plan) {
  const std::uint32_t across = (plan.stretch + blockDim.x - 1) / blockDim.x;
  const std::uint32_t v = blockIdx.x % across * blockDim.x + threadIdx.x;
  if (v >= plan.stretch) return;
  const std::uint32_t part = blockIdx.x / across;
  const std::int64_t expert = part / plan.parts;
  const std::uint32_t first = part % plan.parts * static_cast<std::uint32_t>(blocks_a_thread);
  const std::uint32_t row = v / plan.row_vectors;
  const RowStart at = plan.steps.start(std::int64_t{first} * 32 + row);
  const std::uint64_t word = at.word + 2 * (v - row * plan.row_vectors) + 1;
  const std::uint64_t key =
      layout::word_key(plan.tensor.payload.seed, plan.tensor.first_expert + expert,
                       layout::word_kind(at.projection));
  std::uint64_t start = key + word * layout::golden_gamma;
  const std::int64_t begin =
      (expert * plan.row_blocks + first) * static_cast<std::int64_t>(plan.stretch) + v;
  const std::uint32_t count =
      min(static_cast<std::uint32_t>(blocks_a_thread), plan.row_blocks - first);
  Tally tally;
  // Rows come in 128s, so 32-row blocks in fours.
  for (std::uint32_t b = 0; b < count; b += in_flight) {
    const std::int64_t here = begin + std::int64_t{b} * plan.stretch;
    if constexpr (judge) {
      uint4 got[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        got[i] = read_once(plan.target.got + here + i * std::int64_t{plan.stretch});
      }
      const auto offset = static_cast<unsigned long long>(
          here - expert * plan.row_blocks * static_cast<std::int64_t>(plan.stretch));
#pragma unroll
      for (int i = 0; i < in_flight; ++i, start += plan.block_step) {
        tally.look(got[i], mixed_vector(start),
                   (offset + i * std::uint64_t{plan.stretch}) * vector_bytes);
      }
    } else {
#pragma unroll
      for (int i = 0; i < in_flight; ++i, start += plan.block_step) {
        write_once(plan.target.to + here + i * std::int64_t{plan.stretch}, mixed_vector(start));
      }
    }
  }
  if constexpr (judge) tally.add_to(plan.target.found + expert);
}

struct ExactPlan {
  Target target;
  PayloadTensor tensor;
  RowSteps steps;
  std::int64_t row_vectors;
  std::int64_t expert_vectors;
  std::int64_t total;
};

// w2 of payload `exact`: one word of a row is not zero; plain and slow.
template <bool judge>
__global__ void exact_rows_kernel(ExactPlan plan) {
  const std::int64_t v = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (v >= plan.total) return;
  const std::int64_t expert = v / plan.expert_vectors;
  const std::int64_t in = v % plan.expert_vectors;
  const RowStart at = plan.steps.start(in / plan.row_vectors);
  const std::int64_t word = at.word + 2 * (in % plan.row_vectors);
  const uint4 want =
      vector_of(layout::exact_word(word, plan.tensor.payload.round, plan.tensor.whole),
                layout::exact_word(word + 1, plan.tensor.payload.round, plan.tensor.whole));
  if constexpr (judge) {
    Tally tally;
    tally.look(read_once(plan.target.got + v), want, in * vector_bytes);
    tally.add_to(plan.target.found + expert);
  } else {
    plan.target.to[v] = want;
  }
}

constexpr std::uint32_t tile_vectors = 32;  // a warp's lanes
constexpr std::uint32_t tiles_a_warp = 32;
constexpr std::uint32_t warps = threads / 32;

struct TilePlan {
  Target target;
  PayloadTensor tensor;
  UnitSteps steps;
  std::uint64_t key8;
  std::uint32_t k_tiles;
  std::uint32_t expert_tiles;
  std::uint32_t parts;  // of an expert, tiles_a_warp tiles each
  std::uint32_t warps_in_all;
  std::uint32_t k_step;  // of a unit's value: to the next k-tile
  std::uint32_t m_step;  // to the first k-tile of the next m-tile
};

template <bool numeric>
__device__ std::uint32_t unit_at(std::uint32_t first, std::uint32_t further) {
  return numeric ? numeric_unit_at(first, further) : bytes_unit_at(first, further);
}

// Both steps are below numeric_range, so one subtraction keeps the sum below it.
template <bool numeric>
__device__ std::uint32_t stepped(std::uint32_t further, std::uint32_t step) {
  const std::uint32_t sum = further + step;
  constexpr auto range = static_cast<std::uint32_t>(layout::numeric_range);
  return numeric && sum >= range ? sum - range : sum;
}

template <bool numeric>
__device__ uint4 tile_vector(const std::uint32_t (&first)[4], std::uint32_t further) {
  return make_uint4(unit_at<numeric>(first[0], further), unit_at<numeric>(first[1], further),
                    unit_at<numeric>(first[2], further), unit_at<numeric>(first[3], further));
}

template <bool numeric>
__device__ void first_values(std::uint32_t (&first)[4], const TilePlan& plan, std::uint32_t lane) {
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::int64_t g = plan.steps.first(lane * 4 + i);
    first[i] = numeric ? layout::numeric_value(plan.key8, g) : layout::bytes_value(plan.key8, g);
  }
}

// A warp walks tiles_a_warp tiles of an expert; a lane has the same four units of each.
template <bool judge, bool numeric>
__global__ void tiles_kernel(TilePlan plan) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = blockIdx.x * warps + threadIdx.x / 32;
  if (warp >= plan.warps_in_all) return;
  const std::uint32_t expert = warp / plan.parts;
  const std::uint32_t tile = warp % plan.parts * tiles_a_warp;
  const std::uint32_t count = min(tiles_a_warp, plan.expert_tiles - tile);
  std::uint32_t k = tile % plan.k_tiles;
  const std::int64_t steps =
      plan.steps.further(plan.tensor.first_expert + expert, tile / plan.k_tiles, k);
  std::uint32_t further = numeric ? numeric_further(steps) : bytes_further(steps);
  std::uint32_t first[4];
  first_values<numeric>(first, plan, lane);
  const std::int64_t begin =
      (std::int64_t{expert} * plan.expert_tiles + tile) * tile_vectors + lane;
  Tally tally;
  for (std::uint32_t t = 0; t < count; t += in_flight) {
    uint4 got[in_flight];
    if constexpr (judge) {
#pragma unroll
      for (int i = 0; i < in_flight; ++i) {
        if (t + i < count) got[i] = read_once(plan.target.got + begin + (t + i) * tile_vectors);
      }
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      if (t + i >= count) break;
      const uint4 want = tile_vector<numeric>(first, further);
      if constexpr (judge) {
        tally.look(got[i], want,
                   ((tile + t + i) * std::uint64_t{tile_vectors} + lane) * vector_bytes);
      } else {
        write_once(plan.target.to + begin + (t + i) * tile_vectors, want);
      }
      const bool wraps = ++k == plan.k_tiles;
      if (wraps) k = 0;
      further = stepped<numeric>(further, wraps ? plan.m_step : plan.k_step);
    }
  }
  if constexpr (judge) tally.add_to(plan.target.found + expert);
}

// Plain matrices, a unit a thread: words of weights, or 4-byte units of scales.
__global__ void plain_kernel(std::uint8_t* to, PayloadPlain plain, std::int64_t units) {
  const std::int64_t v = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (v >= units * plain.experts) return;
  const std::int64_t expert = plain.first_expert + v / units;
  const std::int64_t j = v % units;
  const layout::Payload& payload = plain.payload;
  if (plain.scale) {
    const std::int64_t g = layout::scale_unit(expert, plain.projection, j, plain.whole);
    reinterpret_cast<std::uint32_t*>(to)[v] =
        layout::unit_of(payload.kind, layout::scale_key(payload.seed), g);
  } else {
    const std::uint64_t key =
        layout::word_key(payload.seed, expert, layout::word_kind(plain.projection));
    reinterpret_cast<std::uint64_t*>(to)[v] =
        layout::weight_word(payload, key, plain.projection, j, plain.whole);
  }
}

template <bool judge>
void launch_mixed_rows(const Target& target, const PayloadTensor& tensor, Stream stream) {
  const layout::Matrix matrix = layout::matrix(tensor.kind, tensor.widths());
  const RowSteps steps = row_steps(tensor);
  RowPlan plan{target, tensor, steps, 0, 0, 0, 0, 0};
  plan.row_vectors = static_cast<std::uint32_t>(matrix.row_bytes / vector_bytes);
  plan.stretch = layout::shuffle_rows * plan.row_vectors;
  plan.row_blocks = static_cast<std::uint32_t>(matrix.rows / layout::shuffle_rows);
  plan.parts = blocks_for(plan.row_blocks, blocks_a_thread);
  plan.block_step =
      static_cast<std::uint64_t>(steps.start(layout::shuffle_rows).word - steps.start(0).word) *
      layout::golden_gamma;
  const unsigned width = std::min<unsigned>(threads, plan.stretch);
  const unsigned blocks =
      blocks_for(plan.stretch, width) * plan.parts * static_cast<unsigned>(tensor.experts);
  mixed_rows_kernel<judge><<<blocks, width, 0, stream>>>(plan);
}

template <bool judge>
void launch_exact_rows(const Target& target, const PayloadTensor& tensor, Stream stream) {
  const layout::Matrix matrix = layout::matrix(tensor.kind, tensor.widths());
  const std::int64_t vectors = matrix.bytes() / vector_bytes;
  const ExactPlan plan{target,
                       tensor,
                       row_steps(tensor),
                       matrix.row_bytes / vector_bytes,
                       vectors,
                       vectors * tensor.experts};
  exact_rows_kernel<judge><<<blocks_for(plan.total, threads), threads, 0, stream>>>(plan);
}

TilePlan tile_plan(const Target& target, const PayloadTensor& tensor) {
  const layout::Matrix matrix = layout::matrix(tensor.kind, tensor.widths());
  const bool numeric = tensor.payload.kind != layout::PayloadKind::bytes;
  const UnitSteps steps = unit_steps(tensor);
  TilePlan plan{target, tensor, steps, layout::scale_key(tensor.payload.seed), 0, 0, 0, 0, 0, 0};
  plan.k_tiles = static_cast<std::uint32_t>(matrix.row_bytes / layout::sf_tile_cols);
  plan.expert_tiles = static_cast<std::uint32_t>(matrix.bytes() / layout::sf_tile_bytes);
  plan.parts = blocks_for(plan.expert_tiles, tiles_a_warp);
  plan.warps_in_all = plan.parts * static_cast<std::uint32_t>(tensor.experts);
  const std::int64_t wrap = steps.further(0, 1, 0) - steps.further(0, 0, plan.k_tiles - 1);
  plan.k_step = numeric ? numeric_further(1) : bytes_further(1);
  plan.m_step = numeric ? numeric_further(wrap) : bytes_further(wrap);
  return plan;
}

template <bool judge>
void launch(const Target& target, const PayloadTensor& tensor, Stream stream) {
  if (tensor.experts == 0) return;
  const bool bytes = tensor.payload.kind == layout::PayloadKind::bytes;
  if (layout::is_scale(tensor.kind)) {
    const TilePlan plan = tile_plan(target, tensor);
    const unsigned blocks = blocks_for(plan.warps_in_all, warps);
    if (bytes) {
      tiles_kernel<judge, false><<<blocks, threads, 0, stream>>>(plan);
    } else {
      tiles_kernel<judge, true><<<blocks, threads, 0, stream>>>(plan);
    }
  } else if (tensor.payload.kind == layout::PayloadKind::exact && tensor.kind == layout::Kind::w2) {
    launch_exact_rows<judge>(target, tensor, stream);
  } else {
    launch_mixed_rows<judge>(target, tensor, stream);
  }
}

}  // namespace

void fill_plain(std::uint8_t* to, const PayloadPlain& plain, Stream stream) {
  const std::int64_t bytes =
      layout::plain_matrix(plain.projection, plain.scale, plain.whole).bytes();
  const std::int64_t units = bytes / (plain.scale ? layout::unit_bytes : layout::word_bytes);
  const unsigned blocks = blocks_for(units * plain.experts, threads);
  if (blocks != 0) plain_kernel<<<blocks, threads, 0, stream>>>(to, plain, units);
}

void fill_payload(std::uint8_t* to, const PayloadTensor& tensor, Stream stream) {
  launch<false>(written(to), tensor, stream);
}

void compare_payload(Found* found, const std::uint8_t* got, const PayloadTensor& tensor,
                     Stream stream) {
  launch<true>(judged(got, found), tensor, stream);
}

}  // namespace slicecheck::memory::kernels
