#include <algorithm>

#include "properties/planted.h"

namespace slicecheck::properties {
namespace {

using experts::StockExperts;
using experts::TpExperts;

// A group that does as another one does; what is wrong with it is in what derives from it.
class Passing : public group::Group {
 public:
  explicit Passing(group::Group& to) : to_(to) {}
  int rank() const override { return to_.rank(); }
  int size() const override { return to_.size(); }
  std::string_view name() const override { return to_.name(); }
  memory::Space& space() override { return to_.space(); }
  std::int64_t least(std::int64_t value) override { return to_.least(value); }
  void share(Bytes mine, MutableBytes all) override { to_.share(mine, all); }
  void broadcast(MutableBytes bytes, int root) override { to_.broadcast(bytes, root); }
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    to_.all_to_all(received, sent, block_bytes);
  }
  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    to_.all_gather(received, sent, block_bytes);
  }
  std::unique_ptr<group::Group> split(int color) override { return to_.split(color); }

 protected:
  // Blocks of a buffer, each moved `by` places on.
  ByteVector rotated(const std::uint8_t* bytes, std::int64_t block_bytes) const {
    ByteVector made(bytes, bytes + block_bytes * to_.size());
    std::rotate(made.begin(), made.begin() + block_bytes, made.end());
    return made;
  }

  group::Group& to_;
};

// Sends block d + 1 to rank d.
class SendOrder final : public Passing {
 public:
  using Passing::Passing;
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    to_.all_to_all(received, rotated(sent, block_bytes).data(), block_bytes);
  }
};

// Receives blocks in another order than that of the ranks.
class ReceiveOrder final : public Passing {
 public:
  using Passing::Passing;
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    to_.all_to_all(received, sent, block_bytes);
    const ByteVector other = rotated(received, block_bytes);
    std::copy(other.begin(), other.end(), received);
  }
};

// Packs the two halves of each block in the wrong order.
class Pack final : public Passing {
 public:
  using Passing::Passing;
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    ByteVector packed(sent, sent + block_bytes * to_.size());
    for (auto at = packed.begin(); at != packed.end(); at += block_bytes) {
      std::rotate(at, at + block_bytes / 2, at + block_bytes);
    }
    to_.all_to_all(received, packed.data(), block_bytes);
  }
};

// Gathers in another order than that of the ranks.
class GatherOrder final : public Passing {
 public:
  using Passing::Passing;
  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    to_.all_gather(received, sent, block_bytes);
    const ByteVector other = rotated(received, block_bytes);
    std::copy(other.begin(), other.end(), received);
  }
};

// Gathers nothing: every rank's own values in every place.
class GatherOwn final : public Passing {
 public:
  using Passing::Passing;
  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    for (int rank = 0; rank < size(); ++rank) {
      std::copy(sent, sent + block_bytes, received + rank * block_bytes);
    }
  }
};

// Sends what it was given the last time, as far as that goes.
class StaleBytes final : public Passing {
 public:
  using Passing::Passing;
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    ByteVector packed(sent, sent + block_bytes * to_.size());
    const std::size_t lost = std::min(packed.size(), before_.size());
    std::copy_n(before_.begin(), lost, packed.begin());
    to_.all_to_all(received, packed.data(), block_bytes);
    before_.assign(sent, sent + block_bytes * to_.size());
  }

 private:
  ByteVector before_;
};

template <typename Wrong, auto way = reshard::reshard_nvfp4>
TpExperts over(const StockExperts& stock, group::Group& group, std::int64_t experts) {
  Wrong wrong(group);
  return way(stock, wrong, experts);
}

TpExperts one_ulp_more(const StockExperts& stock, group::Group& group, std::int64_t experts) {
  TpExperts made = reshard::reshard_nvfp4(stock, group, experts);
  ++made.g1_scale_c.data.get()[0];
  return made;
}

TpExperts stock_spoilt(const StockExperts& stock, group::Group& group, std::int64_t experts) {
  TpExperts made = reshard::reshard_nvfp4(stock, group, experts);
  if (group.rank() + 1 == group.size()) ++stock.w2_sf.data.get()[0];
  return made;
}

// The seed's own words for the ranks that have no reason themselves.
TpExperts another_rank_refused(const StockExperts& stock, group::Group& group,
                               std::int64_t experts) {
  try {
    return reshard::reshard_nvfp4(stock, group, experts);
  } catch (const group::Refusal& refusal) {
    if (refusal.agreed().reasons.front().rank == group.rank()) throw;
  }
  group::Agreed other;
  other.reasons.push_back({0, Reason("another rank refused")});
  throw group::Refusal("Expert TP cannot reshard the stock experts: another rank refused", other);
}

// A global scale that differs is taken for the first rank's.
TpExperts scales_not_compared(const StockExperts& stock, group::Group& group,
                              std::int64_t experts) {
  StockExperts same = stock;
  same.a1_gscale = host_floats({256.0F});
  same.a2_gscale = host_floats({16.0F});
  return reshard::reshard_nvfp4(same, group, experts);
}

TpExperts every_rank_taken_for_linear(const StockExperts& stock, group::Group& group,
                                      std::int64_t experts) {
  StockExperts same = stock;
  same.first_expert = group.rank() * experts / group.size();
  return reshard::reshard_nvfp4(same, group, experts);
}

// An expert that is not the next one's neighbour is seen, one that lies on another rank is not.
TpExperts multiples_taken_for_linear(const StockExperts& stock, group::Group& group,
                                     std::int64_t experts) {
  const std::int64_t held = experts / group.size();
  StockExperts same = stock;
  if (same.first_expert % held == 0) same.first_expert = group.rank() * held;
  return reshard::reshard_nvfp4(same, group, experts);
}

group::Agreed own_reason_only(group::Group& group, const Reason& mine) {
  group::Agreed agreed = group::agree(group, mine);
  if (agreed && mine) agreed.reasons = {{group.rank(), mine}};
  return agreed;
}

group::Agreed highest_rank_first(group::Group& group, const Reason& mine) {
  group::Agreed agreed = group::agree(group, mine);
  std::reverse(agreed.reasons.begin(), agreed.reasons.end());
  return agreed;
}

template <typename Wrong>
void all_to_all_over(group::Group& group, std::uint8_t* received, const std::uint8_t* sent,
                     std::int64_t block_bytes) {
  Wrong(group).all_to_all(received, sent, block_bytes);
}

template <typename Wrong>
void all_gather_over(group::Group& group, std::uint8_t* received, const std::uint8_t* sent,
                     std::int64_t block_bytes) {
  Wrong(group).all_gather(received, sent, block_bytes);
}

Planted of_reshard(std::string name, std::string law, decltype(Subject::reshard) wrong) {
  Planted made{std::move(name), "Reshard." + std::move(law), Subject()};
  made.subject.reshard = wrong;
  return made;
}

Planted of_streamed(std::string name, decltype(Subject::streamed) wrong) {
  Planted made{std::move(name), "Reshard.equals_the_conversion_of_the_slice", Subject()};
  made.subject.streamed = wrong;
  return made;
}

Planted of_agree(std::string name, decltype(Subject::agree) wrong) {
  Planted made{std::move(name), "Agree.all_refuse_with_the_lowest_rank_s_sentence", Subject()};
  made.subject.agree = wrong;
  return made;
}

Planted of_all_to_all(std::string name, decltype(Subject::all_to_all) wrong) {
  Planted made{std::move(name), "Group.all_to_all_brings_block_r_of_every_rank", Subject()};
  made.subject.all_to_all = wrong;
  return made;
}

Planted of_all_gather(std::string name, decltype(Subject::all_gather) wrong) {
  Planted made{std::move(name), "Group.all_gather_brings_every_rank_in_order", Subject()};
  made.subject.all_gather = wrong;
  return made;
}

}  // namespace

std::vector<Planted> planted_groups() {
  const std::string slices = "equals_the_conversion_of_the_slice";
  const std::string scalars = "scalars_arrive_in_expert_order_with_their_bits";
  const std::string refusals = "a_refusal_is_all_ranks_with_one_sentence";
  const std::string placements = "experts_that_are_not_linear_are_refused_by_all_ranks";
  return {
      of_reshard("slices sent to the rank before", slices, over<SendOrder>),
      of_reshard("experts received in another order", slices, over<ReceiveOrder>),
      of_reshard("runs packed in another order", slices, over<Pack>),
      of_reshard("the stock changed on the last rank", slices, stock_spoilt),
      of_streamed("streamed slices sent to the rank before",
                  over<SendOrder, reshard::streamed_nvfp4>),
      of_streamed("streamed bytes of the kind before", over<StaleBytes, reshard::streamed_nvfp4>),
      of_reshard("scalars gathered in another order", scalars, over<GatherOrder>),
      of_reshard("scalars not gathered", scalars, over<GatherOwn>),
      of_reshard("a scalar one ulp more", scalars, one_ulp_more),
      of_reshard("another rank's words", refusals, another_rank_refused),
      of_reshard("global scales not compared", refusals, scales_not_compared),
      of_reshard("every rank taken for linear", placements, every_rank_taken_for_linear),
      of_reshard("experts of another rank taken for linear", placements,
                 multiples_taken_for_linear),
      of_agree("each rank with its own sentence", own_reason_only),
      of_agree("the highest rank's sentence", highest_rank_first),
      of_all_to_all("blocks sent to the rank before", all_to_all_over<SendOrder>),
      of_all_to_all("blocks received in another order", all_to_all_over<ReceiveOrder>),
      of_all_gather("blocks gathered in another order", all_gather_over<GatherOrder>),
      of_all_gather("blocks not gathered", all_gather_over<GatherOwn>),
  };
}

}  // namespace slicecheck::properties
