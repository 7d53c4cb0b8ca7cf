#include "os/mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

TEST(Mounts, ReadsLinesWithAnyNumberOfOptionalFields) {
  FakeRoot fake;
  fake.Write("proc/self/mountinfo",
             "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
             "36 27 0:29 /part /mnt/two\\040words ro shared:1 master:2 - btrfs /dev/sda1 rw\n");
  const Result<std::vector<Mount>> mounts = ReadMounts(fake.Open());
  ASSERT_TRUE(mounts.ok()) << mounts.error().message();
  ASSERT_EQ(mounts->size(), 2);
  EXPECT_EQ((*mounts)[0].device, "254:0");
  EXPECT_EQ((*mounts)[0].mount_point, "/");
  EXPECT_EQ((*mounts)[0].type, "ext4");
  EXPECT_EQ((*mounts)[0].super_options, "rw,discard");
  EXPECT_EQ((*mounts)[1].root, "/part");
  EXPECT_EQ((*mounts)[1].mount_point, "/mnt/two words");
  EXPECT_EQ((*mounts)[1].options, "ro");
  EXPECT_EQ((*mounts)[1].type, "btrfs");
  EXPECT_EQ((*mounts)[1].source, "/dev/sda1");
}

TEST(Mounts, RefusesMissingMalformedAndEmptyFiles) {
  FakeRoot fake;
  EXPECT_EQ(ReadMounts(fake.Open()).error().code(), ErrorCode::kNotFound);
  for (const char* const bad : {"", "27 1 254:0 / /\n", "27 1 254:0 / / rw - ext4\n",
                                "27 1 254:0 / / rw ext4 /dev/vda rw\n"}) {
    fake.Write("proc/self/mountinfo", bad);
    const Result<std::vector<Mount>> mounts = ReadMounts(fake.Open());
    ASSERT_FALSE(mounts.ok()) << bad;
    EXPECT_THAT(mounts.error().message(), HasSubstr("mountinfo"));
  }
}

}  // namespace
}  // namespace rouse::os
