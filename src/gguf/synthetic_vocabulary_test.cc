#include "gguf/synthetic_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace rouse::gguf {
namespace {

TEST(MakeVocabulary, HasTheSizeAskedForAndNoTokenTwice) {
  const SyntheticVocabulary vocabulary = MakeVocabulary(32'000, 1);
  EXPECT_EQ(vocabulary.tokens.size(), 32'000U);
  EXPECT_EQ(vocabulary.types.size(), 32'000U);
  const std::set<std::string> distinct(vocabulary.tokens.begin(), vocabulary.tokens.end());
  EXPECT_EQ(distinct.size(), 32'000U);
}

TEST(MakeVocabulary, HasEveryByteAsGpt2WritesIt) {
  const SyntheticVocabulary vocabulary = MakeVocabulary(2000, 1);
  const std::set<std::string> tokens(vocabulary.tokens.begin(), vocabulary.tokens.begin() + 256);
  EXPECT_EQ(tokens.size(), 256U);
  EXPECT_EQ(vocabulary.tokens[0], "!");
  EXPECT_EQ(vocabulary.tokens[187], "\u00ff");
  EXPECT_EQ(vocabulary.tokens[188], "\u0100");  // byte 0
  EXPECT_TRUE(tokens.contains("\u0120"));       // the space
  EXPECT_TRUE(tokens.contains("\u010a"));       // the line feed
  EXPECT_EQ(vocabulary.tokens[255], "\u0143");  // the soft hyphen, the last of them
}

TEST(MakeVocabulary, EveryMergeJoinsTwoTokensToAThirdAndEveryMergedTokenHasOne) {
  const SyntheticVocabulary vocabulary = MakeVocabulary(20'000, 7);
  const std::set<std::string> tokens(vocabulary.tokens.begin(), vocabulary.tokens.end());
  std::set<std::string> made;
  for (const std::string& merge : vocabulary.merges) {
    const size_t space = merge.find(' ');
    ASSERT_NE(space, std::string::npos);
    const std::string left = merge.substr(0, space);
    const std::string right = merge.substr(space + 1);
    ASSERT_EQ(right.find(' '), std::string::npos);
    ASSERT_TRUE(tokens.contains(left)) << merge;
    ASSERT_TRUE(tokens.contains(right)) << merge;
    ASSERT_TRUE(tokens.contains(left + right)) << merge;
    made.insert(left + right);
  }
  EXPECT_EQ(made.size(), 20'000U - 256 - 256);  // all but byte and special tokens
}

TEST(MakeVocabulary, MarksSpecialTokensAsControlAndPointsAtThem) {
  const SyntheticVocabulary vocabulary = MakeVocabulary(2000, 1);
  EXPECT_EQ(std::ranges::count(vocabulary.types, 3), 256);
  EXPECT_EQ(vocabulary.tokens[vocabulary.begin_id], "<|begin_of_text|>");
  EXPECT_EQ(vocabulary.tokens[vocabulary.end_of_text_id], "<|endoftext|>");
  EXPECT_EQ(vocabulary.tokens[vocabulary.end_of_turn_id], "<|im_end|>");
  EXPECT_EQ(vocabulary.types[vocabulary.end_of_turn_id], 3);
}

TEST(MakeVocabulary, DependsOnTheSeedAlone) {
  EXPECT_EQ(MakeVocabulary(3000, 5).tokens, MakeVocabulary(3000, 5).tokens);
  EXPECT_NE(MakeVocabulary(3000, 5).tokens, MakeVocabulary(3000, 6).tokens);
}

}  // namespace
}  // namespace rouse::gguf
