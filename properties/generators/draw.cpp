#include "properties/generators/draw.h"

#include <rapidcheck/gen/Container.h>
#include <rapidcheck/gen/Numeric.h>
#include <rapidcheck/gen/Transform.h>
#include <rapidcheck/gen/Tuple.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace slicecheck::properties {
namespace {

// Each drawn number counts from its smallest value, which is where it shrinks to.
struct Numbers {
  std::int64_t tp, hidden, slice, experts, payload, seed, again, fault, fault_rank, fault_tensor;
  std::int64_t fault_expert, placement, format, routes, scales;
};

// Small layouts come more often: half of all draws have one tile.
constexpr std::array<std::int64_t, 10> sizes{1, 1, 1, 1, 1, 2, 2, 3, 3, 4};

std::int64_t sized(std::int64_t number, std::int64_t most) {
  const auto at = static_cast<std::size_t>(number);
  return at < sizes.size() ? std::min(sizes[at], most) : most;
}

Fault fault_of(std::int64_t number) { return static_cast<Fault>(1 + number % (fault_count - 1)); }

// Of one expert a rank, round-robin is linear.
std::int64_t least_held(Placement placement) { return placement == Placement::round_robin ? 2 : 1; }

// Cuts the experts of a rank, then the tiles, until the layer is small enough.
void bound(layout::Shape& shape, std::int64_t again, std::int64_t held, std::int64_t most) {
  const auto bytes = [&] {
    return shape.experts * shape.hidden * shape.intermediate * 27 / 16;  // 3 (1/2 + 1/16)
  };
  while (bytes() > most && shape.experts > held * shape.tp) shape.experts -= shape.tp;
  while (bytes() > most && shape.intermediate > 64 * shape.tp * again) {
    shape.intermediate -= 64 * shape.tp * again;
  }
  while (bytes() > most && shape.hidden > 128) shape.hidden -= 128;
}

void set_fault(Case& made, const Numbers& drawn, Draw draw) {
  if (draw == Draw::invalid) made.fault = fault_of(drawn.fault);
  if (draw == Draw::misplaced) {
    made.placement = static_cast<Placement>(1 + drawn.placement);
    made.shape.experts =
        made.shape.tp * std::max(least_held(made.placement), made.shape.experts_per_rank());
  }
}

Case case_of(const Numbers& drawn, Draw draw, const Limits& limits) {
  Case made;
  const std::int64_t tp = 2 + drawn.tp;
  made.again = draw == Draw::cut_again ? 2 + drawn.again : 1;
  made.shape = {tp * sized(drawn.experts, limits.experts_per_rank),
                128 * sized(drawn.hidden, limits.hidden_tiles),
                64 * sized(drawn.slice, limits.slice_tiles) * tp * made.again, tp};
  set_fault(made, drawn, draw);
  bound(made.shape, made.again, least_held(made.placement), limits.layer_bytes);
  made.payload = {static_cast<layout::PayloadKind>(drawn.payload),
                  static_cast<std::uint64_t>(1 + drawn.seed), 0};
  if (draw == Draw::checkpoint) made.format = static_cast<Format>(drawn.format);
  if (draw == Draw::scaled) made.scales = static_cast<Scales>(drawn.scales);
  if (draw == Draw::routed) made.routes = static_cast<Routes>(drawn.routes);
  if (draw != Draw::invalid && draw != Draw::misplaced && draw != Draw::planted) return made;
  made.fault_rank = drawn.fault_rank % tp;
  made.fault_tensor = drawn.fault_tensor;
  if (draw != Draw::invalid) made.fault_expert = drawn.fault_expert % made.shape.experts;
  return made;
}

rc::Gen<Case> generator(Draw draw, const Limits& limits, std::int64_t plant) {
  const auto below = [](std::int64_t end) { return rc::gen::inRange<std::int64_t>(0, end); };
  const auto numbers = [](auto... each) { return Numbers{each...}; };
  const std::int64_t count = static_cast<std::int64_t>(sizes.size()) + 1;
  return rc::gen::map(
      rc::gen::tuple(below(limits.tp - 1), below(count), below(count), below(count), below(3),
                     below(std::int64_t{1} << 32), below(2), below(fault_count - 1), below(64),
                     below(9), below(64), below(placement_count - 1), below(format_count),
                     below(routes_count), below(scales_count)),
      [draw, limits, plant, numbers](const auto& all) {
        Case made = case_of(std::apply(numbers, all), draw, limits);
        made.plant = plant;
        return made;
      });
}

std::shared_ptr<Drawn> wrapped(const rc::Shrinkable<Case>& from) {
  auto rest = std::make_shared<rc::Seq<rc::Shrinkable<Case>>>(from.shrinks());
  return std::make_shared<Drawn>(Drawn{from.value(), [rest]() -> std::shared_ptr<Drawn> {
                                         const auto next = rest->next();
                                         return next ? wrapped(*next) : nullptr;
                                       }});
}

// The numbers that a case shrinks by, each with its smallest value.
struct Part {
  std::int64_t value;
  std::int64_t least;
};
using Parts = std::array<Part, 16>;

Parts parts_of(const Case& given) {
  const layout::Shape& shape = given.shape;
  return {
      {{shape.tp, 2},
       {shape.hidden / 128, 1},
       {shape.slice() / (64 * given.again), 1},
       {shape.experts_per_rank(), least_held(given.placement)},
       {static_cast<std::int64_t>(given.payload.kind), 0},
       {static_cast<std::int64_t>(given.payload.seed), 1},
       {given.again, std::min<std::int64_t>(given.again, 2)},
       {static_cast<std::int64_t>(given.fault), given.fault == Fault::none ? 0 : 1},
       {given.fault_rank, 0},
       {given.fault_tensor, 0},
       {given.fault_expert, 0},
       {static_cast<std::int64_t>(given.placement), given.placement == Placement::linear ? 0 : 1},
       {static_cast<std::int64_t>(given.format), 0},
       {static_cast<std::int64_t>(given.routes), 0},
       {given.plant, given.plant == 0 ? 0 : 1},
       {static_cast<std::int64_t>(given.scales), 0}}};
}

Case case_of(const Parts& parts) {
  Case made;
  const std::int64_t tp = parts[0].value;
  made.again = parts[6].value;
  made.shape = {tp * parts[3].value, 128 * parts[1].value, 64 * parts[2].value * tp * made.again,
                tp};
  made.payload = {static_cast<layout::PayloadKind>(parts[4].value),
                  static_cast<std::uint64_t>(parts[5].value), 0};
  made.fault = static_cast<Fault>(parts[7].value);
  made.fault_rank = parts[8].value % tp;
  made.fault_tensor = parts[9].value;
  made.fault_expert = parts[10].value % made.shape.experts;
  made.placement = static_cast<Placement>(parts[11].value);
  made.format = static_cast<Format>(parts[12].value);
  made.routes = static_cast<Routes>(parts[13].value);
  made.plant = parts[14].value;
  made.scales = static_cast<Scales>(parts[15].value);
  return made;
}

// Each number in turn at its smallest, half way down, and one less.
std::vector<Case> smaller(const Case& given) {
  std::vector<Case> made;
  const Parts parts = parts_of(given);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [value, least] = parts[i];
    for (const std::int64_t lower : {least, least + (value - least) / 2, value - 1}) {
      Parts other = parts;
      other[i].value = lower;
      if (lower >= least && lower < value) made.push_back(case_of(other));
    }
  }
  return made;
}

}  // namespace

Drawn undrawn(const Case& given) {
  auto rest = std::make_shared<std::vector<Case>>(smaller(given));
  std::reverse(rest->begin(), rest->end());
  return {given, [rest]() -> std::shared_ptr<Drawn> {
            if (rest->empty()) return nullptr;
            const Case next = rest->back();
            rest->pop_back();
            return std::make_shared<Drawn>(undrawn(next));
          }};
}

Drawn drawn(Draw draw, const Limits& limits, std::uint64_t seed, std::int64_t number) {
  const std::uint64_t own =
      layout::mix64(seed + (static_cast<std::uint64_t>(number) + 1) * layout::golden_gamma);
  // There are more plants than many a run has cases: each comes in its turn.
  const std::int64_t plant = draw == Draw::planted ? 1 + number % (plant_count - 1) : 0;
  return *wrapped(generator(draw, limits, plant)(rc::Random(own), rc::kNominalSize));
}

}  // namespace slicecheck::properties
