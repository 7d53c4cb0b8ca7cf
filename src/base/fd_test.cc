#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace rouse {
namespace {

TEST(Fd, ClosesOnceAndMoves) {
  Fd first = OpenFile("/dev/null", O_RDONLY).value();
  const int number = first.get();
  Fd second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_EQ(second.get(), number);
  second.Reset();
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST(ReadSmallFile, ReadsProcfsFilesWhoseSizeIsZero) {
  const auto text = ReadSmallFile("/proc/self/stat");
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(text->starts_with(std::to_string(getpid()) + " "));
}

TEST(ReadSmallFile, NamesTheFileThatIsMissing) {
  const auto text = ReadSmallFile("/no/such/file");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(text.error().message().find("/no/such/file"), std::string::npos);
}

TEST(ReadSmallFile, RefusesMoreThanItsLimit) {
  const auto text = ReadSmallFile("/proc/self/status", 10);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code(), ErrorCode::kCorrupt);
}

TEST(WriteAll, SaysThatTheDiskIsFull) {
  const Fd full = OpenFile("/dev/full", O_WRONLY).value();
  const Status status = WriteAll(full.get(), "x");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("No space left"), std::string::npos);
}

}  // namespace
}  // namespace rouse
