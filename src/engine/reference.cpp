#include "engine/engine.h"
#include "group/agree.h"
#include "reshard/steps.h"

namespace slicecheck::engine {
namespace {

constexpr std::string_view what = "cannot make the reference experts";

Reason fill(experts::TpExperts& tp, const EngineInput& input, std::int64_t d,
            memory::Space& space) {
  for (std::int64_t expert = 0; expert < input.experts; ++expert) {
    const Result<experts::PlainExpert> slice = input.plain_slice(expert, d);
    if (slice.reason) return slice.reason;
    const experts::ConvertedExpert converted = experts::converted(*slice);
    for (const layout::Kind kind : layout::kinds) {
      const ByteVector& bytes = experts::bytes_of(converted, kind);
      space.upload(experts::tensor_of(tp, kind).data.get() + expert * bytes.size(), bytes);
    }
  }
  return {};
}

Reason fill_scalars(experts::TpExperts& tp, const EngineInput& input, memory::Space& space) {
  const Result<experts::Scalars> scalars = input.scalars(0, input.experts);
  if (scalars.reason) return scalars.reason;
  for (const experts::Scalar scalar : experts::all_scalars) {
    const std::vector<float>& values = experts::values_of(*scalars, scalar);
    space.upload(
        experts::tensor_of(tp, scalar).data.get(),
        {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(float)});
    space.synchronise();
  }
  return {};
}

}  // namespace

experts::TpExperts reference(const EngineInput& input, group::Group& group) {
  layout::Shape shape = experts::shape_of(input.stock, group.size());
  shape.experts = input.experts;
  Result<experts::TpExperts> tp = reshard::allocated_tp(shape, group.space());
  Reason reason = tp.reason;
  if (!reason) reason = fill(*tp, input, group.rank(), group.space());
  if (!reason) reason = fill_scalars(*tp, input, group.space());
  group.space().synchronise();
  group::refuse_together(group, reason, what);
  return std::move(*tp);
}

}  // namespace slicecheck::engine
