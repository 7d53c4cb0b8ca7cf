#include "engine/prefix_shelf.h"

#include <gtest/gtest.h>

namespace rouse::engine {
namespace {

KeptPrefix Prefix(std::vector<Token> tokens, size_t bytes) {
  return {std::move(tokens), std::vector<std::byte>(bytes)};
}

TEST(PrefixShelf, FindsTheLongestCommonBeginning) {
  PrefixShelf shelf(1000);
  shelf.Put(Prefix({1, 2, 3}, 10));
  shelf.Put(Prefix({1, 2, 4, 5}, 20));
  shelf.Put(Prefix({7}, 30));
  const std::vector<Token> prompt = {1, 2, 4, 9};
  ASSERT_NE(shelf.Find(prompt, 0), nullptr);
  EXPECT_EQ(shelf.Find(prompt, 0)->state.size(), 20U);
  EXPECT_EQ(shelf.Find(prompt, 3), nullptr) << "what is at hand already is as long";
  EXPECT_EQ(shelf.Find(std::vector<Token>{2, 1}, 0), nullptr);
}

TEST(PrefixShelf, LetsTheOldestUsedGoWhenTheBoundIsReached) {
  PrefixShelf shelf(100);
  shelf.Put(Prefix({1}, 40));
  shelf.Put(Prefix({2}, 40));
  ASSERT_NE(shelf.Find(std::vector<Token>{1, 9}, 0), nullptr);  // now 2 is the oldest
  shelf.Put(Prefix({3}, 40));
  EXPECT_EQ(shelf.count(), 2);
  EXPECT_LE(shelf.bytes(), 100);
  EXPECT_NE(shelf.Find(std::vector<Token>{1}, 0), nullptr);
  EXPECT_EQ(shelf.Find(std::vector<Token>{2}, 0), nullptr);
}

TEST(PrefixShelf, KeepsALongerOneInsteadOfItsBeginning) {
  PrefixShelf shelf(1000);
  shelf.Put(Prefix({1, 2}, 10));
  shelf.Put(Prefix({1, 2, 3}, 15));
  EXPECT_EQ(shelf.count(), 1);
  shelf.Put(Prefix({1, 2}, 10));
  EXPECT_EQ(shelf.count(), 2) << "a beginning does not replace the longer one";
}

TEST(PrefixShelf, KeepsNothingBeyondItsBoundAndNoneAtZero) {
  PrefixShelf shelf(50);
  shelf.Put(Prefix({1}, 60));
  EXPECT_EQ(shelf.count(), 0);
  EXPECT_FALSE(shelf.Fits(51));
  PrefixShelf none(0);
  EXPECT_FALSE(none.Fits(0));
  none.Put(Prefix({1}, 0));
  EXPECT_EQ(none.count(), 0);
}

}  // namespace
}  // namespace rouse::engine
