#include <fmt/format.h>

#include <array>

#include "group/agree.h"
#include "reshard/reshard.h"
#include "reshard/steps.h"

namespace slicecheck::reshard {
namespace {

using layout::Kind;

/// The smallest first: only its pack is waited for, each other one takes less time than the
/// exchange before it.
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

}  // namespace

experts::TpExperts streamed_nvfp4(const experts::StockExperts& stock, group::Group& group,
                                  std::int64_t num_experts) {
  const layout::Shape shape = agreed_shape(stock, group, num_experts);
  memory::Space& space = group.space();
  memory::Space& beside = space.beside();
  Room room;
  group::refuse_together(group, allocate(room, stock, shape, space), refusal);
  beside.wait_for(space);
  for (std::size_t i = 0; i < by_size.size(); ++i) {
    const Tensor& local = experts::tensor_of(stock, by_size[i]);
    std::uint8_t* const packed = room.packed[i % room.packed.size()].get();
    std::uint8_t* const received = experts::tensor_of(room.tp, by_size[i]).data.get();
    const std::int64_t block = local.bytes() / group.size();
    beside.pack({packed, group.rank(), received + group.rank() * block}, local.data.get(),
                by_size[i], shape);
    // The first pack runs beside these; they are small.
    if (i == 0) gather_scalars(room.tp, stock, group);
    space.wait_for(beside);
    // The next pack may begin: the exchange that used its tensor is the last that was given.
    beside.wait_for(space);
    group.all_to_others(received, packed, block);
  }
  space.synchronise();
  return std::move(room.tp);
}

}  // namespace slicecheck::reshard
