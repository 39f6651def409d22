#include "experts/payload.h"

#include <cmath>

#include "experts/place.h"

namespace slicecheck::experts {
namespace {

ByteVector payload_weight(const layout::Payload& payload, std::int64_t expert,
                          layout::Projection projection, const layout::Widths& widths) {
  const std::uint64_t key =
      layout::word_key(payload.seed, expert, layout::word_kind(projection));
  ByteVector made(layout::plain_matrix(projection, false, widths).bytes());
  for (std::int64_t j = 0; j < static_cast<std::int64_t>(made.size()) / 8; ++j) {
    store(made.data() + 8 * j, layout::weight_word(payload, key, projection, j, widths));
  }
  return made;
}

ByteVector payload_scale(const layout::Payload& payload, std::int64_t expert,
                         layout::Projection projection, const layout::Widths& widths) {
  const std::uint64_t key8 = layout::scale_key(payload.seed);
  ByteVector made(layout::plain_matrix(projection, true, widths).bytes());
  for (std::int64_t j = 0; j < static_cast<std::int64_t>(made.size()) / 4; ++j) {
    const std::int64_t g = layout::scale_unit(expert, projection, j, widths);
    store(made.data() + 4 * j, layout::unit_of(payload.kind, key8, g));
  }
  return made;
}

void put(Tensor& tensor, std::int64_t at, const ByteVector& bytes) {
  std::memcpy(tensor.data.get() + at * static_cast<std::int64_t>(bytes.size()), bytes.data(),
              bytes.size());
}

}  // namespace

PlainExpert payload_expert(const layout::Payload& payload, std::int64_t expert,
                           const layout::Widths& widths) {
  PlainExpert made;
  made.widths = widths;
  for (const layout::Projection projection : layout::projections) {
    projection_of(made, projection) = {payload_weight(payload, expert, projection, widths),
                                       payload_scale(payload, expert, projection, widths)};
  }
  return made;
}

const std::vector<float>& values_of(const Scalars& scalars, Scalar scalar) {
  switch (scalar) {
    case Scalar::g1_alphas: return scalars.g1_alphas;
    case Scalar::g1_scale_c: return scalars.g1_scale_c;
    case Scalar::g2_alphas: break;
  }
  return scalars.g2_alphas;
}

Scalars payload_scalars(std::uint64_t seed, std::int64_t first, std::int64_t count,
                        const layout::Widths& widths) {
  Scalars made;
  made.a1_gscale = std::ldexp(1.0F, -layout::a13_exponent);
  made.a2_gscale = std::ldexp(1.0F, -layout::a2_exponent);
  for (std::int64_t expert = first; expert < first + count; ++expert) {
    const float s2_w13 = std::bit_cast<float>(
        layout::scalar_bits(seed, expert, 0, -layout::scale_order(widths.hidden)));
    const float s2_w2 = std::bit_cast<float>(
        layout::scalar_bits(seed, expert, 1, -layout::scale_order(widths.intermediate)));
    made.g1_alphas.push_back(std::ldexp(s2_w13, layout::a13_exponent));
    made.g1_scale_c.push_back(made.g1_alphas.back() * made.a2_gscale);
    made.g2_alphas.push_back(std::ldexp(s2_w2, layout::a2_exponent));
  }
  return made;
}

StockExperts stock_of(const layout::Shape& shape, const Scalars& scalars, std::int64_t first) {
  StockExperts made;
  for (const layout::Kind kind : layout::kinds) {
    const Dtype dtype = layout::is_scale(kind) ? Dtype::f8_e4m3 : Dtype::u8;
    tensor_of(made, kind) = host_tensor(dtype, stock_extents(kind, shape));
  }
  for (const Scalar scalar : all_scalars) {
    tensor_of(made, scalar) = host_floats(values_of(scalars, scalar));
  }
  made.a1_gscale = host_floats({scalars.a1_gscale});
  made.a2_gscale = host_floats({scalars.a2_gscale});
  made.first_expert = first;
  return made;
}

TpExperts tp_of(const layout::Shape& shape, const Scalars& scalars) {
  TpExperts made;
  for (const layout::Kind kind : layout::kinds) {
    tensor_of(made, kind) = host_tensor(Dtype::u8, final_extents(kind, shape));
  }
  for (const Scalar scalar : all_scalars) {
    tensor_of(made, scalar) = host_floats(values_of(scalars, scalar));
  }
  made.intermediate = shape.slice();
  made.num_experts = shape.experts;
  return made;
}

StockExperts payload_stock(const layout::Payload& payload, const layout::Shape& shape,
                           std::int64_t rank) {
  const std::int64_t held = shape.experts_per_rank();
  const layout::Widths widths = layout::stock_widths(shape);
  StockExperts made =
      stock_of(shape, payload_scalars(payload.seed, rank * held, held, widths), rank * held);
  for (std::int64_t local = 0; local < held; ++local) {
    const ConvertedExpert expert =
        converted(payload_expert(payload, rank * held + local, widths));
    for (const layout::Kind kind : layout::kinds) {
      put(tensor_of(made, kind), local, bytes_of(expert, kind));
    }
  }
  return made;
}

TpExperts payload_tp(const layout::Payload& payload, const layout::Shape& shape,
                     std::int64_t rank) {
  const layout::Widths widths = layout::stock_widths(shape);
  TpExperts made = tp_of(shape, payload_scalars(payload.seed, 0, shape.experts, widths));
  for (std::int64_t expert = 0; expert < shape.experts; ++expert) {
    const ConvertedExpert part =
        placed_slice(payload_expert(payload, expert, widths), shape.tp, rank);
    for (const layout::Kind kind : layout::kinds) {
      put(tensor_of(made, kind), expert, bytes_of(part, kind));
    }
  }
  return made;
}

}  // namespace slicecheck::experts
