// The inputs of golden probe values, made by the rule that the values came from: the seed's own
// code was run on them over NCCL, one process a rank. See golden/README.md.
#pragma once

#include "reshard/probe.h"

namespace slicecheck::reshard {

/// One recorded case and the seed's rel L2 at 2, 3, 4, 7 and 8 ranks.
struct GoldenProbe {
  std::int64_t tokens;
  std::int64_t top_k;
  std::int64_t hidden;
  std::uint64_t seed;
  double noise;
  double values[5];
};

inline constexpr int golden_ranks[5] = {2, 3, 4, 7, 8};
inline constexpr GoldenProbe golden_probes[4] = {
    {4,
     2,
     128,
     11,
     0,
     {0.002905734502320234, 0.0031159898560194827, 0.0033127035956317177, 0.003682408426240147,
      0.003938016107135179}},
    {16,
     4,
     256,
     12,
     1e-2,
     {0.014418402823519527, 0.017689706237878362, 0.020335628917673505, 0.02688899651744288,
      0.028649451332939044}},
    {33,
     8,
     128,
     13,
     1e-4,
     {0.0029430519308795504, 0.0030739426640140452, 0.0032640723536277966, 0.003815235201764838,
      0.003962703924925171}},
    {5,
     1,
     384,
     14,
     1,
     {1.423573041739194, 1.7289901747152725, 1.9811467422817504, 2.6100791653737114,
      2.77573818017657}}};

/// Relative precision at which the values come out when summed in rank order.
inline constexpr double golden_precision = 1e-9;

/// Rank r's rows of n by the rule.
ProbeRows golden_rows(const GoldenProbe& probe, int rank, int ranks);

}  // namespace slicecheck::reshard
