#include "server/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>

namespace rouse::server {
namespace {

using engine::Stage;
using engine::Step;
using ::testing::ElementsAre;

MonoTime At(int64_t ns) { return MonoTime{ns}; }

std::vector<std::string> Told(const std::vector<TimelineSegment>& segments) {
  std::vector<std::string> words;
  for (const TimelineSegment& segment : segments) {
    words.push_back(std::string(segment.stage) + " " + std::to_string(segment.start.ns) + "-" +
                    std::to_string(segment.end.ns));
  }
  return words;
}

RequestMarks WarmMarks() {
  RequestMarks marks;
  marks.start = At(100);
  marks.taken = At(110);
  marks.tokenize_start = At(110);
  marks.tokenize_end = At(120);
  marks.prefill_end = At(200);
  marks.first_written = At(205);
  return marks;
}

LoadWindow Load(int64_t start, int64_t end, std::vector<Step> steps) {
  return {At(start), At(end), std::move(steps)};
}

Step MakeStep(Stage stage, int64_t start, int64_t end) {
  return {stage, std::string(engine::StageName(stage)), At(start), At(end), std::nullopt};
}

TEST(TileRequest, OfAWarmRequestHasNoLoad) {
  EXPECT_THAT(
      Told(TileRequest(WarmMarks(), {})),
      ElementsAre("queue 100-110", "tokenize 110-120", "prefill 120-200", "first_decode 200-205"));
}

TEST(TileRequest, GivesTheWaitForALoadToTheStepsOfItsCriticalPath) {
  RequestMarks marks = WarmMarks();
  marks.taken = At(1000);
  marks.tokenize_start = At(1000);
  marks.tokenize_end = At(1010);
  marks.prefill_end = At(1100);
  marks.first_written = At(1101);
  // The tokenizer (in parallel with the weights) is what the context did not wait for.
  const auto load = Load(90, 990,
                         {MakeStep(Stage::kTokenize, 95, 300), MakeStep(Stage::kWeights, 95, 600),
                          MakeStep(Stage::kRuntimeInit, 610, 980)});
  EXPECT_THAT(Told(TileRequest(marks, {load})),
              ElementsAre("weights 100-600", "runtime_init 600-990", "queue 990-1000",
                          "tokenize 1000-1010", "prefill 1010-1100", "first_decode 1100-1101"));
}

TEST(TileRequest, BeginsWithQueueWhenTheLoadBeganLater) {
  RequestMarks marks = WarmMarks();
  marks.start = At(0);
  const auto load = Load(50, 105, {MakeStep(Stage::kWeights, 52, 100)});
  EXPECT_THAT(
      Told(TileRequest(marks, {load})),
      ElementsAre("queue 0-50", "runtime_init 50-52", "weights 52-100", "runtime_init 100-105",
                  "queue 105-110", "tokenize 110-120", "prefill 120-200", "first_decode 200-205"));
}

TEST(TileRequest, KnowsTwoLoadsWithAnotherRequestBetween) {
  RequestMarks marks = WarmMarks();
  marks.start = At(0);
  const auto one = Load(-10, 20, {MakeStep(Stage::kWeights, -10, 20)});
  const auto two = Load(60, 100, {MakeStep(Stage::kWeights, 60, 100)});
  EXPECT_THAT(Told(TileRequest(marks, {one, two})),
              ElementsAre("weights 0-20", "queue 20-60", "weights 60-100", "queue 100-110",
                          "tokenize 110-120", "prefill 120-200", "first_decode 200-205"));
}

TEST(TileRequest, IgnoresALoadThatWasOverBefore) {
  const auto load = Load(10, 90, {MakeStep(Stage::kWeights, 10, 90)});
  EXPECT_EQ(TileRequest(WarmMarks(), {load}).front().stage, "queue");
}

TEST(TileRequest, EndsWithWhatWasReached) {
  RequestMarks marks = WarmMarks();
  marks.first_written.reset();
  EXPECT_EQ(TileRequest(marks, {}).back().stage, "prefill");
  marks.prefill_end.reset();
  EXPECT_EQ(TileRequest(marks, {}).back().stage, "tokenize");
  marks.tokenize_start.reset();
  EXPECT_THAT(Told(TileRequest(marks, {})), ElementsAre("queue 100-110"));
}

// Whatever the steps and marks are: no gap, no overlap, nothing empty, and the whole time.
TEST(TileRequest, TilesAnyRequest) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    RequestMarks marks;
    marks.start = At(pick(0, 100));
    marks.taken = At(marks.start.ns + pick(0, 100));
    marks.tokenize_start = At(marks.taken.ns + pick(0, 3));
    marks.tokenize_end = At(marks.tokenize_start->ns + pick(0, 10));
    marks.prefill_end = At(marks.tokenize_end->ns + pick(0, 50));
    marks.first_written = At(marks.prefill_end->ns + pick(0, 5));
    std::vector<LoadWindow> loads;
    int64_t from = pick(-50, 50);
    for (int64_t count = pick(0, 3); count > 0; --count) {
      const int64_t until = from + pick(0, 60);
      std::vector<Step> steps;
      for (int64_t more = pick(0, 4); more > 0; --more) {
        const int64_t start = pick(from, until);
        steps.push_back(MakeStep(static_cast<Stage>(pick(0, 2)), start, pick(start, until)));
      }
      loads.push_back(Load(from, until, std::move(steps)));
      from = until + pick(0, 30);
    }
    const auto segments = TileRequest(marks, loads);
    MonoTime now = marks.start;
    for (const TimelineSegment& segment : segments) {
      ASSERT_EQ(segment.start, now) << round;
      ASSERT_LT(segment.start, segment.end) << round;
      now = segment.end;
    }
    ASSERT_EQ(now, *marks.first_written) << round;
    for (size_t i = 1; i < segments.size(); ++i) {
      ASSERT_NE(segments[i].stage, segments[i - 1].stage) << round;
    }
  }
}

TEST(LanesBetween, KeepsStepsThatRanWhileTheRequestWasHere) {
  const auto load = Load(0, 300,
                         {MakeStep(Stage::kWeights, 0, 100), MakeStep(Stage::kTokenize, 50, 101),
                          MakeStep(Stage::kRuntimeInit, 200, 300)});
  const auto lanes = LanesBetween({load}, At(100), At(200));
  ASSERT_EQ(lanes.size(), 1U);
  EXPECT_EQ(lanes[0].stage, Stage::kTokenize);
}

TEST(ReadProcessFacts, AgreesWithTheClocks) {
  const MonoTime now = MonoNow();
  const ProcessFacts facts = ReadProcessFacts(now);
  EXPECT_EQ(facts.pid, ::getpid());
  EXPECT_EQ(facts.main_entered, now);
  ASSERT_TRUE(facts.exec_start.has_value());
  EXPECT_GT(facts.exec_start_resolution_ns, 0);
  EXPECT_LE(facts.exec_start->ns, now.ns);
  // This test binary was started a short while ago.
  EXPECT_LT(now - *facts.exec_start, 600 * kNsPerSecond);
}

TEST(TimelineJson, HasTheContractsShape) {
  ProcessFacts process;
  process.pid = 5;
  const auto json = nlohmann::json::parse(
      TimelineJson({{"queue", At(1), At(2)}},
                   {{Stage::kWeights, "weights", At(0), At(9), 77},
                    {Stage::kRuntimeInit, "context", At(0), At(9), std::nullopt}},
                   3, process));
  EXPECT_EQ(json["schema"], "rouse.timeline/1");
  EXPECT_EQ(json["segments"][0],
            (nlohmann::json{{"stage", "queue"}, {"start_ns", 1}, {"end_ns", 2}}));
  EXPECT_EQ(json["lanes"][0],
            (nlohmann::json{{"name", "weights"}, {"start_ns", 0}, {"end_ns", 9}, {"bytes", 77}}));
  EXPECT_TRUE(json["lanes"][1]["bytes"].is_null());
  EXPECT_EQ(json["cached_tokens"], 3);
  EXPECT_TRUE(json["process"]["exec_start_ns"].is_null());
}

}  // namespace
}  // namespace rouse::server
