#include "os/free_page_reporting.h"

#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

TEST(FreePageReporting, IsABitOfTheBalloonsFeatures) {
  FakeRoot fake;
  EXPECT_EQ(ReadFreePageReporting(fake.Open()), std::nullopt);
  fake.Write("sys/bus/virtio/devices/virtio0/device", "0x0002\n");
  fake.Write("sys/bus/virtio/devices/virtio0/features", "1111111111\n");
  EXPECT_EQ(ReadFreePageReporting(fake.Open()), false) << "a disk's bit 5 is another thing";
  fake.Write("sys/bus/virtio/devices/virtio1/device", "0x0005\n");
  EXPECT_EQ(ReadFreePageReporting(fake.Open()), false) << "no features to read";
  fake.Write("sys/bus/virtio/devices/virtio1/features", "0110000100\n");
  EXPECT_EQ(ReadFreePageReporting(fake.Open()), false);
  fake.Write("sys/bus/virtio/devices/virtio1/features", "0110010100\n");
  EXPECT_EQ(ReadFreePageReporting(fake.Open()), true);
}

}  // namespace
}  // namespace rouse::os
