#include "os/block_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

using testing::ElementsAre;

void WriteDisk(FakeRoot& fake) {
  const std::string disk = "sys/devices/pci0/nvme/nvme0n1";
  fake.Link("sys/dev/block/259:0", "../../devices/pci0/nvme/nvme0n1");
  fake.Link("sys/dev/block/259:2", "../../devices/pci0/nvme/nvme0n1/nvme0n1p2");
  fake.Write(disk + "/nvme0n1p2/partition", "2\n").Write(disk + "/nvme0n1p2/size", "7\n");
  fake.Write(disk + "/size", "1001\n").Write(disk + "/device/model", "Fast Disk 1 TB  \n");
  fake.Write(disk + "/queue/rotational", "0\n").Write(disk + "/queue/read_ahead_kb", "128\n");
  fake.Write(disk + "/queue/scheduler", "[none] mq-deadline kyber\n");
  fake.Write(disk + "/queue/max_sectors_kb", "256\n").Write(disk + "/queue/nr_requests", "1023\n");
  fake.Write(disk + "/mq/0/cpu_list", "0\n").Write(disk + "/mq/1/cpu_list", "1\n");
  fake.Write(disk + "/device/power/runtime_status", "active\n");
  fake.Write(disk + "/device/power/control", "auto\n");
}

TEST(BlockDevice, ReadsTheWholeDeviceOfAPartition) {
  FakeRoot fake;
  WriteDisk(fake);
  const Result<BlockDevice> device = ReadBlockDevice(fake.Open(), 259, 2);
  ASSERT_TRUE(device.ok()) << device.error().message();
  EXPECT_EQ(device->name, "nvme0n1");
  EXPECT_EQ(device->partition, "nvme0n1p2");
  EXPECT_EQ(device->model, "Fast Disk 1 TB");
  EXPECT_EQ(device->size_bytes, 1001 * 512);
  EXPECT_EQ(device->rotational, false);
  EXPECT_EQ(device->scheduler, "none");
  EXPECT_EQ(device->read_ahead_bytes, 128 * 1024);
  EXPECT_EQ(device->largest_request_bytes, 256 * 1024);
  EXPECT_EQ(device->queue_depth, 1023);
  EXPECT_EQ(device->hardware_queues, 2);
  EXPECT_EQ(device->runtime_status, "active");
  EXPECT_EQ(device->runtime_control, "auto");
  EXPECT_EQ(ReadBlockDevice(fake.Open(), 259, 0)->partition, "");
}

TEST(BlockDevice, ListsWhatAMappedDeviceStandsOn) {
  FakeRoot fake;
  fake.Link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
  fake.Write("sys/devices/virtual/block/dm-0/size", "8\n");
  fake.Write("sys/devices/virtual/block/dm-0/slaves/nvme0n1/x", "");
  const Result<BlockDevice> device = ReadBlockDevice(fake.Open(), 253, 0);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device->name, "dm-0");
  EXPECT_THAT(device->below, ElementsAre("nvme0n1"));
  EXPECT_EQ(device->model, std::nullopt);
  EXPECT_EQ(device->rotational, std::nullopt);
}

TEST(BlockDevice, LeavesMalformedAndEmptyFilesEmpty) {
  FakeRoot fake;
  WriteDisk(fake);
  const std::string disk = "sys/devices/pci0/nvme/nvme0n1";
  fake.Write(disk + "/queue/rotational", "maybe\n").Write(disk + "/device/model", "\n");
  fake.Write(disk + "/queue/scheduler", "");
  const Result<BlockDevice> device = ReadBlockDevice(fake.Open(), 259, 0);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(device->rotational, std::nullopt);
  EXPECT_EQ(device->model, std::nullopt);
  EXPECT_EQ(device->scheduler, std::nullopt);
}

TEST(BlockDevice, SaysThatThereIsNoSuchDevice) {
  const FakeRoot fake;
  const Result<BlockDevice> device = ReadBlockDevice(fake.Open(), 8, 1);
  EXPECT_EQ(device.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(device.error().message(), HasSubstr("8:1"));
}

TEST(Storage, FindsTheMountOfAPath) {
  FakeRoot fake;
  fake.Write("proc/self/mountinfo",
             "27 1 0:1 / / rw - ext4 /dev/root rw\n"
             "28 1 0:2 / /usr rw,noatime - xfs /dev/usr rw\n"
             "29 1 0:3 / /us ro - vfat /dev/us rw\n");
  const Result<Storage> storage = ReadStorage(fake.Open(), "/usr/bin");
  ASSERT_TRUE(storage.ok());
  EXPECT_EQ(storage->file_system, "xfs");
  EXPECT_EQ(storage->mount_point, "/usr");
  EXPECT_EQ(storage->mount_options, "rw,noatime");
}

TEST(Storage, KnowsThisMachinesOwnDisk) {
  const Result<Storage> storage = ReadStorage(ProcRoot::Real(), "/usr/bin/env");
  ASSERT_TRUE(storage.ok());
  EXPECT_FALSE(storage->file_system.empty());
  EXPECT_NE(storage->device.has_value(), !storage->no_device_reason.empty());
}

TEST(Storage, SaysThatTheFileIsMissing) {
  EXPECT_EQ(ReadStorage(ProcRoot::Real(), "/nonexistent/m.gguf").error().code(),
            ErrorCode::kNotFound);
}

TEST(Storage, SaysWhyMemoryFileSystemsHaveNoDevice) {
  const Result<Storage> storage = ReadStorage(ProcRoot::Real(), "/dev/shm");
  ASSERT_TRUE(storage.ok());
  EXPECT_FALSE(storage->device.has_value());
  EXPECT_THAT(storage->no_device_reason, HasSubstr("no block device"));
}

}  // namespace
}  // namespace rouse::os
