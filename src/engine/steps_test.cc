#include "engine/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::engine {
namespace {

Step At(Stage stage, int64_t start, int64_t end) { return {stage, "x", {start}, {end}, {}}; }

std::string Text(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& s : segments) {
    text += std::string(StageName(s.stage)) + " " + std::to_string(s.start.ns) + "-" +
            std::to_string(s.end.ns) + "; ";
  }
  return text;
}

// The tokenizer ends last: all of the time belongs to it.
TEST(WaitedFor, FollowsTheStepThatEndedLast) {
  const std::vector<Step> steps = {At(Stage::kTokenize, 0, 100), At(Stage::kWeights, 5, 50),
                                   At(Stage::kRuntimeInit, 50, 80)};
  EXPECT_EQ(Text(WaitedFor(steps, {0}, {100})), "tokenize 0-100; ");
}

TEST(WaitedFor, WalksBackThroughTheChainThatReleasedTheLastStep) {
  const std::vector<Step> steps = {At(Stage::kTokenize, 0, 40), At(Stage::kWeights, 5, 50),
                                   At(Stage::kRuntimeInit, 50, 80), At(Stage::kTokenize, 80, 81)};
  EXPECT_EQ(Text(WaitedFor(steps, {5}, {81})),
            "weights 5-50; runtime_init 50-80; tokenize 80-81; ");
}

// A small gap between two steps must not hand the time to whatever happened to run meanwhile.
TEST(WaitedFor, LeavesAGapAndStaysOnTheChain) {
  const std::vector<Step> steps = {At(Stage::kTokenize, 0, 70), At(Stage::kWeights, 0, 50),
                                   At(Stage::kRuntimeInit, 52, 80)};
  EXPECT_EQ(Text(WaitedFor(steps, {0}, {80})), "weights 0-50; runtime_init 52-80; ");
}

TEST(WaitedFor, ClipsToARequestThatCameInTheMiddle) {
  const std::vector<Step> steps = {At(Stage::kWeights, 0, 50), At(Stage::kRuntimeInit, 50, 80)};
  EXPECT_EQ(Text(WaitedFor(steps, {30}, {80})), "weights 30-50; runtime_init 50-80; ");
  EXPECT_EQ(Text(WaitedFor(steps, {60}, {80})), "runtime_init 60-80; ");
  EXPECT_EQ(Text(WaitedFor(steps, {80}, {90})), "");
}

TEST(WaitedFor, CutsAStepThatIsStillRunning) {
  EXPECT_EQ(Text(WaitedFor({At(Stage::kWeights, 10, 90)}, {0}, {60})), "weights 10-60; ");
}

TEST(WaitedFor, JoinsNeighboursOfOneStage) {
  const std::vector<Step> steps = {At(Stage::kWeights, 0, 4), At(Stage::kWeights, 4, 50)};
  EXPECT_EQ(Text(WaitedFor(steps, {0}, {50})), "weights 0-50; ");
}

TEST(WaitedFor, IsEmptyForNoStepsAndForNoTime) {
  EXPECT_TRUE(WaitedFor({}, {0}, {10}).empty());
  EXPECT_TRUE(WaitedFor({At(Stage::kWeights, 0, 10)}, {5}, {5}).empty());
  EXPECT_TRUE(WaitedFor({At(Stage::kWeights, 3, 3)}, {0}, {10}).empty());
}

}  // namespace
}  // namespace rouse::engine
