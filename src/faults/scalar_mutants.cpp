// The chapters of the catalogue that move experts and change scalars.
#include <cmath>

#include "faults/byte_faults.h"
#include "faults/catalogue.h"
#include "faults/placement_faults.h"

namespace slicecheck::faults {
namespace {

using experts::Scalar;
using layout::Kind;

const std::vector<std::string> four{"w13", "w13_sf", "w2", "w2_sf"};

// Of tp experts moved with their scalars: tp's scalars are moved bits as its bytes are.
std::vector<std::string> with_scalars(std::vector<std::string> tensors) {
  for (const Scalar scalar : experts::all_scalars) tensors.emplace_back(experts::name(scalar));
  return tensors;
}

}  // namespace

void Catalogue::add_placement() {
  for (const layout::Shape& shape : {t1, t2, t3}) {
    for (const Side side : {Side::stock, Side::tp}) {
      const Where where{side, {}, {}, {}};
      const auto add_order = [&](std::string_view fault, const Order& order, Expected due) {
        due.side = side;
        due.tensors = side == Side::tp ? with_scalars(four) : four;
        add(fault, shape, bytes_payload, where,
            [side, order](Layer& l) {
              placed(l, side, order);
              if (side == Side::stock) recut(l);
            },
            {due});
      };
      add_order("placement-round-robin", round_robin(shape),
                {"placement-round-robin", side, four, {}, {}});
      add_order("placement-permuted", reversed(shape), {"placement-permuted", side, four, {}, {}});
      const std::int64_t held = shape.experts_per_rank();
      Expected twice{"expert-duplicated", side, four, {4}, {}};
      if (side == Side::stock) twice.ranks = {4 / held};
      add_order("expert-duplicated", duplicated(shape, 1, 4), twice);
      if (side == Side::stock) {
        Expected ranks{"rank-order", side, four, {}, {0, 1}};
        if (shape.tp == 2) ranks.ranks.clear();
        add_order("rank-order", ranks_exchanged(shape, 0, 1), ranks);
      }
    }
    const Where scales{Side::tp, {Kind::w13_sf, Kind::w2_sf}, {2}, {}};
    add("expert-mixed", shape, bytes_payload, scales,
        [scales](Layer& l) { expert_mixed(l, scales, 5); }, {expected("expert-mixed", scales)});
    add("not-linear-placement", shape, bytes_payload, {Side::stock, {}, {}, {1}},
        [](Layer& l) { first_expert_declared(l, 1, 0); },
        {{"not-linear-placement", Side::stock, {}, {}, {1}}});
    made_.back().needs_payload = false;
    if (shape.tp == 2) continue;
    add("rank-order", shape, bytes_payload, {Side::tp, {}, {}, {0, 2}},
        [](Layer& l) { rank_order(l, 0, 2); }, {{"rank-order", Side::tp, four, {}, {0, 2}}});
  }
}

void Catalogue::add_scalar(std::string_view fault, const ScalarWhere& where,
                           const std::function<void(Layer&, const ScalarWhere&)>& plant,
                           const std::string& cause, bool warning) {
  for (const layout::Shape& shape : {t1, t2}) {
    Expected due{cause,         where.side,  {std::string(experts::name(where.scalar))},
                 where.experts, where.ranks, warning};
    if (where.side == Side::stock && !where.experts.empty()) {
      due.ranks = {where.experts.front() / shape.experts_per_rank()};
    }
    const bool recuts = where.side == Side::stock;
    add(fault, shape, numeric_payload, {where.side, {}, where.experts, where.ranks},
        [plant, where, recuts](Layer& l) {
          plant(l, where);
          if (recuts) recut(l);
        },
        {due});
    made_.back().pattern.append(" ").append(experts::name(where.scalar));
  }
}

void Catalogue::add_scalars() {
  for (const Scalar scalar : experts::all_scalars) {
    for (const Side side : {Side::stock, Side::tp}) {
      for (const std::vector<std::int64_t>& experts : {std::vector<std::int64_t>{}, {3}}) {
        const ScalarWhere where{side, scalar, experts, {}};
        add_scalar("reciprocal-scale", where, reciprocal_scale, "reciprocal-scale");
        add_scalar("scale-dropped", where, scale_dropped, "scale-dropped");
        add_scalar("scale-dropped", where, factor_dropped, "scale-dropped");
        for (const float value : {0.0F, -1.0F, NAN, INFINITY, 1e-40F}) {
          add_scalar(
              "scale-not-finite-positive", where,
              [value](Layer& l, const ScalarWhere& w) { scale_not_finite_positive(l, w, value); },
              "scale-not-finite-positive");
        }
        add_scalar(
            "stale-derived-scalar", where,
            [](Layer& l, const ScalarWhere& w) {
              scalars_changed(l, w, [](float v, std::int64_t) { return 1.5F * v; });
            },
            "stale-derived-scalar");
        if (side == Side::tp || scalar == Scalar::g1_scale_c) {
          add_scalar(
              "scalar-rounding", where,
              [](Layer& l, const ScalarWhere& w) { scalar_rounding(l, w, 3); }, "scalar-rounding",
              side == Side::stock);
        }
        if (!experts.empty()) {
          add_scalar(
              "stale-derived-scalar", where,
              [](Layer& l, const ScalarWhere& w) { stale_derived_scalar(l, w, 5); },
              "stale-derived-scalar");
        }
      }
    }
    const ScalarWhere everywhere{Side::tp, scalar, {}, {}};
    const ScalarWhere one_rank{Side::tp, scalar, {}, {1}};
    for (const ScalarWhere& where : {everywhere, one_rank}) {
      add_scalar("scalars-not-gathered", where, scalars_not_gathered, "scalars-not-gathered");
      add_scalar("scalars-misordered", where, scalars_misordered, "scalars-misordered");
    }
  }
  for (const std::string name : {"a1_gscale", "a2_gscale"}) {
    add("input-scale-differs-across-ranks", t1, numeric_payload, {Side::stock, {}, {}, {1}},
        [name](Layer& l) { input_scale_differs(l, name, {1}, 1.25F); },
        {{"input-scale-differs-across-ranks", Side::stock, {name}, {}, {1}}});
    made_.back().needs_payload = false;
    add("scale-not-finite-positive", t1, numeric_payload, {Side::stock, {}, {}, {2}},
        [name](Layer& l) { input_scale_differs(l, name, {2}, NAN); },
        {{"scale-not-finite-positive", Side::stock, {name}, {}, {2}}});
    made_.back().needs_payload = false;
  }
}

}  // namespace slicecheck::faults
