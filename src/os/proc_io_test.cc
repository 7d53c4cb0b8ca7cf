#include "os/proc_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

constexpr char kRight[] =
    "rchar: 1011\nwchar: 1022\nsyscr: 1033\nsyscw: 1044\nread_bytes: 98304\nwrite_bytes: 1066\n"
    "cancelled_write_bytes: 1077\n";

TEST(ProcIo, ReadsEveryField) {
  FakeRoot fake;
  fake.Write("proc/71/io", kRight);
  const Result<ProcIo> io = ReadProcIo(fake.Open(), 71);
  ASSERT_TRUE(io.ok()) << io.error().message();
  EXPECT_EQ(io->read_syscall_bytes, 1011);
  EXPECT_EQ(io->written_syscall_bytes, 1022);
  EXPECT_EQ(io->read_syscalls, 1033);
  EXPECT_EQ(io->write_syscalls, 1044);
  EXPECT_EQ(io->read_bytes, 98304);
  EXPECT_EQ(io->write_bytes, 1066);
  EXPECT_EQ(io->cancelled_write_bytes, 1077);
}

TEST(ProcIo, SaysWhichFileIsMissing) {
  const FakeRoot fake;
  const Result<ProcIo> io = ReadProcIo(fake.Open(), 71);
  ASSERT_FALSE(io.ok());
  EXPECT_EQ(io.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(io.error().message(), HasSubstr("/proc/71/io"));
}

TEST(ProcIo, RefusesWhatIsNoNumberAndNamesTheField) {
  for (const char* const bad : {"read_bytes: many\n", "read_bytes: \n", "read_bytes: -1\n",
                                "read_bytes: 12 34\n", "read_bytes: 99999999999999999999\n"}) {
    FakeRoot fake;
    fake.Write("proc/71/io", bad);
    const Result<ProcIo> io = ReadProcIo(fake.Open(), 71);
    ASSERT_FALSE(io.ok()) << bad;
    EXPECT_EQ(io.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(io.error().message(), HasSubstr("read_bytes"));
  }
}

TEST(ProcIo, RefusesAnEmptyFile) {
  FakeRoot fake;
  fake.Write("proc/71/io", "");
  EXPECT_EQ(ReadProcIo(fake.Open(), 71).error().code(), ErrorCode::kCorrupt);
}

TEST(ProcIo, LeavesAnAbsentFieldEmpty) {
  FakeRoot fake;
  fake.Write("proc/71/io", "rchar: 1011\nsome_new_field: 5\n");
  const Result<ProcIo> io = ReadProcIo(fake.Open(), 71);
  ASSERT_TRUE(io.ok());
  EXPECT_EQ(io->read_syscall_bytes, 1011);
  EXPECT_EQ(io->read_bytes, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
