#include "explain/layer_words.h"

#include <gtest/gtest.h>

#include <set>

namespace rouse::explain {
namespace {

TEST(LayerWords, EachLayerStandsOnceAndHasASentence) {
  std::set<std::string_view> layers;
  for (const LayerWords& row : kLayerWords) {
    EXPECT_TRUE(layers.insert(row.layer).second) << row.layer;
    EXPECT_FALSE(row.warmer.empty()) << row.layer;
    EXPECT_FALSE(row.lost.empty()) << row.layer;
    EXPECT_EQ(FindLayerWords(row.layer), &row);
    EXPECT_FALSE(IsColder(row.layer, row.warmer)) << row.layer;
  }
  EXPECT_EQ(FindLayerWords("idle"), nullptr);
}

TEST(LayerWords, ALayerHasANameExactlyWhenAValueLacksIt) {
  for (const LayerWords& row : kLayerWords) {
    EXPECT_EQ(row.name.empty(), row.colder.empty()) << row.layer;
  }
}

TEST(LayerWords, EveryValueThatLacksALayerIsFoundAndNoPartOfOne) {
  EXPECT_TRUE(IsColder("model", "unloaded"));
  EXPECT_TRUE(IsColder("model", "asleep"));
  EXPECT_TRUE(IsColder("process", "none"));
  EXPECT_TRUE(IsColder("compile_cache", "empty"));
  EXPECT_FALSE(IsColder("model", "unload"));
  EXPECT_FALSE(IsColder("model", "asleep unloaded"));
  EXPECT_FALSE(IsColder("model", ""));
  EXPECT_FALSE(IsColder("memory_pressure", "none"));
  EXPECT_FALSE(IsColder("idle", "fresh"));
}

}  // namespace
}  // namespace rouse::explain
