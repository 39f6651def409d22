#include "tests/reshard/probe_inputs.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "layout/payload.h"

namespace slicecheck::reshard {
namespace {

double uniform(std::uint64_t seed, std::int64_t tag, std::int64_t j) {
  return static_cast<double>(layout::weight_word(layout::word_key(seed, tag, 7), j) >> 40) *
         0x1p-24;
}

float centred(std::uint64_t seed, std::int64_t tag, std::int64_t j) {
  return static_cast<float>(2 * uniform(seed, tag, j) - 1);
}

// To nearest even; finite values only.
std::uint16_t rounded(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Rank r's part of element j: base is the parts' sum.
float part(std::uint64_t seed, std::int64_t j, int rank, int ranks) {
  if (rank < ranks - 1) return centred(seed, 10 + rank, j) * 0.5F;
  float left = centred(seed, 1, j);
  for (int q = 0; q < ranks - 1; ++q) left -= centred(seed, 10 + q, j) * 0.5F;
  return left;
}

moe::PermutedRows padded(std::int64_t rows, std::int64_t hidden, std::int64_t routes) {
  moe::PermutedRows made;
  made.rows = host_tensor(Dtype::bf16, {2 + rows, hidden});
  made.map.assign(routes, -1);
  for (std::int64_t h = 0; h < 2 * hidden; ++h) moe::row_of(made, 0)[h] = 0x7FC0;
  return made;
}

}  // namespace

ProbeRows golden_rows(const GoldenProbe& probe, int rank, int ranks) {
  const std::int64_t routes = probe.tokens * probe.top_k;
  const std::int64_t hidden = probe.hidden;
  std::vector<std::int64_t> owned;
  for (std::int64_t i = 0; i < routes; ++i) {
    const std::uint64_t word = layout::weight_word(layout::word_key(probe.seed, 0, 7), i);
    if (word % ranks == static_cast<std::uint64_t>(rank)) owned.push_back(i);
  }
  ProbeRows made{padded(static_cast<std::int64_t>(owned.size()), hidden, routes),
                 padded(routes, hidden, routes)};
  for (std::size_t at = 0; at < owned.size(); ++at) {
    made.ep.map[owned[at]] = static_cast<std::int32_t>(2 + at);
    for (std::int64_t h = 0; h < hidden; ++h) {
      moe::row_of(made.ep, 2 + at)[h] = rounded(centred(probe.seed, 1, owned[at] * hidden + h));
    }
  }
  for (std::int64_t i = 0; i < routes; ++i) {
    made.tp.map[i] = static_cast<std::int32_t>(2 + routes - 1 - i);
    for (std::int64_t h = 0; h < hidden; ++h) {
      const std::int64_t j = i * hidden + h;
      const float noise = static_cast<float>(probe.noise) * centred(probe.seed, 50 + rank, j);
      moe::row_of(made.tp, made.tp.map[i])[h] = rounded(part(probe.seed, j, rank, ranks) + noise);
    }
  }
  return made;
}

}  // namespace slicecheck::reshard
