#include "faults/placement_faults.h"

#include <algorithm>
#include <numeric>

namespace slicecheck::faults {
namespace {

Order identity(const layout::Shape& shape) {
  Order order(static_cast<std::size_t>(shape.experts));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

float& scalar_at(Layer& layer, const Spot& slot, experts::Scalar scalar) {
  const std::int64_t held = layer.shape.experts_per_rank();
  const bool tp = slot.side == Side::tp;
  Tensor& tensor = tp ? experts::tensor_of(layer.tps[slot.rank], scalar)
                      : experts::tensor_of(layer.stocks[slot.rank], scalar);
  return reinterpret_cast<float*>(tensor.data.get())[tp ? slot.expert : slot.expert % held];
}

// The spot of an expert on the same side: its holder's for the stock.
Spot healthy_spot(const Layer& layer, const Spot& slot, std::int64_t expert) {
  Spot from = slot;
  from.expert = expert;
  if (slot.side == Side::stock) from.rank = expert / layer.shape.experts_per_rank();
  return from;
}

}  // namespace

Order round_robin(const layout::Shape& shape) {
  Order order = identity(shape);
  const std::int64_t held = shape.experts_per_rank();
  for (std::int64_t& e : order) e = e / held + e % held * shape.tp;
  return order;
}

Order duplicated(const layout::Shape& shape, std::int64_t expert, std::int64_t at) {
  Order order = identity(shape);
  order[at] = expert;
  return order;
}

Order ranks_exchanged(const layout::Shape& shape, std::int64_t a, std::int64_t b) {
  Order order = identity(shape);
  const std::int64_t held = shape.experts_per_rank();
  std::swap_ranges(order.begin() + a * held, order.begin() + (a + 1) * held,
                   order.begin() + b * held);
  return order;
}

Order reversed(const layout::Shape& shape) {
  Order order = identity(shape);
  std::reverse(order.begin(), order.end());
  return order;
}

void placed(Layer& layer, Side side, const Order& order) {
  Layer healthy = copied(layer);
  for (const Spot& slot : spots(layer, {side, {}, {}, {}})) {
    const Spot from = healthy_spot(healthy, slot, order[slot.expert]);
    const MutableBytes bytes = bytes_at(healthy, from);
    std::copy(bytes.begin(), bytes.end(), bytes_at(layer, slot).begin());
    for (const experts::Scalar scalar : experts::all_scalars) {
      scalar_at(layer, slot, scalar) = scalar_at(healthy, from, scalar);
    }
  }
}

void first_expert_declared(Layer& layer, std::int64_t rank, std::int64_t first) {
  layer.stocks[rank].first_expert = first;
}

void expert_mixed(Layer& layer, const Where& where, std::int64_t other) {
  replace(layer, where, [other](const Layer& healthy, const Spot& spot) {
    const MutableBytes bytes = bytes_at(healthy, healthy_spot(healthy, spot, other));
    return ByteVector(bytes.begin(), bytes.end());
  });
}

void rank_order(Layer& layer, std::int64_t a, std::int64_t b) {
  std::swap(layer.tps[a], layer.tps[b]);
}

}  // namespace slicecheck::faults
