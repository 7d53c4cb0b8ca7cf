#include "lab/targets.h"

#include <gtest/gtest.h>

namespace rouse::lab {
namespace {

TEST(Targets, AreInTheOrderOfTheEnumAndFoundByName) {
  int index = 0;
  for (const TargetRow& row : Targets()) {
    EXPECT_EQ(static_cast<int>(row.kind), index++);
    EXPECT_EQ(TargetKindFromName(row.name), row.kind);
    EXPECT_FALSE(row.summary.empty());
    EXPECT_GE(row.block_tokens, 1);
  }
  EXPECT_EQ(TargetKindFromName("llama"), std::nullopt);
}

TEST(Targets, SayOfEachLayerHowItIsSetOrWhyItCannotBe) {
  for (const TargetRow& row : Targets()) {
    for (const LayerRow& layer : Layers()) {
      const TargetLayer& on = row.On(layer.layer);
      EXPECT_FALSE(on.set.empty() && on.limit.empty()) << row.name << " " << layer.name;
      // What can be set is proved, or the row says why nothing tells.
      if (!on.set.empty() && on.proof.empty()) {
        EXPECT_FALSE(on.limit.empty()) << row.name << " " << layer.name;
      }
    }
    EXPECT_EQ(row.Sets(Layer::kProcess), row.owns_process) << row.name;
    EXPECT_TRUE(row.Sets(Layer::kMemoryPressure)) << row.name;
    EXPECT_TRUE(row.Sets(Layer::kBackground)) << row.name;
  }
}

}  // namespace
}  // namespace rouse::lab
