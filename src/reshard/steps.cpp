#include "reshard/steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/majority.h"
#include "group/agree.h"
#include "group/shared.h"
#include "reshard/reshard.h"

namespace slicecheck::reshard {
namespace {

/// What must be the same on every rank before a byte moves.
struct Parameters {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t experts = 0;
  bool operator==(const Parameters&) const = default;
};

std::string text(const Parameters& parameters) {
  return fmt::format("hidden {}, intermediate {} and {} experts", parameters.hidden,
                     parameters.intermediate, parameters.experts);
}

/// Why this rank's parameters are not those of most ranks; the same sentence on every rank of the
/// minority. Collective.
Reason differing(group::Group& group, const Parameters& mine) {
  const std::vector<Parameters> all = group::shared(group, mine);
  const Parameters most = majority(all);
  if (mine == most) return {};
  std::vector<std::string> held;
  for (const int rank : minority(all, most)) {
    held.push_back(fmt::format("rank {} has {}", rank, text(all[rank])));
  }
  return Reason(fmt::format("the experts' shapes differ across ranks: most have {}, but {}",
                            text(most), fmt::join(held, ", ")),
                "shape-differs-across-ranks");
}

Reason without_data(std::string_view name, const Tensor& tensor) {
  if (tensor.data != nullptr || tensor.bytes() == 0) return {};
  return Reason(fmt::format("{} has no data, expected {} bytes", name, tensor.bytes()),
                "shape-unsupported");
}

Reason without_data(const experts::StockExperts& stock) {
  for (const layout::Kind kind : layout::kinds) {
    Reason reason = without_data(layout::name(kind), experts::tensor_of(stock, kind));
    if (reason) return reason;
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    Reason reason = without_data(experts::name(scalar), experts::tensor_of(stock, scalar));
    if (reason) return reason;
  }
  Reason reason = without_data("a1_gscale", stock.a1_gscale);
  return reason ? reason : without_data("a2_gscale", stock.a2_gscale);
}

/// No rank has fewer than one expert, or widths of nothing: such experts agree with every rule of
/// the layout, and nothing would be moved.
Reason empty(const layout::Shape& shape) {
  if (shape.experts > 0 && shape.hidden > 0 && shape.intermediate > 0) return {};
  return Reason(fmt::format("{} experts of hidden {} and intermediate {} hold nothing",
                            shape.experts, shape.hidden, shape.intermediate),
                "shape-unsupported");
}

/// Everything that this rank can see to be wrong by itself.
Reason unfit(const experts::StockExperts& stock, const group::Group& group,
             std::int64_t num_experts) {
  Reason reason = experts::unsupported(stock, group.size());
  if (!reason) reason = experts::misplaced(stock, group.rank(), group.size(), num_experts);
  if (!reason) reason = empty(experts::shape_of(stock, group.size()));
  if (!reason) reason = without_data(stock);
  return reason;
}

Reason allocate(Tensor& tensor, Dtype dtype, Extents extents, std::string_view name,
                memory::Space& space) {
  tensor = {dtype, std::move(extents), {}, {}};
  auto made = space.allocate(tensor.bytes(), fmt::format("tp {}", name));
  if (!made.reason) tensor.data = *made;
  return made.reason;
}

}  // namespace

layout::Shape agreed_shape(const experts::StockExperts& stock, group::Group& group,
                           std::int64_t num_experts) {
  group::refuse_together(group, unfit(stock, group, num_experts), refusal);
  const layout::Shape shape = experts::shape_of(stock, group.size());
  group::refuse_together(group, differing(group, {shape.hidden, shape.intermediate, shape.experts}),
                         refusal);
  // Every rank's tensors are known to be sound: what follows may read them.
  const Result<std::vector<float>> row = scales_in_a_row(stock, group.space());
  group::refuse_together(group, row.reason ? row.reason : not_finite_positive(stock, *row),
                         refusal);
  group::refuse_together(group, check_global_scales(*row, group), refusal);
  return shape;
}

Result<experts::TpExperts> allocated_tp(const layout::Shape& shape, memory::Space& space) {
  experts::TpExperts made;
  made.intermediate = shape.slice();
  made.num_experts = shape.experts;
  for (const layout::Kind kind : layout::kinds) {
    Reason reason = allocate(experts::tensor_of(made, kind), Dtype::u8,
                             experts::final_extents(kind, shape), layout::name(kind), space);
    if (reason) return reason;
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    Reason reason = allocate(experts::tensor_of(made, scalar), Dtype::f32, {shape.experts},
                             experts::name(scalar), space);
    if (reason) return reason;
  }
  return made;
}

Travel travel_of(const experts::TpExperts& tp, layout::Kind kind, std::uint8_t* packed,
                 const group::Group& group) {
  const Tensor& tensor = experts::tensor_of(tp, kind);
  return {kind, packed, tensor.data.get(), tensor.bytes() / group.size()};
}

void pack(const Travel& travel, const experts::StockExperts& stock, const group::Group& group,
          memory::Space& lane) {
  lane.pack({travel.packed, group.rank(), travel.received + group.rank() * travel.block},
            experts::tensor_of(stock, travel.kind).data.get(), travel.kind,
            experts::shape_of(stock, group.size()));
}

void exchange(const std::vector<Travel>& travels, group::Group& group) {
  std::vector<group::Exchange> exchanges;
  for (const Travel& each : travels) {
    exchanges.push_back({each.received, each.packed, each.block});
  }
  group.exchange(exchanges);
}

void gather_scalars(experts::TpExperts& tp, const experts::StockExperts& stock,
                    group::Group& group) {
  std::vector<group::Gather> gathers;
  for (const experts::Scalar scalar : experts::all_scalars) {
    const Tensor& local = experts::tensor_of(stock, scalar);
    gathers.push_back({experts::tensor_of(tp, scalar).data.get(), local.data.get(), local.bytes()});
  }
  group.all_gathers(gathers);
}

}  // namespace slicecheck::reshard
