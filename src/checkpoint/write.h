// Writes one layer's experts as a checkpoint of each format has them: what the readers are tried
// on.
#pragma once

#include "checkpoint/layer.h"
#include "layout/payload.h"

namespace slicecheck::checkpoint {

/// What the written config.json says of the experts.
struct WrittenClaims {
  std::int64_t num_bits = 4;  // of the weights, as are the next two
  std::string type = "float";
  std::int64_t group_size = 16;
  std::optional<std::int64_t> hidden;  // nothing: what they have
  std::optional<std::int64_t> intermediate;
};

/// A layer to be written. `names` is an index of projection_names (per-expert formats); its tensors
/// are dealt to `shards` files, with an index where there is more than one.
struct WrittenLayer {
  Format format = Format::modelopt;
  std::int64_t number = 0;
  std::size_t names = 0;
  std::int64_t shards = 1;
  std::vector<experts::PlainExpert> experts;
  std::vector<std::array<ProjectionScales, 3>>
      scales;  // [E], by layout::Projection, as multipliers
  WrittenClaims claims;
};

/// A payload's experts as layer 0 of one file, with the second-level scales that the payload's
/// scalars are made of: w1 and w3 alike, every input scale the largest.
WrittenLayer payload_layer(Format format, const layout::Payload& payload,
                           const layout::Shape& shape);

/// Writes the files of a checkpoint with this one layer and a config.json into an empty folder.
/// What is not there is not written: experts and block scales without bytes, scales without a
/// value; in `fused` a tensor of these is, where expert 0 has one. Extents follow the bytes and
/// values. Refuses when: a file cannot be written.
Reason write_layer(const std::string& folder, const WrittenLayer& layer);

}  // namespace slicecheck::checkpoint
