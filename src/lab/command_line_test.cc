#include "lab/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::lab {
namespace {

using testing::ElementsAre;

TEST(SplitCommand, SeparatesAtBlanksAndKeepsWhatIsQuoted) {
  EXPECT_THAT(*SplitCommand("  my-server --port {port}\t-m 'a b' \"c 'd'\" e\\ f '' "),
              ElementsAre("my-server", "--port", "{port}", "-m", "a b", "c 'd'", "e f", ""));
  EXPECT_THAT(*SplitCommand("a'b'c"), ElementsAre("abc"));
  EXPECT_THAT(*SplitCommand("'a\\b'"), ElementsAre("a\\b"));
}

TEST(SplitCommand, HasNoShell) {
  EXPECT_THAT(*SplitCommand("x $HOME *.gguf | y > z"),
              ElementsAre("x", "$HOME", "*.gguf", "|", "y", ">", "z"));
}

TEST(SplitCommand, RefusesOpenQuotesTrailingBackslashesAndNothing) {
  for (const char* const text : {"a 'b", "a \"b", "a\\", "", "  "}) {
    const Result<std::vector<std::string>> words = SplitCommand(text);
    ASSERT_FALSE(words.ok()) << text;
    EXPECT_EQ(words.error().code(), ErrorCode::kUsage);
  }
}

TEST(ReplaceAll, ReplacesEveryPlaceAndDoesNotLookAtWhatItPutIn) {
  EXPECT_EQ(ReplaceAll("{p}-{p}", "{p}", "{p}{p}"), "{p}{p}-{p}{p}");
  EXPECT_EQ(ReplaceAll("none", "{p}", "x"), "none");
}

}  // namespace
}  // namespace rouse::lab
