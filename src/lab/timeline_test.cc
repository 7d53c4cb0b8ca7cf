#include "lab/timeline.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "lab/schedule.h"

namespace rouse::lab {
namespace {

using results::Segment;
using results::Stage;

int64_t Of(const results::Stages& stages, Stage stage) {
  return stages[static_cast<size_t>(stage)].ns.value_or(-1);
}

TimelineInput Warm() {
  TimelineInput input;
  input.marks.send_start = 0;
  input.marks.connected = 50;
  input.marks.request_sent = 80;
  input.marks.first_token = 1000;
  input.ttft_ns = 1000;
  return input;
}

TEST(Timeline, IsEmptyWithoutAFirstToken) {
  TimelineInput input = Warm();
  input.ttft_ns.reset();
  input.segments = {{Stage::kPrefill, 100, 200}};
  const TimelineResult result = ComputeStages(input);
  for (const results::StageTime& time : result.stages) EXPECT_FALSE(time.ns.has_value());
  EXPECT_FALSE(StageSum(result.stages).has_value());
}

TEST(Timeline, GivesTheWireWhatLiesAroundTheServersSegmentsAndLeavesInnerGapsOpen) {
  TimelineInput input = Warm();
  input.has_timeline = true;
  input.segments = {
      {Stage::kTokenize, 100, 200}, {Stage::kPrefill, 230, 900}, {Stage::kFirstDecode, 900, 980}};
  const results::Stages stages = ComputeStages(input).stages;
  EXPECT_EQ(Of(stages, Stage::kTransport), 100 + 20);
  EXPECT_EQ(Of(stages, Stage::kTokenize), 100);
  EXPECT_EQ(Of(stages, Stage::kPrefill), 670);
  EXPECT_EQ(Of(stages, Stage::kFirstDecode), 80);
  EXPECT_EQ(Of(stages, Stage::kUnattributed), 30);
  EXPECT_EQ(Of(stages, Stage::kQueue), 0);
  EXPECT_EQ(Of(stages, Stage::kProcessStart), 0);
  EXPECT_EQ(StageSum(stages), 1000);
}

TEST(Timeline, CountsAServerSegmentThatBeganBeforeTheRequestWasFullySentOnce) {
  TimelineInput input = Warm();
  input.has_timeline = true;
  input.segments = {{Stage::kQueue, 60, 300}, {Stage::kPrefill, 300, 1000}};
  const results::Stages stages = ComputeStages(input).stages;
  EXPECT_EQ(Of(stages, Stage::kTransport), 60);
  EXPECT_EQ(Of(stages, Stage::kQueue), 240);
  EXPECT_EQ(StageSum(stages), 1000);
}

TEST(Timeline, CallsEverythingUntilTheFirstAcceptedConnectionTheProcessesStart) {
  TimelineInput input = Warm();
  input.process_new = true;
  input.has_timeline = true;
  input.marks.connected = 400;
  input.marks.request_sent = 420;
  // The server's loading began before it accepted: that time is the process's start.
  input.segments = {{Stage::kWeights, 300, 700}, {Stage::kPrefill, 700, 990}};
  const results::Stages stages = ComputeStages(input).stages;
  EXPECT_EQ(Of(stages, Stage::kProcessStart), 400);
  EXPECT_EQ(Of(stages, Stage::kWeights), 300);
  EXPECT_EQ(Of(stages, Stage::kTransport), 10);
  EXPECT_EQ(StageSum(stages), 1000);
}

TEST(Timeline, EndsTheProcessesStartAtTheFirstAcceptedTryNotAtTheLastOne) {
  TimelineInput input = Warm();
  input.process_new = true;
  input.first_accepted_ns = 200;  // answered 503, was tried again
  input.marks.connected = 600;
  input.marks.request_sent = 610;
  const results::Stages stages = ComputeStages(input).stages;
  EXPECT_EQ(Of(stages, Stage::kProcessStart), 200);
  EXPECT_EQ(StageSum(stages), 1000);
}

TEST(Timeline, LeavesAForeignServersTimeUnattributedExceptItsReportedPrefill) {
  TimelineInput input = Warm();
  input.reported_prefill_ns = 600;
  const results::Stages stages = ComputeStages(input).stages;
  EXPECT_EQ(Of(stages, Stage::kTransport), 80);
  EXPECT_EQ(Of(stages, Stage::kPrefill), 600);
  EXPECT_EQ(Of(stages, Stage::kUnattributed), 320);
  EXPECT_FALSE(stages[static_cast<size_t>(Stage::kQueue)].ns.has_value());
  EXPECT_FALSE(stages[static_cast<size_t>(Stage::kWeights)].ns.has_value());
}

TEST(Timeline, GivesAPrefillThatBeganBeforeTheWriteReturnedItsWholeTime) {
  TimelineInput input = Warm();
  input.reported_prefill_ns = 950;
  const results::Stages stages = ComputeStages(input).stages;
  EXPECT_EQ(Of(stages, Stage::kPrefill), 950);
  EXPECT_EQ(Of(stages, Stage::kTransport), 50);
  EXPECT_EQ(Of(stages, Stage::kUnattributed), 0);
}

TEST(Timeline, RefusesAReportedPrefillThatIsLongerThanTheWait) {
  TimelineInput input = Warm();
  input.reported_prefill_ns = 5000;
  const TimelineResult result = ComputeStages(input);
  EXPECT_FALSE(result.stages[static_cast<size_t>(Stage::kPrefill)].ns.has_value());
  EXPECT_EQ(Of(result.stages, Stage::kUnattributed), 920);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(result.warnings[0].code, "server_prefill_impossible");
}

TEST(Timeline, SaysWhenSegmentsOverlapOrRunBackwards) {
  TimelineInput input = Warm();
  input.has_timeline = true;
  input.segments = {
      {Stage::kPrefill, 100, 500}, {Stage::kTokenize, 400, 600}, {Stage::kQueue, 900, 700}};
  const TimelineResult result = ComputeStages(input);
  EXPECT_EQ(Of(result.stages, Stage::kPrefill), 400);
  EXPECT_EQ(Of(result.stages, Stage::kTokenize), 100);
  ASSERT_EQ(result.warnings.size(), 2U);
  EXPECT_EQ(result.warnings[0].code, "timeline_overlap");
  EXPECT_EQ(result.warnings[1].code, "timeline_reversed");
}

TEST(Timeline, HasNoStagesForATokenThatCameBeforeItsRequest) {
  TimelineInput input = Warm();
  input.ttft_ns = -5;
  const TimelineResult result = ComputeStages(input);
  EXPECT_FALSE(StageSum(result.stages).has_value());
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(result.warnings[0].code, "ttft_negative");
}

// Any value that a broken or hostile server could report.
int64_t Wild(SplitMix64& random) {
  switch (random.Below(8)) {
    case 0:
      return std::numeric_limits<int64_t>::min();
    case 1:
      return std::numeric_limits<int64_t>::max();
    case 2:
      return -static_cast<int64_t>(random.Below(10'000));
    default:
      return static_cast<int64_t>(random.Below(10'000));
  }
}

results::OptionalNs MaybeWild(SplitMix64& random) {
  return random.Below(3) == 0 ? results::OptionalNs() : results::OptionalNs(Wild(random));
}

TEST(Timeline, WaitingForAServerThatAnswers503IsNotTransport) {
  TimelineInput input;
  input.ttft_ns = 440;
  input.process_new = true;
  input.first_accepted_ns = 20;
  input.answered_try_ns = 300;
  input.marks.connected = 302;
  input.marks.request_sent = 303;
  input.reported_prefill_ns = 130;
  const results::Stages stages = ComputeStages(input).stages;
  EXPECT_EQ(stages[static_cast<size_t>(results::Stage::kProcessStart)].ns, 20);
  EXPECT_EQ(stages[static_cast<size_t>(results::Stage::kTransport)].ns, 3);
  EXPECT_EQ(stages[static_cast<size_t>(results::Stage::kPrefill)].ns, 130);
  EXPECT_EQ(stages[static_cast<size_t>(results::Stage::kUnattributed)].ns, 440 - 20 - 3 - 130);
}

TEST(TimelineProperty, AnyMarksAndSegmentsSumToTheTtftWithoutANegativeStage) {
  for (uint64_t seed = 0; seed < 50'000; ++seed) {
    SplitMix64 random(seed);
    TimelineInput input;
    input.ttft_ns = random.Below(10) == 0 ? 0 : static_cast<int64_t>(random.Below(9'000));
    input.marks.connected = MaybeWild(random);
    input.marks.request_sent = MaybeWild(random);
    input.has_timeline = random.Below(2) == 0;
    input.process_new = random.Below(2) == 0;
    input.first_accepted_ns = MaybeWild(random);
    input.reported_prefill_ns = MaybeWild(random);
    const uint64_t count = random.Below(7);
    for (uint64_t i = 0; i < count; ++i) {
      input.segments.push_back(
          {static_cast<Stage>(random.Below(results::kStageCount)), Wild(random), Wild(random)});
    }
    const results::Stages stages = ComputeStages(input).stages;
    ASSERT_EQ(StageSum(stages), input.ttft_ns) << "seed " << seed;
    for (const results::StageTime& time : stages) {
      ASSERT_GE(time.ns.value_or(0), 0) << "seed " << seed;
      ASSERT_EQ(time.ns.has_value(), time.source.has_value()) << "seed " << seed;
    }
  }
}

// A second implementation: paints every nanosecond of a short TTFT one by one.
std::map<Stage, int64_t> Painted(const TimelineInput& input, const std::vector<Segment>& segments) {
  std::map<Stage, int64_t> sum;
  const int64_t begin = input.process_new ? *input.marks.connected : 0;
  const int64_t sent = std::max(*input.marks.request_sent, segments.front().start_ns);
  for (int64_t t = 0; t < *input.ttft_ns; ++t) {
    if (t < begin) {
      ++sum[Stage::kProcessStart];
      continue;
    }
    const Segment* owner = nullptr;
    for (const Segment& segment : segments) {
      if (t >= segment.start_ns && t < segment.end_ns) owner = &segment;
    }
    if (owner != nullptr) {
      ++sum[owner->stage];
    } else if (t < sent || t >= segments.back().end_ns) {
      ++sum[Stage::kTransport];
    } else {
      ++sum[Stage::kUnattributed];
    }
  }
  return sum;
}

TEST(TimelineProperty, AgreesWithPaintingEveryNanosecond) {
  for (uint64_t seed = 0; seed < 3'000; ++seed) {
    SplitMix64 random(seed);
    TimelineInput input;
    input.has_timeline = true;
    input.process_new = random.Below(2) == 0;
    input.marks.connected = static_cast<int64_t>(random.Below(40));
    input.marks.request_sent = *input.marks.connected + static_cast<int64_t>(random.Below(20));
    int64_t cursor = *input.marks.connected + static_cast<int64_t>(random.Below(30));
    const uint64_t count = 1 + random.Below(5);
    for (uint64_t i = 0; i < count; ++i) {
      const int64_t end = cursor + 1 + static_cast<int64_t>(random.Below(40));
      input.segments.push_back(
          {static_cast<Stage>(random.Below(2) == 0 ? 2 + random.Below(5) : 0), cursor, end});
      cursor = end + static_cast<int64_t>(random.Below(2) * random.Below(9));
    }
    input.ttft_ns = cursor + static_cast<int64_t>(random.Below(30));
    const results::Stages stages = ComputeStages(input).stages;
    const std::map<Stage, int64_t> painted = Painted(input, input.segments);
    for (int i = 0; i < results::kStageCount; ++i) {
      const auto stage = static_cast<Stage>(i);
      const auto found = painted.find(stage);
      ASSERT_EQ(Of(stages, stage), found == painted.end() ? 0 : found->second)
          << "seed " << seed << " stage " << results::StageName(stage);
    }
  }
}

}  // namespace
}  // namespace rouse::lab
