#include "base/strings.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

TEST(SplitAt, KeepsEmptyParts) {
  const auto parts = SplitAt("a,,b,", ',');
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[0], "a");
  EXPECT_EQ(parts[1], "");
  EXPECT_EQ(parts[2], "b");
  EXPECT_EQ(parts[3], "");
}

TEST(TrimBlanks, TakesBothEnds) {
  EXPECT_EQ(TrimBlanks(" \t a b \r\n"), "a b");
  EXPECT_EQ(TrimBlanks(" \n "), "");
}

TEST(ParseInt64, TakesOnlyWholeNumbersThatFit) {
  EXPECT_EQ(ParseInt64("-42"), -42);
  EXPECT_EQ(ParseInt64("9223372036854775807"), 9223372036854775807);
  EXPECT_EQ(ParseInt64("9223372036854775808"), std::nullopt);
  EXPECT_EQ(ParseInt64("4x"), std::nullopt);
  EXPECT_EQ(ParseInt64(""), std::nullopt);
}

TEST(IsValidUtf8, RefusesOverlongSurrogateAndCutForms) {
  EXPECT_TRUE(IsValidUtf8("Gr\xC3\xBC\xC3\x9F \xF0\x9F\x8C\x8D"));
  EXPECT_FALSE(IsValidUtf8("\xC0\xAF"));
  EXPECT_FALSE(IsValidUtf8("\xED\xA0\x80"));
  EXPECT_FALSE(IsValidUtf8("\xE2\x82"));
  EXPECT_FALSE(IsValidUtf8("\xF4\x90\x80\x80"));
  EXPECT_FALSE(IsValidUtf8("\x80"));
}

}  // namespace
}  // namespace rouse
