// A whole layer in host memory, the stock and the tp experts of every rank, into which faults are
// planted; and the places that a fault is planted in. Planters move rows and bytes of healthy
// experts; `verify` says the same by index formula, and neither calls the other.
#pragma once

#include <functional>

#include "experts/payload.h"

namespace slicecheck::faults {

/// Everything that the ranks of one group hold of one layer. Host memory.
struct Layer {
  layout::Shape shape;
  layout::Payload payload;
  std::vector<experts::StockExperts> stocks;  // [tp]
  std::vector<experts::TpExperts> tps;        // [tp]
};

/// A healthy layer by the payload rule: stocks converted, tp experts cut from them.
Layer healthy_layer(const layout::Payload& payload, const layout::Shape& shape);

/// A copy that shares no bytes with `layer`.
Layer copied(const Layer& layer);

/// Cuts the tp experts out of the stocks again, scalars too: what an engine makes of these stocks.
void recut(Layer& layer);

enum class Side { stock, tp };

/// Where a fault is planted. An empty list means all; ranks of the stock side are holders.
struct Where {
  Side side = Side::tp;
  std::vector<layout::Kind> kinds;
  std::vector<std::int64_t> experts;  // global
  std::vector<std::int64_t> ranks;
};

/// One expert's tensor on one rank of one side.
struct Spot {
  Side side = Side::tp;
  std::int64_t rank = 0;
  std::int64_t expert = 0;  // global
  layout::Kind kind = layout::Kind::w13;
};

/// Every spot of `where`, ranks outermost, then experts, then kinds.
std::vector<Spot> spots(const Layer& layer, const Where& where);

/// The bytes of a spot, to read and to write.
MutableBytes bytes_at(const Layer& layer, const Spot& spot);

/// The whole converted expert as the stocks hold it.
experts::ConvertedExpert stock_expert(const Layer& layer, std::int64_t expert);

/// The plain expert of a spot's side: whole for the stock, the rank's slice for tp.
experts::PlainExpert plain_part(const Layer& layer, const Spot& spot);

/// Replaces the bytes of every spot by what `made` gives for it, all from the layer as it was.
void replace(Layer& layer, const Where& where,
             const std::function<ByteVector(const Layer& healthy, const Spot&)>& made);

}  // namespace slicecheck::faults
