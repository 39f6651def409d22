// Where a run's experts come from: the payload rule, or a checkpoint's layer. Both give plain
// experts, slices of them and scalars; what is made of these is one text for both.
#pragma once

#include <functional>
#include <optional>

#include "app/command.h"
#include "checkpoint/layer.h"
#include "experts/payload.h"
#include "memory/space.h"

namespace slicecheck::app {

/// One layer's experts, read or computed one at a time.
struct Source {
  layout::Shape shape;
  std::int64_t layer = 0;
  std::optional<layout::Payload> payload;  // set: the bytes follow the rule
  std::string name;                        // of the payload, or of the checkpoint's format

  /// Plain expert `expert`, whole.
  std::function<Result<experts::PlainExpert>(std::int64_t expert)> plain;
  /// Slice d of tp of plain expert `expert`, as a TP loader reads it.
  std::function<Result<experts::PlainExpert>(std::int64_t expert, std::int64_t d)> plain_slice;
  /// The scalars of experts [first, first + count).
  std::function<Result<experts::Scalars>(std::int64_t first, std::int64_t count)> scalars;
  /// Of a checkpoint: up_by_gate().
  std::vector<float> up_by_gate;
};

/// s2[w3] / s2[w1] of each expert of a layer; empty where all are 1.
std::vector<float> up_by_gate(const checkpoint::Layer& layer);

/// The synthetic experts of a payload.
Source payload_source(const layout::Payload& payload, const layout::Shape& shape);

/// What the options name, for groups of `tp` ranks.
/// Refuses when: the checkpoint or its layer cannot be read.
Result<Source> source_of(const Options& options, int tp);

/// Why the experts do not lie evenly over the ranks, in the seed's words; or nothing.
Reason unshared(const layout::Shape& shape);

/// The stock of rank `rank` of a group, converted in `space` one expert at a time.
/// Refuses when: an expert cannot be read, memory is out.
/// Cost: the stock, and one plain expert beside it.
Result<experts::StockExperts> stock_of(const Source& source, int rank, memory::Space& space);

}  // namespace slicecheck::app
