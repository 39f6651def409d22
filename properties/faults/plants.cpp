#include "properties/faults/plants.h"

#include <algorithm>
#include <cmath>

#include "base/must.h"
#include "faults/byte_faults.h"
#include "faults/layout_faults.h"
#include "faults/placement_faults.h"
#include "faults/scalar_faults.h"

namespace slicecheck::properties {
namespace {

using faults::Layer;
using faults::ScalarWhere;
using faults::Side;
using faults::Where;
using layout::Kind;

const std::vector<Kind> all_kinds{layout::kinds.begin(), layout::kinds.end()};
const std::vector<Kind> scale_kinds{Kind::w13_sf, Kind::w2_sf};

const faults::LayoutEntry* layout_entry(std::string_view name) {
  for (const faults::LayoutEntry& entry : faults::layout_faults()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

Side side_of(const Case& given) { return given.fault_tensor / 4 % 2 == 1 ? Side::stock : Side::tp; }

// One expert on one rank: on the stock side the rank is its holder.
Where where_of(const Case& given, const std::vector<Kind>& kinds, Side side) {
  const Kind kind = kinds[static_cast<std::size_t>(given.fault_tensor % 4) % kinds.size()];
  Where made{side, {kind}, {given.fault_expert}, {given.fault_rank}};
  if (side == Side::stock) made.ranks = {given.fault_expert / given.shape.experts_per_rank()};
  return made;
}

std::int64_t other_expert(const Case& given) {
  return (given.fault_expert + 1) % given.shape.experts;
}

// Faults of bytes that are no map of rows.
void plant_bytes(Layer& layer, const Case& given, std::string_view name, const Where& where) {
  if (name == "never-written") faults::never_written(layer, where, 0xA5);
  if (name == "bit-corruption") faults::bit_corruption(layer, where, 5, given.payload.seed);
  if (name == "payload-of-other-layer") {
    faults::payload_of_other_layer(layer, where, layout::layer_seed(layer.payload.seed, 3));
  }
  if (name == "unexplained") faults::rows_scrambled(layer, where, given.payload.seed);
  if (name == "expert-mixed") faults::expert_mixed(layer, where, other_expert(given));
  if (name == "block-scale-invalid") faults::block_scales_set(layer, where, 3, 0x7F);
}

void plant_scalars(Layer& layer, const Case& given, std::string_view name, Side side) {
  ScalarWhere where{
      side, experts::all_scalars[given.fault_tensor % 3], {given.fault_expert}, {given.fault_rank}};
  if (side == Side::stock) where.ranks = {given.fault_expert / given.shape.experts_per_rank()};
  constexpr std::array<float, 4> wrong{0.0F, -1.0F, NAN, INFINITY};
  if (name == "reciprocal-scale") faults::reciprocal_scale(layer, where);
  if (name == "scale-dropped") faults::scale_dropped(layer, where);
  if (name == "scale-not-finite-positive") {
    faults::scale_not_finite_positive(layer, where, wrong[given.payload.seed % wrong.size()]);
  }
  if (name == "stale-derived-scalar") {
    faults::stale_derived_scalar(layer, where, other_expert(given));
  }
  if (name == "scalar-rounding") faults::scalar_rounding(layer, where, 3);
  where.experts.clear();  // of a whole rank
  if (name == "scalars-misordered") faults::scalars_misordered(layer, where);
  if (name == "scalars-not-gathered") faults::scalars_not_gathered(layer, where);
}

bool is_scalar(std::string_view name) {
  return name.find("scalar") != std::string_view::npos || name == "reciprocal-scale" ||
         name == "scale-dropped" || name == "scale-not-finite-positive";
}

// A fault of the cut, of the gather, of what was moved: there is none in a stock.
bool tp_only(std::string_view name) {
  const faults::LayoutEntry* entry = layout_entry(name);
  if (entry != nullptr) return entry->tp_only;
  return name == "scalars-misordered" || name == "scalars-not-gathered" ||
         name == "scalar-rounding" || name == "expert-mixed" || name == "stale-derived-scalar";
}

// H does not split into whole scales along the other axis for every tp.
bool is_possible(const faults::LayoutEntry& entry, const layout::Shape& shape) {
  return entry.name != "wrong-axis-cut" || shape.hidden / layout::sf_vec % shape.tp == 0;
}

// The rules of the catalogue by which one tensor's fault is called another name.
std::vector<std::string> causes_of(std::string_view name) {
  const faults::LayoutEntry* entry = layout_entry(name);
  std::vector<std::string> made{std::string(entry == nullptr ? name : entry->cause)};
  if (name == "rows-not-shuffled") made.emplace_back("scale-rows-not-shuffled");
  if (name == "not-converted") made.emplace_back("rows-not-shuffled");
  if (name == "wrong-axis-cut") made.emplace_back("flat-cut");
  // In one place alone the transposed buffer may hold another expert's slice of the same rank.
  if (name == "wrong-slice/transposed") made.emplace_back("expert-mixed");
  // Neighbouring rows are exchanged: for one of the two that is a drift by a row.
  if (name == "unexplained") made.emplace_back("expert-offset-drift");
  return made;
}

void add_changes(const Layer& healthy, const Layer& layer, Side side, std::set<Changed>& made) {
  for (const faults::Spot& spot : faults::spots(layer, {side, {}, {}, {}})) {
    const MutableBytes is = faults::bytes_at(layer, spot);
    const MutableBytes was = faults::bytes_at(healthy, spot);
    if (std::equal(is.begin(), is.end(), was.begin(), was.end())) continue;
    made.insert({side, std::string(layout::name(spot.kind)), spot.rank, spot.expert});
  }
}

template <typename Rank>
void add_scalars(const std::vector<Rank>& healthy, const std::vector<Rank>& ranks, Side side,
                 std::set<Changed>& made) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const experts::Scalar scalar : experts::all_scalars) {
      const Bytes was = host_bytes(tensor_of(healthy[rank], scalar));
      const Bytes is = host_bytes(tensor_of(ranks[rank], scalar));
      const auto r = static_cast<std::int64_t>(rank);
      const auto count = static_cast<std::int64_t>(is.size() / 4);
      for (std::int64_t e = 0; e < count; ++e) {
        if (std::equal(is.begin() + 4 * e, is.begin() + 4 * e + 4, was.begin() + 4 * e)) continue;
        made.insert(
            {side, std::string(experts::name(scalar)), r, side == Side::stock ? r * count + e : e});
      }
    }
  }
}

// What is wrong with a stock is wrong in its cut, too, and is no second fault.
PlantedLayer finished(Layer&& layer, const Layer& healthy, Side side) {
  PlantedLayer made{std::move(layer), {}, {}};
  made.changed = changes(healthy, made.layer);
  if (side == Side::stock) faults::recut(made.layer);
  return made;
}

}  // namespace

std::set<Changed> changes(const Layer& healthy, const Layer& layer) {
  std::set<Changed> made;
  for (const Side side : {Side::stock, Side::tp}) add_changes(healthy, layer, side, made);
  add_scalars(healthy.stocks, layer.stocks, Side::stock, made);
  add_scalars(healthy.tps, layer.tps, Side::tp, made);
  return made;
}

layout::Payload telling_payload(const Case& given) {
  layout::Payload made = given.payload;
  const bool judged =
      plant_name(given.plant) == "block-scale-invalid" || is_scalar(plant_name(given.plant));
  if (judged || made.kind == layout::PayloadKind::exact) made.kind = layout::PayloadKind::numeric;
  return made;
}

PlantedLayer planted_layer(const Case& given) {
  const std::string_view name = plant_name(given.plant);
  const Side side = tp_only(name) ? Side::tp : side_of(given);
  const Layer healthy = faults::healthy_layer(telling_payload(given), given.shape);
  Layer layer = faults::copied(healthy);
  const faults::LayoutEntry* entry = layout_entry(name);
  if (entry != nullptr && !is_possible(*entry, given.shape)) {
    // Nothing is planted, and nothing may be found.
  } else if (entry != nullptr) {
    faults::plant(layer, *entry, where_of(given, entry->kinds, side));
  } else if (is_scalar(name)) {
    plant_scalars(layer, given, name, side);
  } else {
    const bool scales = name == "block-scale-invalid" || name == "expert-mixed";
    plant_bytes(layer, given, name, where_of(given, scales ? scale_kinds : all_kinds, side));
  }
  PlantedLayer made = finished(std::move(layer), healthy, side);
  made.causes = causes_of(name);
  // Where only one or two experts are other ranks', their values all wrong, or all one expert's,
  // are as if none had been gathered.
  const bool few_others = given.shape.experts - given.shape.experts_per_rank() <= 2;
  if (is_scalar(name) && few_others) made.causes.emplace_back("scalars-not-gathered");
  return made;
}

PlantedLayer misplaced_layer(const Case& given) {
  const layout::Shape& shape = given.shape;
  const Layer healthy = faults::healthy_layer(telling_payload(given), shape);
  Layer layer = faults::copied(healthy);
  if (given.placement == Placement::rank_lies) {
    // A first expert is declared beside the stock, and nothing else is wrong.
    const std::int64_t declared = layer.stocks[given.fault_rank].first_expert + 1;
    faults::first_expert_declared(layer, given.fault_rank, declared);
    return {std::move(layer), {"not-linear-placement"}, {}};
  }
  faults::Order order = faults::round_robin(shape);
  std::vector<std::string> causes{"placement-round-robin"};
  if (given.placement == Placement::permuted) {
    order = faults::reversed(shape);
    causes = {"placement-permuted"};
  } else if (given.placement == Placement::duplicated) {
    order = faults::duplicated(shape, other_expert(given), given.fault_expert);
    causes = {"expert-duplicated"};
  }
  const Side side = side_of(given);
  faults::placed(layer, side, order);
  PlantedLayer made = finished(std::move(layer), healthy, side);
  made.causes = std::move(causes);
  return made;
}

}  // namespace slicecheck::properties
