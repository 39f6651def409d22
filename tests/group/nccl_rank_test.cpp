// The group on GPUs: the laws of every group over device memory, and the reshard's bytes equal to
// those of MPI and of threads. On fewer GPUs than ranks the ranks share them. Without a device
// nothing runs, and the program says so: 77.
#include <gtest/gtest.h>

#include <iostream>

#include "experts/payload.h"
#include "group/agree.h"
#include "group/forwarding.h"
#include "group/local/local_group.h"
#include "group/mpi/mpi_group.h"
#include "group/nccl/nccl_group.h"
#include "reshard/reshard.h"
#include "tests/group/conformance.h"

namespace slicecheck::group {
namespace {

struct Ranks {
  Session session;
  std::unique_ptr<Group> mpi = session.world();
  std::unique_ptr<Group> nccl;
  bool share_gpu = false;
};
Ranks* ranks = nullptr;

NcclOptions options(bool share_gpu) {
  const HostPlace place = ranks->session.host_place();
  return {place.rank, place.size, 0, share_gpu, std::chrono::seconds(60)};
}

/// Host bytes through the group's own memory: the laws are written for bytes that they can read.
class Staged final : public ForwardingGroup {
 public:
  explicit Staged(Group& inner) : ForwardingGroup(inner) {}
  explicit Staged(std::unique_ptr<Group> inner)
      : ForwardingGroup(*inner), owned_(std::move(inner)) {}

  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    const std::int64_t bytes = block_bytes * size();
    const auto from = uploaded(sent, bytes);
    const auto to = uploaded(received, bytes);
    inner().all_to_all(to.get(), from.get(), block_bytes);
    download(received, to, bytes);
    download(const_cast<std::uint8_t*>(sent), from, bytes);  // NOLINT: seen to be unchanged
  }

  void all_to_others(std::uint8_t* received, std::uint8_t* sent,
                     std::int64_t block_bytes) override {
    const std::int64_t bytes = block_bytes * size();
    const auto from = uploaded(sent, bytes);
    const auto to = uploaded(received, bytes);
    inner().all_to_others(to.get(), from.get(), block_bytes);
    download(received, to, bytes);
  }

  void exchange(const std::vector<Exchange>& exchanges) override {
    std::vector<std::shared_ptr<std::uint8_t>> kept;
    std::vector<Exchange> there;
    for (const Exchange& each : exchanges) {
      kept.push_back(uploaded(each.sent, each.block_bytes * size()));
      kept.push_back(uploaded(each.received, each.block_bytes * size()));
      there.push_back({kept.back().get(), kept[kept.size() - 2].get(), each.block_bytes});
    }
    inner().exchange(there);
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      download(exchanges[i].received, kept[2 * i + 1], exchanges[i].block_bytes * size());
    }
  }

  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    const auto from = uploaded(sent, block_bytes);
    const auto to = uploaded(received, block_bytes * size());
    inner().all_gather(to.get(), from.get(), block_bytes);
    download(received, to, block_bytes * size());
  }

  void all_gathers(const std::vector<Gather>& gathers) override {
    std::vector<std::shared_ptr<std::uint8_t>> kept;
    std::vector<Gather> there;
    for (const Gather& each : gathers) {
      kept.push_back(uploaded(each.sent, each.block_bytes));
      kept.push_back(uploaded(each.received, each.block_bytes * size()));
      there.push_back({kept.back().get(), kept[kept.size() - 2].get(), each.block_bytes});
    }
    inner().all_gathers(there);
    for (std::size_t i = 0; i < gathers.size(); ++i) {
      download(gathers[i].received, kept[2 * i + 1], gathers[i].block_bytes * size());
    }
  }

  std::unique_ptr<Group> split(int color) override {
    return std::make_unique<Staged>(inner().split(color));
  }

 private:
  std::shared_ptr<std::uint8_t> uploaded(const std::uint8_t* from, std::int64_t bytes) {
    auto made = *space().allocate(bytes, "a staged buffer");
    space().upload(made.get(), {from, static_cast<std::size_t>(bytes)});
    return made;
  }

  void download(std::uint8_t* to, const std::shared_ptr<std::uint8_t>& from, std::int64_t bytes) {
    space().download({to, static_cast<std::size_t>(bytes)}, from.get());
  }

  std::unique_ptr<Group> owned_;
};

class NcclConformance : public testing::TestWithParam<Conformance> {};

TEST_P(NcclConformance, holds) {
  Staged staged(*ranks->nccl);
  GetParam().run(staged);
}

INSTANTIATE_TEST_SUITE_P(Group, NcclConformance, testing::ValuesIn(conformances()),
                         [](const auto& law) { return law.param.name; });

Tensor moved(const Tensor& from, memory::Space& space) {
  Tensor made = from;
  made.data = *space.allocate(from.bytes(), "a stock tensor");
  space.upload(made.data.get(), host_bytes(from));
  return made;
}

experts::StockExperts on_device(const experts::StockExperts& stock, memory::Space& space) {
  experts::StockExperts made = stock;
  for (const auto kind : layout::kinds) {
    tensor_of(made, kind) = moved(tensor_of(stock, kind), space);
  }
  for (const auto scalar : experts::all_scalars) {
    tensor_of(made, scalar) = moved(tensor_of(stock, scalar), space);
  }
  made.a1_gscale = moved(stock.a1_gscale, space);
  made.a2_gscale = moved(stock.a2_gscale, space);
  return made;
}

Tensor back(const Tensor& from, memory::Space& space) {
  Tensor made = host_tensor(from.dtype, from.extents);
  space.download(host_bytes(made), from.data.get());
  return made;
}

bool equal(const Tensor& a, const Tensor& b) {
  const MutableBytes left = host_bytes(a);
  const MutableBytes right = host_bytes(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end());
}

// One case over three transports: every byte of every tensor of every rank.
TEST(Nccl, reshard_gives_the_bytes_of_mpi_and_of_threads) {
  const int size = ranks->mpi->size();
  const layout::Shape shape{2 * size, 640, 192 * size, size};
  for (const layout::PayloadKind kind :
       {layout::PayloadKind::bytes, layout::PayloadKind::numeric}) {
    const layout::Payload payload{kind, 9, 0};
    const int rank = ranks->mpi->rank();
    const experts::StockExperts stock = experts::payload_stock(payload, shape, rank);
    memory::Space& space = ranks->nccl->space();
    const experts::TpExperts by_mpi = reshard::reshard_nvfp4(stock, *ranks->mpi, shape.experts);
    const experts::StockExperts there = on_device(stock, space);
    const experts::TpExperts by_nccl = reshard::reshard_nvfp4(there, *ranks->nccl, shape.experts);
    const experts::TpExperts streamed = reshard::streamed_nvfp4(there, *ranks->nccl, shape.experts);
    experts::TpExperts by_threads;
    run_local({size}, [&](Group& group) {
      const auto own = experts::payload_stock(payload, shape, group.rank());
      auto made = reshard::reshard_nvfp4(own, group, shape.experts);
      if (group.rank() == rank) by_threads = made;
    });
    for (const layout::Kind each : layout::kinds) {
      const Tensor got = back(tensor_of(by_nccl, each), space);
      EXPECT_TRUE(equal(got, tensor_of(by_mpi, each))) << layout::name(each);
      EXPECT_TRUE(equal(got, tensor_of(by_threads, each))) << layout::name(each);
      EXPECT_TRUE(equal(got, back(tensor_of(streamed, each), space))) << layout::name(each);
    }
    for (const experts::Scalar each : experts::all_scalars) {
      const Tensor got = back(tensor_of(by_nccl, each), space);
      EXPECT_TRUE(equal(got, tensor_of(by_mpi, each))) << experts::name(each);
      EXPECT_TRUE(equal(got, tensor_of(by_threads, each))) << experts::name(each);
      EXPECT_TRUE(equal(got, back(tensor_of(streamed, each), space))) << experts::name(each);
    }
  }
}

// A rank whose device is full: all refuse, with the buffer, the bytes wanted and the bytes free.
TEST(Nccl, one_device_out_of_memory_is_refused_by_all) {
  const int size = ranks->mpi->size();
  const layout::Shape shape{size, 128, 64 * size, size};
  memory::Space& space = ranks->nccl->space();
  experts::StockExperts stock =
      on_device(experts::payload_stock({}, shape, ranks->mpi->rank()), space);
  const bool full = ranks->mpi->rank() == size - 1;
  const Reason mine = full ? space.allocate(std::int64_t{1} << 50, "packed w13").reason : Reason();
  std::string caught;
  try {
    refuse_together(*ranks->nccl, mine, "cannot reshard");
  } catch (const Refusal& refusal) {
    caught = refusal.what();
  }
  EXPECT_NE(caught.find("packed w13 wants 1125899906842624 bytes, "), std::string::npos) << caught;
  // The group goes on.
  EXPECT_NO_THROW(reshard::reshard_nvfp4(stock, *ranks->nccl, shape.experts));
}

// The last rank stays away from an all-to-all: the others leave it within the limit, by Lost, and
// the group of processes goes on.
TEST(Nccl, a_rank_that_does_not_come_is_left_within_the_limit) {
  NcclOptions hasty = options(ranks->share_gpu);
  hasty.limit = std::chrono::seconds(3);
  std::unique_ptr<Group> group = nccl_group(*ranks->mpi, hasty);
  const bool away = group->rank() == group->size() - 1;
  std::string caught;
  const auto begun = std::chrono::steady_clock::now();
  if (!away) {
    const auto from = *group->space().allocate(4096 * group->size(), "sent");
    const auto to = *group->space().allocate(4096 * group->size(), "received");
    try {
      group->all_to_all(to.get(), from.get(), 4096);
      group->space().synchronise();
    } catch (const Lost& lost) {
      caught = lost.what();
    }
    EXPECT_NE(caught.find("the all-to-all has not ended within 3000 ms"), std::string::npos)
        << caught;
  }
  const auto waited = std::chrono::steady_clock::now() - begun;
  EXPECT_LT(waited, std::chrono::seconds(10));
  ranks->mpi->least(0);
  group.reset();
  EXPECT_EQ(ranks->mpi->least(ranks->mpi->rank()), 0);
}

// Two ranks on the one GPU of a host are refused, both ranks and the bus id named, unless they are
// told to share it.
TEST(Nccl, ranks_on_one_gpu_are_refused_with_both_named) {
  const auto devices = memory::devices();
  if (devices->size() > 1) return;
  std::string caught;
  try {
    static_cast<void>(nccl_group(*ranks->mpi, options(false)));
  } catch (const Refusal& refusal) {
    caught = refusal.what();
  }
  EXPECT_NE(caught.find("ranks 0 and 1 are on the same GPU, " + devices->front().bus_id),
            std::string::npos)
      << caught;
}

int run() {
  Ranks all;
  ranks = &all;
  const auto devices = memory::devices();
  const bool none = static_cast<bool>(devices.reason) || nccl_version() == 0;
  if (all.mpi->least(none ? 0 : 1) == 0) {
    if (all.mpi->rank() == 0) std::cout << "not run: " << devices.reason.text() << '\n';
    return 77;
  }
  all.share_gpu = all.mpi->size() > static_cast<int>(devices->size());
  all.nccl = nccl_group(*all.mpi, options(all.share_gpu));
  const bool passed = RUN_ALL_TESTS() == 0;
  return all.mpi->least(passed ? 1 : 0) == 1 ? 0 : 1;
}

}  // namespace
}  // namespace slicecheck::group

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return slicecheck::group::run();
}
