#include "reshard/reshard.h"

#include "group/agree.h"
#include "reshard/steps.h"

namespace slicecheck::reshard {
namespace {

/// What a rank's result needs, and the one packed tensor beside it: of the largest kind, used by
/// each kind in turn.
struct Room {
  experts::TpExperts tp;
  std::shared_ptr<std::uint8_t> packed;
};

/// Everything that will be written, before anything is: the ranks agree on it once, and no kind
/// waits for the host between two of its steps.
Reason allocate(Room& room, std::int64_t packed_bytes, const layout::Shape& shape,
                memory::Space& space) {
  Result<experts::TpExperts> tp = allocated_tp(shape, space);
  if (tp.reason) return tp.reason;
  auto packed = space.allocate(packed_bytes, "the packed w13");
  if (packed.reason) return packed.reason;
  room = {std::move(*tp), std::move(*packed)};
  return {};
}

}  // namespace

experts::TpExperts reshard_nvfp4(const experts::StockExperts& stock, group::Group& group,
                                 std::int64_t num_experts) {
  const layout::Shape shape = agreed_shape(stock, group, num_experts);
  Room room;
  group::refuse_together(group, allocate(room, stock.w13.bytes(), shape, group.space()), refusal);
  for (const layout::Kind kind : layout::kinds) {
    const Travel travel = travel_of(room.tp, kind, room.packed.get(), group);
    pack(travel, stock, group, group.space());
    exchange({travel}, group);
  }
  gather_scalars(room.tp, stock, group);
  group.space().synchronise();
  return std::move(room.tp);
}

}  // namespace slicecheck::reshard
