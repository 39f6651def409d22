#include <array>
#include <span>

#include "group/agree.h"
#include "reshard/reshard.h"
#include "reshard/steps.h"

namespace slicecheck::reshard {
namespace {

using layout::Kind;

/// The kinds of each exchange, the smallest first: nothing travels during the first pack, and each
/// other one's is waited for only where it takes longer than the exchange before it. The scales go
/// together: alone they are too small for what a call costs.
constexpr std::array<Kind, 2> scales{Kind::w2_sf, Kind::w13_sf};
constexpr std::array<Kind, 1> second{Kind::w2};
constexpr std::array<Kind, 1> last{Kind::w13};
constexpr std::array<std::span<const Kind>, 3> legs{scales, second, last};

/// A rank's result, and beside it a packed tensor of each kind, in one piece: no kind waits for
/// another's room.
struct Room {
  experts::TpExperts tp;
  std::shared_ptr<std::uint8_t> packed;
};

/// As many bytes as the rank's experts have, whole: each of its slices of all experts.
std::int64_t packed_bytes(const experts::TpExperts& tp) {
  std::int64_t bytes = 0;
  for (const Kind kind : layout::kinds) bytes += experts::tensor_of(tp, kind).bytes();
  return bytes;
}

Reason allocate(Room& room, const layout::Shape& shape, memory::Space& space) {
  Result<experts::TpExperts> tp = allocated_tp(shape, space);
  if (tp.reason) return tp.reason;
  auto packed = space.allocate(packed_bytes(*tp), "the packed experts");
  if (packed.reason) return packed.reason;
  room = {std::move(*tp), std::move(*packed)};
  return {};
}

std::array<std::vector<Travel>, legs.size()> travels_of(const Room& room,
                                                        const group::Group& group) {
  std::array<std::vector<Travel>, legs.size()> made;
  std::uint8_t* packed = room.packed.get();
  for (std::size_t leg = 0; leg < legs.size(); ++leg) {
    for (const Kind kind : legs[leg]) {
      made[leg].push_back(travel_of(room.tp, kind, packed, group));
      packed += experts::tensor_of(room.tp, kind).bytes();
    }
  }
  return made;
}

void pack_all(const std::vector<Travel>& travels, const experts::StockExperts& stock,
              const group::Group& group, memory::Space& lane) {
  for (const Travel& each : travels) pack(each, stock, group, lane);
}

}  // namespace

experts::TpExperts streamed_nvfp4(const experts::StockExperts& stock, group::Group& group,
                                  std::int64_t num_experts) {
  const layout::Shape shape = agreed_shape(stock, group, num_experts);
  memory::Space& space = group.space();
  memory::Space& beside = space.beside();
  Room room;
  group::refuse_together(group, allocate(room, shape, space), refusal);
  beside.wait_for(space);
  const auto travels = travels_of(room, group);
  pack_all(travels[0], stock, group, beside);
  for (std::size_t i = 0; i < travels.size(); ++i) {
    // The exchange waits for its own pack alone. It is given after the next pack: to give an
    // exchange takes the host a while.
    space.wait_for(beside);
    if (i + 1 < travels.size()) pack_all(travels[i + 1], stock, group, beside);
    exchange(travels[i], group);
  }
  gather_scalars(room.tp, stock, group);
  space.synchronise();
  return std::move(room.tp);
}

}  // namespace slicecheck::reshard
