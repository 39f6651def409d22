#include "verify/places.h"

#include <algorithm>
#include <map>

namespace slicecheck::verify {
namespace {

using Numbers = std::set<std::int64_t>;

std::vector<std::int64_t> unless_all(const Numbers& numbers, std::int64_t count) {
  if (static_cast<std::int64_t>(numbers.size()) == count) return {};
  return {numbers.begin(), numbers.end()};
}

Widely statement(const layout::Shape& shape, const Numbers& ranks, const Numbers& experts) {
  Widely made{unless_all(ranks, shape.tp), unless_all(experts, shape.experts), {}};
  for (const std::int64_t rank : ranks) {
    for (const std::int64_t expert : experts) made.places.push_back({rank, expert});
  }
  return made;
}

// One statement for all lines (ranks or experts) that have the same other numbers.
std::map<Numbers, Numbers> alike(const std::set<Place>& places, std::int64_t Place::*line,
                                 std::int64_t Place::*other) {
  std::map<std::int64_t, Numbers> lines;
  for (const Place& place : places) lines[place.*line].insert(place.*other);
  std::map<Numbers, Numbers> made;
  for (const auto& [number, others] : lines) made[others].insert(number);
  return made;
}

}  // namespace

std::vector<Widely> widely(const layout::Shape& shape, Side side, const std::set<Place>& places) {
  if (side == Side::stock) return {at_once(shape, places)};
  const auto by_expert = alike(places, &Place::expert, &Place::rank);
  const auto by_rank = alike(places, &Place::rank, &Place::expert);
  std::vector<Widely> made;
  if (by_expert.size() <= by_rank.size()) {
    for (const auto& [ranks, experts] : by_expert) {
      made.push_back(statement(shape, ranks, experts));
    }
  } else {
    for (const auto& [experts, ranks] : by_rank) {
      made.push_back(statement(shape, ranks, experts));
    }
  }
  std::sort(made.begin(), made.end(),
            [](const Widely& a, const Widely& b) { return a.places.front() < b.places.front(); });
  return made;
}

Widely at_once(const layout::Shape& shape, const std::set<Place>& places) {
  Numbers ranks;
  Numbers experts;
  for (const Place& place : places) {
    ranks.insert(place.rank);
    experts.insert(place.expert);
  }
  return {unless_all(ranks, shape.tp),
          unless_all(experts, shape.experts),
          {places.begin(), places.end()}};
}

}  // namespace slicecheck::verify
