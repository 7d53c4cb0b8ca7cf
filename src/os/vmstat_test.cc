#include "os/vmstat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

TEST(Vmstat, ReadsEveryField) {
  FakeRoot fake;
  fake.Write("proc/vmstat",
             "nr_free_pages 99\npgpgin 11\npgpgout 12\npswpin 13\npswpout 14\npgfault 15\n"
             "pgmajfault 16\npgsteal_kswapd 17\npgsteal_direct 18\npgsteal_proactive 19\n"
             "workingset_refault_file 20\nworkingset_refault_anon 21\ndrop_pagecache 22\n"
             "oom_kill 23\n");
  const Result<Vmstat> vmstat = ReadVmstat(fake.Open());
  ASSERT_TRUE(vmstat.ok()) << vmstat.error().message();
  EXPECT_EQ(vmstat->paged_in_bytes, 11 * 1024);
  EXPECT_EQ(vmstat->paged_out_bytes, 12 * 1024);
  EXPECT_EQ(vmstat->swapped_in_pages, 13);
  EXPECT_EQ(vmstat->swapped_out_pages, 14);
  EXPECT_EQ(vmstat->faults, 15);
  EXPECT_EQ(vmstat->major_faults, 16);
  EXPECT_EQ(vmstat->reclaimed_by_kswapd_pages, 17);
  EXPECT_EQ(vmstat->reclaimed_directly_pages, 18);
  EXPECT_EQ(vmstat->reclaimed_proactively_pages, 19);
  EXPECT_EQ(vmstat->refaulted_file_pages, 20);
  EXPECT_EQ(vmstat->refaulted_anonymous_pages, 21);
  EXPECT_EQ(vmstat->cache_drops, 22);
  EXPECT_EQ(vmstat->out_of_memory_kills, 23);
}

TEST(Vmstat, RefusesMissingMalformedAndEmptyFiles) {
  FakeRoot fake;
  EXPECT_EQ(ReadVmstat(fake.Open()).error().code(), ErrorCode::kNotFound);
  for (const char* const bad : {"", "pgpgin some\n", "pgpgin\n"}) {
    fake.Write("proc/vmstat", bad);
    const Result<Vmstat> vmstat = ReadVmstat(fake.Open());
    ASSERT_FALSE(vmstat.ok()) << bad;
    EXPECT_EQ(vmstat.error().code(), ErrorCode::kCorrupt) << bad;
    EXPECT_THAT(vmstat.error().message(), HasSubstr("/proc/vmstat"));
  }
}

TEST(Vmstat, LeavesFieldsEmptyThatAnOlderKernelLacks) {
  FakeRoot fake;
  fake.Write("proc/vmstat", "pgfault 15\n");
  const Result<Vmstat> vmstat = ReadVmstat(fake.Open());
  ASSERT_TRUE(vmstat.ok());
  EXPECT_EQ(vmstat->reclaimed_proactively_pages, std::nullopt);
  EXPECT_EQ(vmstat->paged_in_bytes, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
