#include "faults/layer.h"

#include <algorithm>

#include "base/must.h"

namespace slicecheck::faults {
namespace {

template <typename T>
bool chosen(const std::vector<T>& list, const T& item) {
  return list.empty() || std::find(list.begin(), list.end(), item) != list.end();
}

Tensor copied_tensor(const Tensor& tensor) {
  Tensor made = host_tensor(tensor.dtype, tensor.extents);
  const MutableBytes from = host_bytes(tensor);
  std::copy(from.begin(), from.end(), made.data.get());
  return made;
}

template <typename Record>
void copy_members(Record& record) {
  for (const layout::Kind kind : layout::kinds) {
    experts::tensor_of(record, kind) = copied_tensor(experts::tensor_of(record, kind));
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    experts::tensor_of(record, scalar) = copied_tensor(experts::tensor_of(record, scalar));
  }
}

std::vector<float> gathered(const Layer& layer, experts::Scalar scalar) {
  std::vector<float> all;
  for (const experts::StockExperts& stock : layer.stocks) {
    const std::vector<float> mine = floats(experts::tensor_of(stock, scalar));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

MutableBytes slot(const Tensor& tensor, std::int64_t at) {
  const MutableBytes all = host_bytes(tensor);
  const std::size_t each = all.size() / static_cast<std::size_t>(tensor.extents[0]);
  return all.subspan(static_cast<std::size_t>(at) * each, each);
}

experts::TpExperts cut_tp(const Layer& layer, std::int64_t rank) {
  experts::TpExperts made =
      experts::tp_of(layer.shape, {gathered(layer, experts::Scalar::g1_alphas),
                                   gathered(layer, experts::Scalar::g1_scale_c),
                                   gathered(layer, experts::Scalar::g2_alphas), 0, 0});
  for (std::int64_t e = 0; e < layer.shape.experts; ++e) {
    const experts::ConvertedExpert part =
        experts::slice(stock_expert(layer, e), layer.shape.tp, rank);
    for (const layout::Kind kind : layout::kinds) {
      const ByteVector& bytes = experts::bytes_of(part, kind);
      std::copy(bytes.begin(), bytes.end(), slot(experts::tensor_of(made, kind), e).begin());
    }
  }
  return made;
}

}  // namespace

Layer healthy_layer(const layout::Payload& payload, const layout::Shape& shape) {
  Layer layer{shape, payload, {}, {}};
  for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
    layer.stocks.push_back(experts::payload_stock(payload, shape, rank));
  }
  recut(layer);
  return layer;
}

Layer copied(const Layer& layer) {
  Layer made = layer;
  for (experts::StockExperts& stock : made.stocks) {
    copy_members(stock);
    stock.a1_gscale = copied_tensor(stock.a1_gscale);
    stock.a2_gscale = copied_tensor(stock.a2_gscale);
  }
  for (experts::TpExperts& tp : made.tps) copy_members(tp);
  return made;
}

void recut(Layer& layer) {
  layer.tps.clear();
  for (std::int64_t rank = 0; rank < layer.shape.tp; ++rank) {
    layer.tps.push_back(cut_tp(layer, rank));
  }
}

std::vector<Spot> spots(const Layer& layer, const Where& where) {
  std::vector<Spot> made;
  for (std::int64_t rank = 0; rank < layer.shape.tp; ++rank) {
    if (!chosen(where.ranks, rank)) continue;
    const std::int64_t held = layer.shape.experts_per_rank();
    const std::int64_t first = where.side == Side::stock ? rank * held : 0;
    const std::int64_t last = where.side == Side::stock ? first + held : layer.shape.experts;
    for (std::int64_t expert = first; expert < last; ++expert) {
      if (!chosen(where.experts, expert)) continue;
      for (const layout::Kind kind : layout::kinds) {
        if (chosen(where.kinds, kind)) made.push_back({where.side, rank, expert, kind});
      }
    }
  }
  return made;
}

MutableBytes bytes_at(const Layer& layer, const Spot& spot) {
  if (spot.side == Side::tp) {
    return slot(experts::tensor_of(layer.tps[spot.rank], spot.kind), spot.expert);
  }
  return slot(experts::tensor_of(layer.stocks[spot.rank], spot.kind),
              spot.expert % layer.shape.experts_per_rank());
}

experts::ConvertedExpert stock_expert(const Layer& layer, std::int64_t expert) {
  experts::ConvertedExpert made;
  made.widths = layout::stock_widths(layer.shape);
  const std::int64_t holder = expert / layer.shape.experts_per_rank();
  for (const layout::Kind kind : layout::kinds) {
    const MutableBytes bytes = bytes_at(layer, {Side::stock, holder, expert, kind});
    experts::bytes_of(made, kind) = ByteVector(bytes.begin(), bytes.end());
  }
  return made;
}

experts::PlainExpert plain_part(const Layer& layer, const Spot& spot) {
  const experts::ConvertedExpert whole = stock_expert(layer, spot.expert);
  if (spot.side == Side::stock) return experts::unconverted(whole);
  return experts::unconverted(experts::slice(whole, layer.shape.tp, spot.rank));
}

void replace(Layer& layer, const Where& where,
             const std::function<ByteVector(const Layer&, const Spot&)>& made) {
  const Layer healthy = copied(layer);
  for (const Spot& spot : spots(layer, where)) {
    const ByteVector bytes = made(healthy, spot);
    const MutableBytes to = bytes_at(layer, spot);
    must(bytes.size() == to.size(), "a planter made a tensor of another size");
    std::copy(bytes.begin(), bytes.end(), to.begin());
  }
}

}  // namespace slicecheck::faults
