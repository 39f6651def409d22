#include "faults/scalar_faults.h"

#include <algorithm>
#include <cmath>

#include "faults/byte_faults.h"

namespace slicecheck::faults {
namespace {

template <typename T>
bool chosen(const std::vector<T>& list, const T& item) {
  return list.empty() || std::find(list.begin(), list.end(), item) != list.end();
}

Tensor& tensor_at(Layer& layer, const ScalarWhere& where, std::int64_t rank) {
  return where.side == Side::tp ? experts::tensor_of(layer.tps[rank], where.scalar)
                                : experts::tensor_of(layer.stocks[rank], where.scalar);
}

std::vector<float> all_values(const Layer& layer, experts::Scalar scalar) {
  std::vector<float> all;
  for (const experts::StockExperts& stock : layer.stocks) {
    const std::vector<float> mine = floats(experts::tensor_of(stock, scalar));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

float global(const Layer& layer, std::string_view name) {
  const experts::StockExperts& stock = layer.stocks.front();
  return floats(name == "a1_gscale" ? stock.a1_gscale : stock.a2_gscale).front();
}

}  // namespace

void scalars_changed(Layer& layer, const ScalarWhere& where,
                     const std::function<float(float, std::int64_t)>& made) {
  for (std::int64_t rank = 0; rank < layer.shape.tp; ++rank) {
    if (!chosen(where.ranks, rank)) continue;
    Tensor& tensor = tensor_at(layer, where, rank);
    std::vector<float> values = floats(tensor);
    const std::int64_t first =
        where.side == Side::stock ? rank * layer.shape.experts_per_rank() : 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t expert = first + static_cast<std::int64_t>(i);
      if (chosen(where.experts, expert)) values[i] = made(values[i], expert);
    }
    tensor = host_floats(values);
  }
}

void reciprocal_scale(Layer& layer, const ScalarWhere& where) {
  scalars_changed(layer, where, [](float value, std::int64_t) { return 1.0F / value; });
}

void scale_dropped(Layer& layer, const ScalarWhere& where) {
  scalars_changed(layer, where, [](float, std::int64_t) { return 1.0F; });
}

void factor_dropped(Layer& layer, const ScalarWhere& where) {
  const float a1 = global(layer, "a1_gscale");
  const float a2 = global(layer, "a2_gscale");
  scalars_changed(layer, where, [&](float value, std::int64_t) {
    if (where.scalar == experts::Scalar::g1_scale_c) return value / a2;
    return value * (where.scalar == experts::Scalar::g1_alphas ? a1 : a2);
  });
}

void stale_derived_scalar(Layer& layer, const ScalarWhere& where, std::int64_t other) {
  const float value = all_values(layer, where.scalar)[other];
  scalars_changed(layer, where, [value](float, std::int64_t) { return value; });
}

void scalar_rounding(Layer& layer, const ScalarWhere& where, int ulp) {
  scalars_changed(layer, where, [ulp](float value, std::int64_t) {
    for (int i = 0; i < ulp; ++i) value = std::nextafter(value, INFINITY);
    return value;
  });
}

void scale_not_finite_positive(Layer& layer, const ScalarWhere& where, float value) {
  scalars_changed(layer, where, [value](float, std::int64_t) { return value; });
}

void scalars_not_gathered(Layer& layer, const ScalarWhere& where) {
  const std::vector<float> all = all_values(layer, where.scalar);
  const std::int64_t held = layer.shape.experts_per_rank();
  for (std::int64_t rank = 0; rank < layer.shape.tp; ++rank) {
    ScalarWhere one = where;
    one.ranks = {rank};
    if (!chosen(where.ranks, rank)) continue;
    scalars_changed(layer, one,
                    [&](float, std::int64_t expert) { return all[rank * held + expert % held]; });
  }
}

void scalars_misordered(Layer& layer, const ScalarWhere& where) {
  std::vector<float> all = all_values(layer, where.scalar);
  std::reverse(all.begin(), all.end());
  scalars_changed(layer, where, [&](float, std::int64_t expert) { return all[expert]; });
}

void whole_payload_of_other_layer(Layer& layer, const Where& where, std::uint64_t seed) {
  payload_of_other_layer(layer, where, seed);
  const experts::Scalars theirs =
      experts::payload_scalars(seed, 0, layer.shape.experts, layout::stock_widths(layer.shape));
  for (const experts::Scalar scalar : experts::all_scalars) {
    scalars_changed(
        layer, {where.side, scalar, where.experts, where.ranks},
        [&](float, std::int64_t expert) { return experts::values_of(theirs, scalar)[expert]; });
  }
}

void input_scale_differs(Layer& layer, std::string_view name,
                         const std::vector<std::int64_t>& ranks, float factor) {
  for (const std::int64_t rank : ranks) {
    experts::StockExperts& stock = layer.stocks[rank];
    Tensor& tensor = name == "a1_gscale" ? stock.a1_gscale : stock.a2_gscale;
    tensor = host_floats({floats(tensor).front() * factor});
  }
}

}  // namespace slicecheck::faults
