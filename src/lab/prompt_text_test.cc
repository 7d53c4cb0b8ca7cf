#include "lab/prompt_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/strings.h"

namespace rouse::lab {
namespace {

int64_t WordsOf(const std::string& text) { return std::ranges::count(text, ' ') + 1; }

TEST(PromptText, HasTheWordsThatWereAskedForAndIsTheSameEveryTime) {
  EXPECT_EQ(PromptText(0), "");
  EXPECT_EQ(PromptText(1), "One");
  for (const int64_t words : {2, 17, 500}) {
    EXPECT_EQ(WordsOf(PromptText(words)), words);
    EXPECT_EQ(PromptText(words), PromptText(words));
  }
  EXPECT_TRUE(PromptText(500).starts_with(PromptText(499)));
}

TEST(PromptText, DoesNotRepeatItsSentences) {
  const std::string text = PromptText(5000);
  std::multiset<std::string_view> sentences;
  for (const std::string_view sentence : SplitAt(text, '.')) sentences.insert(sentence);
  ASSERT_GT(sentences.size(), 200U);
  EXPECT_EQ(std::set(sentences.begin(), sentences.end()).size(), sentences.size());
}

TEST(PromptText, EndsWithTheQuestion) {
  EXPECT_EQ(LongPrompt(0, "Why?"), "Why?");
  EXPECT_EQ(LongPrompt(1, "Why?"), "One\n\nWhy?");
}

// A server of 35 tokens of template and 1.4 a word.
struct Counter {
  PromptLengths::Count Count() {
    return [this](int64_t words) -> Result<std::optional<int64_t>> {
      asked.push_back(words);
      return std::optional<int64_t>(35 + words * 14 / 10);
    };
  }
  std::vector<int64_t> asked;
};

TEST(PromptLengths, FindsTheWordsBySecantsAndRemembersThem) {
  PromptLengths lengths;
  Counter counter;
  for (const int64_t wanted : {64, 512, 100, 4096}) {
    const Result<PromptLengths::Found> found = lengths.Find(wanted, counter.Count());
    ASSERT_TRUE(found.ok());
    EXPECT_NEAR(static_cast<double>(*found->tokens), static_cast<double>(wanted),
                static_cast<double>(std::max<int64_t>(1, PromptTolerance(wanted) / 4)));
  }
  const size_t asked = counter.asked.size();
  EXPECT_LE(asked, 10U);
  EXPECT_TRUE(lengths.Find(512, counter.Count()).ok());
  EXPECT_EQ(counter.asked.size(), asked);
}

TEST(PromptLengths, RefusesALengthBelowThatOfTheQuestionAlone) {
  PromptLengths lengths;
  Counter counter;
  const Result<PromptLengths::Found> found = lengths.Find(16, counter.Count());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message(),
            "even the question alone has 35 tokens with its template, more than 16");
}

TEST(PromptLengths, TakesWhatEnglishNeedsWhenTheServerDoesNotCount) {
  PromptLengths lengths;
  const Result<PromptLengths::Found> found = lengths.Find(
      300, [](int64_t) -> Result<std::optional<int64_t>> { return std::optional<int64_t>(); });
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->tokens.has_value());
  EXPECT_EQ(found->words, 200);
}

TEST(PromptLengths, PassesTheErrorOfACountOn) {
  PromptLengths lengths;
  const Result<PromptLengths::Found> found =
      lengths.Find(300, [](int64_t) -> Result<std::optional<int64_t>> {
        return Error(ErrorCode::kState, "it died");
      });
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message(), "it died");
}

// A server whose counts jump: what comes nearest is taken, and it ends.
TEST(PromptLengths, EndsWithTheNearestWhenNoNumberOfWordsIsRight) {
  PromptLengths lengths;
  int asked = 0;
  const Result<PromptLengths::Found> found =
      lengths.Find(150, [&asked](int64_t words) -> Result<std::optional<int64_t>> {
        ++asked;
        return std::optional<int64_t>(words < 90 ? 100 : 220);
      });
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->tokens, 100);
  EXPECT_LE(asked, 8);
}

}  // namespace
}  // namespace rouse::lab
