#include <fmt/format.h>

#include <array>

#include "group/agree.h"
#include "reshard/reshard.h"
#include "reshard/steps.h"

namespace slicecheck::reshard {
namespace {

using layout::Kind;

/// The smallest first: nothing travels during its pack, and each other one's is waited for only
/// where it takes longer than the exchange before it (two ranks: w2's, by little).
constexpr std::array<Kind, 4> by_size{Kind::w2_sf, Kind::w13_sf, Kind::w2, Kind::w13};

/// A rank's result, and the two packed tensors beside it, used by the kinds in turn: while one
/// travels, the other is packed.
struct Room {
  experts::TpExperts tp;
  std::array<std::shared_ptr<std::uint8_t>, 2> packed;
};

Reason allocate(Room& room, const experts::StockExperts& stock, const layout::Shape& shape,
                memory::Space& space) {
  Result<experts::TpExperts> tp = allocated_tp(shape, space);
  if (tp.reason) return tp.reason;
  room.tp = std::move(*tp);
  for (std::size_t i = 0; i < room.packed.size(); ++i) {
    const Kind largest = by_size[by_size.size() - room.packed.size() + i];
    auto made = space.allocate(experts::tensor_of(stock, largest).bytes(),
                               fmt::format("the packed {}", layout::name(largest)));
    if (made.reason) return made.reason;
    room.packed[i] = *made;
  }
  return {};
}

std::array<Travel, by_size.size()> travels_of(const Room& room, const group::Group& group) {
  std::array<Travel, by_size.size()> made;
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = travel_of(room.tp, by_size[i], room.packed[i % room.packed.size()].get(), group);
  }
  return made;
}

}  // namespace

experts::TpExperts streamed_nvfp4(const experts::StockExperts& stock, group::Group& group,
                                  std::int64_t num_experts) {
  const layout::Shape shape = agreed_shape(stock, group, num_experts);
  memory::Space& space = group.space();
  memory::Space& beside = space.beside();
  Room room;
  group::refuse_together(group, allocate(room, stock, shape, space), refusal);
  beside.wait_for(space);
  const auto travels = travels_of(room, group);
  pack(travels[0], stock, group, beside);
  for (std::size_t i = 0; i < travels.size(); ++i) {
    // This exchange comes after its pack, and the next pack after the exchange before this one,
    // whose packed tensor it takes. It is given first: to give an exchange takes the host a while.
    space.wait_for(beside);
    beside.wait_for(space);
    if (i + 1 < travels.size()) pack(travels[i + 1], stock, group, beside);
    exchange(travels[i], group);
  }
  gather_scalars(room.tp, stock, group);
  space.synchronise();
  return std::move(room.tp);
}

}  // namespace slicecheck::reshard
