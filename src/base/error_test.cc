#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "base/result.h"

namespace rouse {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Error(ErrorCode::kUsage, "odd");
  return value / 2;
}

Result<std::string> QuarterText(int value) {
  ASSIGN_OR_RETURN(const int half, Half(value));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return std::to_string(quarter);
}

Status NeedsEven(int value) {
  RETURN_IF_ERROR(Half(value));
  return {};
}

TEST(Error, MapsErrnoToACodeAndKeepsTheReason) {
  EXPECT_EQ(Error::FromErrno(ENOENT, "cannot open x").code(), ErrorCode::kNotFound);
  EXPECT_EQ(Error::FromErrno(EACCES, "x").code(), ErrorCode::kPermission);
  EXPECT_EQ(Error::FromErrno(ENOSPC, "x").code(), ErrorCode::kIo);
  EXPECT_EQ(Error::FromErrno(ENOENT, "cannot open x").message(),
            "cannot open x: No such file or directory");
}

TEST(Error, ExitStatusFollowsTheCode) {
  EXPECT_EQ(ExitStatus(Error(ErrorCode::kUsage, "")), 2);
  EXPECT_EQ(ExitStatus(Error(ErrorCode::kInterrupted, "")), 130);
  EXPECT_EQ(ExitStatus(Error(ErrorCode::kState, "")), 3);
  EXPECT_EQ(ExitStatus(Error(ErrorCode::kIo, "")), 3);
}

TEST(Error, ContextStandsInFront) {
  EXPECT_EQ(Error(ErrorCode::kIo, "b").WithContext("a").message(), "a: b");
}

TEST(Result, MacrosReturnTheFirstError) {
  EXPECT_EQ(QuarterText(12).value(), "3");
  EXPECT_EQ(QuarterText(6).error().message(), "odd");
  EXPECT_TRUE(NeedsEven(2).ok());
  EXPECT_FALSE(NeedsEven(3).ok());
}

TEST(ResultDeathTest, AskingForTheValueOfAnErrorAborts) {
  EXPECT_DEATH((void)Half(1).value(), "internal error at .*result.h");
}

}  // namespace
}  // namespace rouse
