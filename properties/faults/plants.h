// Faults planted in a sound layer by the planters of the catalogue, each in one expert on one rank,
// and the places that they changed, found by comparing bytes: what must be named, and nothing else.
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "faults/layer.h"
#include "properties/generators/case.h"

namespace slicecheck::properties {

/// One expert's tensor or scalar on one rank of a side.
struct Changed {
  faults::Side side = faults::Side::tp;
  std::string tensor;
  std::int64_t rank = 0;
  std::int64_t expert = 0;
  auto operator<=>(const Changed&) const = default;
};

/// A layer with a case's fault, and what it may be called.
struct PlantedLayer {
  faults::Layer layer;
  std::vector<std::string> causes;  // the fault's name first, then what it is for some tensors
  std::set<Changed> changed;        // what tp experts cut from a wrong stock hold is not counted
};

/// The payload that a case's layer is made of. `exact` has bytes that name nothing, so it stands
/// for `numeric`; scales that are none are judged in that alone.
layout::Payload telling_payload(const Case& given);

/// Plants what the case says: `fault_rank`, `fault_expert` and `fault_tensor` say where, an odd
/// half of `fault_tensor` in the stock.
PlantedLayer planted_layer(const Case& given);

/// Places the experts as the case says, on the side that `fault_tensor` says; `rank_lies` in the
/// stock.
PlantedLayer misplaced_layer(const Case& given);

/// What differs between two layers.
std::set<Changed> changes(const faults::Layer& healthy, const faults::Layer& layer);

}  // namespace slicecheck::properties
