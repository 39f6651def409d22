// The dump folder `slicecheck-dump/1`: how an engine in any language hands over its work, one
// folder a layer. Rank R of the launch writes its own stock.rankR.safetensors and
// tp.rankR.safetensors, rank 0 the manifest. Dumps of one case are equal in every byte, whatever
// made them, but for the manifest's `engine`.
#pragma once

#include "checkpoint/manifest.h"
#include "experts/experts.h"

namespace slicecheck::checkpoint {

/// Why a dump cannot be written to `folder` (it holds something, or is no folder); or nothing, and
/// the folder exists. For one rank; the others wait for it.
Reason claim_dump(const std::string& folder);

/// Writes one file. The Reason of a write means that it cannot be written, not that input is wrong.
Reason write_manifest(const std::string& folder, const Manifest& manifest);
Reason write_stock(const std::string& folder, std::int64_t rank,
                   const experts::StockExperts& stock);
Reason write_tp(const std::string& folder, std::int64_t rank, const experts::TpExperts& tp);

/// The folder's manifest; a Reason names the file and the field.
Result<Manifest> read_manifest(const std::string& folder);

}  // namespace slicecheck::checkpoint
