// The catalogue of mutants: every fault, planted in tensors, experts, ranks and sides, on shapes
// that can show it, each with what it must be called. The kill matrix is made of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "faults/layer.h"

namespace slicecheck::faults {

/// What a finding must say. Empty experts or ranks mean all.
struct Expected {
  std::string cause;
  Side side = Side::tp;
  std::vector<std::string> tensors;
  std::vector<std::int64_t> experts;
  std::vector<std::int64_t> ranks;
  bool warning = false;
};

/// One planted layer and what it must be called; `plant` changes a healthy layer of the payload and
/// shape (of `data` widths and padded, where these are set).
struct Mutant {
  std::string fault;    // the row of the matrix it counts for
  std::string pattern;  // tensors, experts, ranks, side in words
  layout::Shape shape;
  layout::Payload payload;
  std::optional<layout::Widths> data;
  std::function<void(Layer&)> plant;
  std::vector<Expected> expected;
  bool needs_payload = false;  // cannot be seen with the stock as the only reference
};

/// T1 and T2, and others on which the layout faults give different bytes.
const std::vector<layout::Shape>& telling_shapes();

/// All mutants; `full` takes more shapes and patterns.
std::vector<Mutant> mutants(bool full);

}  // namespace slicecheck::faults
