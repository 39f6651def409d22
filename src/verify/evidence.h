// What one rank, or several, found: small records that can be sent as bytes and joined, whatever
// rank they come from. One rank judges its own tensors; whoever holds all the evidence names it.
#pragma once

#include "experts/payload.h"
#include "verify/judge.h"

namespace slicecheck::verify {

/// The scalars of one rank as they are; an absent side has empty values.
struct RankScalars {
  std::int64_t rank = 0;
  std::optional<std::int64_t> first_expert;  // as declared; absent: no stock
  std::array<std::vector<float>, 3> stock;   // by experts::Scalar, [Er]
  std::array<std::vector<float>, 3> tp;      // [E]
  std::vector<float> a1_gscale;              // [1], or more of them
  std::vector<float> a2_gscale;
};

/// Evidence of a group of ranks about one layer.
struct Evidence {
  std::vector<WrongTensor> wrong;
  std::vector<CutOfWrongStock> cuts;
  std::vector<RankScalars> scalars;
};

/// Judges what one rank of the group holds, and adds it to `evidence`. Host tensors of the layer's
/// extents. A true stock is one that the reference was made of: its bytes are not
/// judged, only its scales.
void judge_stock(Judge& judge, std::int64_t rank, const experts::StockExperts& stock,
                 Evidence& evidence);
void judge_true_stock(Judge& judge, std::int64_t rank, const experts::StockExperts& stock,
                      Evidence& evidence);
void judge_tp(Judge& judge, std::int64_t rank, const experts::TpExperts& tp, Evidence& evidence);

/// One expert's tensor, for callers who hold bytes and know which differ.
void judge_tensor(Judge& judge, const Target& target, Bytes got, Evidence& evidence);

/// Plain experts out of the stocks of all ranks, taken as true. The stocks must outlive it.
Loader loader_of(const std::vector<experts::StockExperts>& stocks, const Case& layer);

/// Evidence as bytes, and back. Bytes are trusted: they come from a rank of the same launch.
ByteVector packed(const Evidence& evidence);
Evidence unpacked(Bytes bytes);

/// Adds `other` to `evidence`.
void join(Evidence& evidence, const Evidence& other);

}  // namespace slicecheck::verify
