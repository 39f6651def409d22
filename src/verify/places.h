// Sets of places (rank, expert) said as widely as they are true.
#pragma once

#include <set>

#include "verify/map.h"

namespace slicecheck::verify {

/// A rank of the group and an expert (global).
struct Place {
  std::int64_t rank = 0;
  std::int64_t expert = 0;
  auto operator<=>(const Place&) const = default;
};

/// Ranks times experts; an empty list means all of the group's, also of a stock, of whose experts a
/// rank holds some.
struct Widely {
  std::vector<std::int64_t> ranks;
  std::vector<std::int64_t> experts;
  std::vector<Place> places;  // that it stands for, in order
};

/// The fewest statements that together say exactly `places`. Of a stock, where every expert has one
/// rank, one statement says any set.
std::vector<Widely> widely(const layout::Shape& shape, Side side, const std::set<Place>& places);

/// One statement about all ranks and experts that have a place in `places`: of a fault that leaves
/// some places between them as they are.
Widely at_once(const layout::Shape& shape, const std::set<Place>& places);

}  // namespace slicecheck::verify
