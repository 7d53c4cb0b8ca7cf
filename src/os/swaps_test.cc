#include "os/swaps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

constexpr char kHeader[] = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

TEST(Swaps, ReadsEveryArea) {
  FakeRoot fake;
  fake.Write("proc/swaps", std::string(kHeader) +
                               "/dev/zram0    partition\t2048\t512\t100\n"
                               "/swap\\040file  file\t4096\t0\t-2\n");
  const Result<std::vector<SwapArea>> areas = ReadSwaps(fake.Open());
  ASSERT_TRUE(areas.ok()) << areas.error().message();
  ASSERT_EQ(areas->size(), 2);
  EXPECT_EQ((*areas)[0].path, "/dev/zram0");
  EXPECT_EQ((*areas)[0].type, "partition");
  EXPECT_EQ((*areas)[0].size_bytes, 2048 * 1024);
  EXPECT_EQ((*areas)[0].used_bytes, 512 * 1024);
  EXPECT_EQ((*areas)[1].type, "file");
}

TEST(Swaps, IsAnEmptyListWithoutSwap) {
  FakeRoot fake;
  fake.Write("proc/swaps", kHeader);
  const Result<std::vector<SwapArea>> areas = ReadSwaps(fake.Open());
  ASSERT_TRUE(areas.ok());
  EXPECT_TRUE(areas->empty());
}

TEST(Swaps, RefusesMissingMalformedAndEmptyFiles) {
  FakeRoot fake;
  EXPECT_EQ(ReadSwaps(fake.Open()).error().code(), ErrorCode::kNotFound);
  for (const std::string& bad :
       {std::string(), std::string("no header\n"), kHeader + std::string("/dev/zram0 partition 20"),
        kHeader + std::string("/dev/zram0 partition big 1 2\n")}) {
    fake.Write("proc/swaps", bad);
    const Result<std::vector<SwapArea>> areas = ReadSwaps(fake.Open());
    ASSERT_FALSE(areas.ok()) << bad;
    EXPECT_EQ(areas.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(areas.error().message(), HasSubstr("/proc/swaps"));
  }
}

}  // namespace
}  // namespace rouse::os
