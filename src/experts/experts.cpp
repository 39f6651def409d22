#include "experts/experts.h"

#include <fmt/format.h>

namespace slicecheck::experts {
namespace {

// One text for const and mutable records.
template <typename Record>
auto& kind_member(Record& record, layout::Kind kind) {
  switch (kind) {
    case layout::Kind::w13:
      return record.w13;
    case layout::Kind::w13_sf:
      return record.w13_sf;
    case layout::Kind::w2:
      return record.w2;
    case layout::Kind::w2_sf:
      break;
  }
  return record.w2_sf;
}

template <typename Record>
auto& scalar_member(Record& record, Scalar scalar) {
  switch (scalar) {
    case Scalar::g1_alphas:
      return record.g1_alphas;
    case Scalar::g1_scale_c:
      return record.g1_scale_c;
    case Scalar::g2_alphas:
      break;
  }
  return record.g2_alphas;
}

template <typename Expert>
auto& projection_member(Expert& expert, layout::Projection projection) {
  switch (projection) {
    case layout::Projection::w1:
      return expert.w1;
    case layout::Projection::w3:
      return expert.w3;
    case layout::Projection::w2:
      break;
  }
  return expert.w2;
}

Reason unexpected(std::string_view name, const Tensor& tensor, Dtype dtype, const Extents& due) {
  if (tensor.dtype != dtype || tensor.extents != due) {
    return Reason(fmt::format("{} is {}, expected {} {}", name, text(tensor),
                              slicecheck::name(dtype), text(due)),
                  "shape-unsupported");
  }
  if (!is_contiguous(tensor)) {
    return Reason(fmt::format("{} is not contiguous", name), "shape-unsupported");
  }
  return {};
}

}  // namespace

const PlainProjection& projection_of(const PlainExpert& expert, layout::Projection projection) {
  return projection_member(expert, projection);
}
PlainProjection& projection_of(PlainExpert& expert, layout::Projection projection) {
  return projection_member(expert, projection);
}
const Tensor& tensor_of(const StockExperts& stock, layout::Kind kind) {
  return kind_member(stock, kind);
}
Tensor& tensor_of(StockExperts& stock, layout::Kind kind) { return kind_member(stock, kind); }
const Tensor& tensor_of(const TpExperts& tp, layout::Kind kind) { return kind_member(tp, kind); }
Tensor& tensor_of(TpExperts& tp, layout::Kind kind) { return kind_member(tp, kind); }
const Tensor& tensor_of(const StockExperts& stock, Scalar scalar) {
  return scalar_member(stock, scalar);
}
Tensor& tensor_of(StockExperts& stock, Scalar scalar) { return scalar_member(stock, scalar); }
const Tensor& tensor_of(const TpExperts& tp, Scalar scalar) { return scalar_member(tp, scalar); }
Tensor& tensor_of(TpExperts& tp, Scalar scalar) { return scalar_member(tp, scalar); }

std::string_view name(Scalar scalar) {
  constexpr std::array<std::string_view, 3> names{"g1_alphas", "g1_scale_c", "g2_alphas"};
  return names[static_cast<std::size_t>(scalar)];
}

layout::Shape shape_of(const StockExperts& stock, std::int64_t tp) {
  const Extents& w13 = stock.w13.extents;
  if (w13.size() != 3) return {0, 0, 0, tp};
  return {w13[0] * tp, 2 * w13[2], w13[1] / 2, tp};
}

Extents stock_extents(layout::Kind kind, const layout::Shape& shape) {
  const layout::Matrix each = layout::matrix(kind, layout::stock_widths(shape));
  return {shape.experts_per_rank(), each.rows, each.row_bytes};
}

Extents final_extents(layout::Kind kind, const layout::Shape& shape) {
  const layout::Matrix each = layout::matrix(kind, layout::tp_widths(shape));
  return {shape.experts, each.rows, each.row_bytes};
}

Reason misshapen(const TpExperts& tp, const layout::Shape& shape) {
  for (const layout::Kind kind : layout::kinds) {
    const Tensor& tensor = tensor_of(tp, kind);
    const Extents due = final_extents(kind, shape);
    const bool cut_so = tensor.extents == due;
    if (cut_so && size(tensor.dtype) == 1 && is_contiguous(tensor)) continue;
    return Reason(
        fmt::format("tp {} is {}, expected {}", layout::name(kind), text(tensor), text(due)),
        cut_so ? "shape-unsupported" : "wrong-axis-cut");
  }
  for (const Scalar scalar : all_scalars) {
    const Tensor& tensor = tensor_of(tp, scalar);
    if (tensor.dtype == Dtype::f32 && tensor.extents == Extents{shape.experts}) continue;
    return Reason(
        fmt::format("tp {} is {}, expected F32 [{}]", name(scalar), text(tensor), shape.experts),
        "shape-unsupported");
  }
  return {};
}

Reason unsupported(const StockExperts& stock, std::int64_t tp) {
  if (stock.w13.extents.size() != 3) {
    return Reason("the w13 weight must be [experts, rows, columns]", "shape-unsupported");
  }
  const layout::Shape shape = shape_of(stock, tp);
  const std::int64_t held = stock.w13.extents[0];
  for (const layout::Kind kind : layout::kinds) {
    const layout::Matrix each = layout::matrix(kind, layout::stock_widths(shape));
    const Dtype dtype = layout::is_scale(kind) ? Dtype::f8_e4m3 : Dtype::u8;
    Reason reason = unexpected(layout::name(kind), tensor_of(stock, kind), dtype,
                               {held, each.rows, each.row_bytes});
    if (reason) return reason;
  }
  for (const Scalar scalar : all_scalars) {
    Reason reason = unexpected(name(scalar), tensor_of(stock, scalar), Dtype::f32, {held});
    if (reason) return reason;
  }
  Reason reason = unexpected("a1_gscale", stock.a1_gscale, Dtype::f32, {1});
  if (!reason) reason = unexpected("a2_gscale", stock.a2_gscale, Dtype::f32, {1});
  if (!reason) reason = layout::unsupported(shape);
  return reason;
}

Reason misplaced(const StockExperts& stock, std::int64_t rank, std::int64_t size,
                 std::int64_t experts) {
  const std::int64_t held = stock.w13.extents.empty() ? 0 : stock.w13.extents[0];
  if (held * size != experts) {
    return Reason(fmt::format("{} ranks x {} experts is not {} experts", size, held, experts),
                  "shape-unsupported");
  }
  if (stock.first_expert != rank * held) {
    return Reason(fmt::format("rank {} holds experts from {}, not {} (linear placement)", rank,
                              stock.first_expert, rank * held),
                  "not-linear-placement");
  }
  return {};
}

}  // namespace slicecheck::experts
