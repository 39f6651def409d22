// The conformance suite over device memory. Without a device nothing runs, and the test says
// so: 77.
#include <gtest/gtest.h>

#include <iostream>

#include "memory/cuda/device.h"
#include "tests/memory/spaces.h"

namespace slicecheck::memory {

std::unique_ptr<Space> space_under_test() {
  auto made = device_space(0);
  if (made.reason) return nullptr;
  return std::move(*made);
}

namespace {

TEST(Devices, a_list_names_each_device_and_its_memory) {
  const auto all = devices();
  ASSERT_FALSE(all.reason);
  for (const Device& device : *all) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_EQ(device.bus_id.size(), 12U) << device.bus_id;
    EXPECT_EQ(device.uuid.size(), 40U) << device.uuid;
    EXPECT_GT(device.free_bytes, 0);
    EXPECT_LE(device.free_bytes, device.memory_bytes);
    EXPECT_GE(device.major, 8);
  }
  const auto none = device_space(static_cast<int>(all->size()));
  ASSERT_TRUE(none.reason);
  EXPECT_EQ(none.reason.cause(), "no-device");
}

// The device moves the same bytes as the host: tensors that are larger than one wave of blocks.
TEST(Devices, large_tensors_have_the_hosts_bytes) {
  const auto device = space_under_test();
  const auto host = host_space();
  const layout::Shape shape{8, 2048, 1536, 4};
  for (const layout::Kind kind : layout::kinds) {
    const PayloadTensor stock{{}, kind, layout::stock_widths(shape), 1, 0, 6, 2};
    const std::int64_t bytes = 2 * stock.expert_bytes();
    const auto on_device = *device->allocate(bytes, "stock");
    const auto packed = *device->allocate(bytes, "packed");
    const auto expected = *host->allocate(bytes, "stock");
    const auto due = *host->allocate(bytes, "packed");
    device->fill_payload(on_device.get(), stock);
    device->pack(packed.get(), on_device.get(), kind, shape);
    host->fill_payload(expected.get(), stock);
    host->pack(due.get(), expected.get(), kind, shape);
    ByteVector got(bytes);
    device->download(got, packed.get());
    EXPECT_EQ(host->compare(got.data(), due.get(), bytes), Difference{}) << layout::name(kind);
    // By half of the device: a block moves several stretches of the weights.
    device->fill(packed.get(), 0xA5, bytes);
    device->beside().wait_for(*device);
    device->beside().pack(packed.get(), on_device.get(), kind, shape);
    device->wait_for(device->beside());
    device->download(got, packed.get());
    EXPECT_EQ(host->compare(got.data(), due.get(), bytes), Difference{}) << layout::name(kind);
  }
}

}  // namespace
}  // namespace slicecheck::memory

int main(int argc, char** argv) {
  const auto device = slicecheck::memory::device_space(0);
  if (device.reason) {
    std::cout << "not run: " << device.reason.text() << '\n';
    return 77;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
