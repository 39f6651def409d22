// Which device a rank takes, and what is refused before a communicator is made: no device needed.
#include <gtest/gtest.h>

#include "group/nccl/nccl_group.h"

namespace slicecheck::group {
namespace {

TEST(DeviceOf, is_the_host_ranks_own_and_never_a_remainder) {
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(*device_of({rank, 8}, 8), rank);
  EXPECT_EQ(*device_of({5, 8}, 1), 0);  // the launcher shows each rank one GPU
  const auto none = device_of({4, 8}, 4);
  ASSERT_TRUE(none.reason);
  EXPECT_EQ(none.reason.cause(), "no-device");
  EXPECT_EQ(none.reason.text(), "this host has 8 ranks and 4 GPUs: rank 4 of the host has none");
  EXPECT_EQ(*device_of({5, 8, 0, true}, 4), 1);
}

TEST(SharedGpu, names_both_ranks_and_the_bus_id) {
  EXPECT_FALSE(shared_gpu({{"GPU-a", "0000:01:00.0"}, {"GPU-b", "0000:02:00.0"}}));
  // Another host may have a GPU on the same bus.
  EXPECT_FALSE(shared_gpu({{"GPU-a", "0000:01:00.0"}, {"GPU-b", "0000:01:00.0"}}));
  const Reason twice =
      shared_gpu({{"GPU-a", "0000:01:00.0"}, {"GPU-b", "0000:02:00.0"}, {"GPU-b", "0000:02:00.0"}});
  EXPECT_EQ(twice.text(), "ranks 1 and 2 are on the same GPU, 0000:02:00.0");
  EXPECT_EQ(twice.cause(), "duplicate-gpu");
}

TEST(UnequalVersions, names_the_ranks_of_the_minority) {
  EXPECT_FALSE(unequal_versions({22809, 22809}));
  const Reason apart = unequal_versions({22809, 22403, 22809, 22403, 22809});
  EXPECT_EQ(apart.text(),
            "NCCL versions differ: most ranks have 2.28.9, but ranks 1, 3 have 2.24.3");
  EXPECT_EQ(apart.cause(), "version-skew");
  EXPECT_EQ(unequal_versions({21805, 22809}).text(),
            "NCCL versions differ: most ranks have 2.18.5, but rank 1 has 2.28.9");
  EXPECT_EQ(nccl_version_text(2804), "2.8.4");
}

}  // namespace
}  // namespace slicecheck::group
