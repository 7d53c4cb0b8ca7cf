#include "os/boot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

TEST(Boot, ReadsIdAndUptime) {
  FakeRoot fake;
  fake.Write("proc/uptime", "1570.52 1625.91\n");
  fake.Write("proc/sys/kernel/random/boot_id", "4e2aea9c-192a-43c3-91ec-7f2ff61f9905\n");
  const Result<Boot> boot = ReadBoot(fake.Open());
  ASSERT_TRUE(boot.ok()) << boot.error().message();
  EXPECT_EQ(boot->id, "4e2aea9c-192a-43c3-91ec-7f2ff61f9905");
  EXPECT_EQ(boot->uptime_ns, 1'570'520'000'000);
}

TEST(Boot, LeavesWhatIsMissingEmpty) {
  FakeRoot fake;
  fake.Write("proc/uptime", "1570.52 1625.91\n");
  EXPECT_EQ(ReadBoot(fake.Open())->id, std::nullopt);
  fake.Remove("proc/uptime");
  EXPECT_EQ(ReadBoot(fake.Open()).error().code(), ErrorCode::kNotFound);
  fake.Write("proc/sys/kernel/random/boot_id", "4e2a\n");
  EXPECT_EQ(ReadBoot(fake.Open())->uptime_ns, std::nullopt);
}

TEST(Boot, RefusesMalformedAndEmptyFiles) {
  for (const char* const bad : {"", "\n", "long 1625.91\n", "-1 2\n", "inf 1\n"}) {
    FakeRoot fake;
    fake.Write("proc/uptime", bad);
    const Result<Boot> boot = ReadBoot(fake.Open());
    ASSERT_FALSE(boot.ok()) << bad;
    EXPECT_EQ(boot.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(boot.error().message(), HasSubstr("/proc/uptime"));
  }
}

}  // namespace
}  // namespace rouse::os
