// Synthetic experts by the payload rule (layout/payload.h), one at a time, and their scalars.
#pragma once

#include "experts/convert.h"
#include "layout/payload.h"

namespace slicecheck::experts {

/// Plain expert `expert` of a layer of these widths.
PlainExpert payload_expert(const layout::Payload& payload, std::int64_t expert,
                           const layout::Widths& widths);

/// The scalars of experts [first, first + count), as the stock holds them. All products are exact.
struct Scalars {
  std::vector<float> g1_alphas;
  std::vector<float> g1_scale_c;
  std::vector<float> g2_alphas;
  float a1_gscale = 0;
  float a2_gscale = 0;
};

const std::vector<float>& values_of(const Scalars& scalars, Scalar scalar);

Scalars payload_scalars(std::uint64_t seed, std::int64_t first, std::int64_t count,
                        const layout::Widths& widths);

/// The stock of rank r of a group, made by this reference. Host memory.
StockExperts payload_stock(const layout::Payload& payload, const layout::Shape& shape,
                           std::int64_t rank);

/// The tp experts of rank r, every byte by index formula. Host memory; slow.
TpExperts payload_tp(const layout::Payload& payload, const layout::Shape& shape,
                     std::int64_t rank);

/// Host tensors for one rank, bytes not set, scalars as given.
StockExperts stock_of(const layout::Shape& shape, const Scalars& scalars, std::int64_t first);
TpExperts tp_of(const layout::Shape& shape, const Scalars& scalars);

}  // namespace slicecheck::experts
