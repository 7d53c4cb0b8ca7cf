#include "loader/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/test_bytes.h"

namespace rouse::loader {
namespace {

using ::testing::ElementsAre;

MATCHER_P2(Range, offset, bytes, "") { return arg.offset == offset && arg.bytes == bytes; }

// Output first in the file, then embedding, blk.1, blk.0: nothing lies in graph order.
gguf::Header TangledModel() {
  gguf::TestBytes bytes;
  bytes.Head(4, 0)
      .TensorRow("output.weight", {16}, 0, 0)
      .TensorRow("token_embd.weight", {8}, 0, 64);
  bytes.TensorRow("blk.1.ffn_up", {8}, 0, 96).TensorRow("blk.0.ffn_up", {8}, 0, 128);
  bytes.PadTo(32).Zeros(160);
  return *gguf::ParseHeader(bytes.str(), bytes.size(), "m.gguf");
}

TEST(GraphOrderPlan, ReadsHeaderEmbeddingBlocksAndOutputInTheOrderOfUse) {
  const gguf::Header header = TangledModel();
  const std::vector<PlanStep> plan = GraphOrderPlan(header);
  const int64_t data = header.data_offset;
  ASSERT_EQ(plan.size(), 5U);
  EXPECT_EQ(plan[0].group, "header");
  EXPECT_THAT(plan[0].ranges, ElementsAre(Range(0, data)));
  EXPECT_EQ(plan[1].group, "embedding");
  EXPECT_THAT(plan[1].ranges, ElementsAre(Range(data + 64, 32)));
  EXPECT_EQ(plan[2].group, "blk.0");
  EXPECT_THAT(plan[2].ranges, ElementsAre(Range(data + 128, 32)));
  EXPECT_EQ(plan[3].group, "blk.1");
  EXPECT_EQ(plan[4].group, "output");
  int64_t total = 0;
  for (const PlanStep& step : plan) total += step.bytes;
  EXPECT_EQ(total, header.file_bytes);
}

TEST(LeadingRanges, CoversTheStepsInOrderAndMergesWhatTouches) {
  const gguf::Header header = TangledModel();
  const std::vector<PlanStep> plan = GraphOrderPlan(header);
  const int64_t data = header.data_offset;
  EXPECT_TRUE(LeadingRanges(plan, 0.0).empty());
  EXPECT_THAT(LeadingRanges(plan, 1.0), ElementsAre(Range(0, header.file_bytes)));
  // Header, embedding and half of blk.0.
  const double fraction =
      static_cast<double>(data + 32 + 16) / static_cast<double>(header.file_bytes);
  EXPECT_THAT(LeadingRanges(plan, fraction),
              ElementsAre(Range(0, data), Range(data + 64, 32), Range(data + 128, 16)));
}

TEST(LeadingBytes, RoundsUpToAPageWithinTheFile) {
  EXPECT_TRUE(LeadingBytes(10'000, 0.0).empty());
  EXPECT_TRUE(LeadingBytes(0, 1.0).empty());
  EXPECT_THAT(LeadingBytes(10'000, 0.1), ElementsAre(Range(0, 4096)));
  EXPECT_THAT(LeadingBytes(10'000, 0.5), ElementsAre(Range(0, 8192)));
  EXPECT_THAT(LeadingBytes(10'000, 1.0), ElementsAre(Range(0, 10'000)));
}

}  // namespace
}  // namespace rouse::loader
