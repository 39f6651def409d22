#include "reshard/reshard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/majority.h"
#include "group/agree.h"
#include "group/shared.h"

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

Tensor empty_tensor(Dtype dtype, Extents extents) { return {dtype, std::move(extents), {}, {}}; }

Reason allocate(Tensor& tensor, std::string_view purpose, memory::Space& space) {
  auto made = space.allocate(tensor.bytes(), purpose);
  if (!made.reason) tensor.data = *made;
  return made.reason;
}

/// What a rank's result needs, and the one packed tensor beside it: of the largest kind, used by
/// each kind in turn.
struct Room {
  experts::TpExperts tp;
  Tensor packed;
};

/// Everything that will be written, before anything is: the ranks agree on it once, and no kind
/// waits for the host between two of its steps.
Reason allocate(Room& room, const layout::Shape& shape, memory::Space& space) {
  Reason reason;
  for (const layout::Kind kind : layout::kinds) {
    Tensor& tensor = experts::tensor_of(room.tp, kind);
    tensor = empty_tensor(Dtype::u8, experts::final_extents(kind, shape));
    if (!reason) reason = allocate(tensor, fmt::format("tp {}", layout::name(kind)), space);
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    Tensor& tensor = experts::tensor_of(room.tp, scalar);
    tensor = empty_tensor(Dtype::f32, {shape.experts});
    if (!reason) reason = allocate(tensor, fmt::format("tp {}", experts::name(scalar)), space);
  }
  room.packed = empty_tensor(Dtype::u8, experts::stock_extents(layout::Kind::w13, shape));
  if (!reason) reason = allocate(room.packed, "the packed w13", space);
  return reason;
}

/// One kind's exchange. The rank's own slice goes straight to its place: only what others hold
/// travels. Collective.
void exchange(const Room& room, const experts::StockExperts& stock, layout::Kind kind,
              group::Group& group) {
  const layout::Shape shape = experts::shape_of(stock, group.size());
  const Tensor& local = experts::tensor_of(stock, kind);
  std::uint8_t* const received = experts::tensor_of(room.tp, kind).data.get();
  const std::int64_t block = local.bytes() / group.size();
  group.space().pack({room.packed.data.get(), group.rank(), received + group.rank() * block},
                     local.data.get(), kind, shape);
  group.all_to_others(received, room.packed.data.get(), block);
}

}  // namespace

experts::TpExperts reshard_nvfp4(const experts::StockExperts& stock, group::Group& group,
                                 std::int64_t num_experts) {
  group::refuse_together(group, unfit(stock, group, num_experts), refusal);
  const layout::Shape shape = experts::shape_of(stock, group.size());
  group::refuse_together(group, differing(group, {shape.hidden, shape.intermediate, shape.experts}),
                         refusal);
  // Every rank's tensors are known to be sound: what follows may read them.
  group::refuse_together(group, not_finite_positive(stock, group.space()), refusal);
  group::refuse_together(group, check_global_scales(stock, group), refusal);

  Room room;
  group::refuse_together(group, allocate(room, shape, group.space()), refusal);
  for (const layout::Kind kind : layout::kinds) exchange(room, stock, kind, group);
  for (const experts::Scalar scalar : experts::all_scalars) {
    const Tensor& local = experts::tensor_of(stock, scalar);
    group.all_gather(experts::tensor_of(room.tp, scalar).data.get(), local.data.get(),
                     local.bytes());
  }
  group.space().synchronise();
  room.tp.intermediate = shape.slice();
  room.tp.num_experts = num_experts;
  return std::move(room.tp);
}

}  // namespace slicecheck::reshard
