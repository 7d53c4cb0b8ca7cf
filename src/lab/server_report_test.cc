#include "lab/server_report.h"

#include <gtest/gtest.h>

namespace rouse::lab {
namespace {

constexpr MonoTime kSend{1'000'000};

TEST(ServerTimeline, IsMovedToTheIntendedSend) {
  const Result<ServerTimeline> timeline = ParseTimeline(
      R"({"schema": "rouse.timeline/1", "clock": "monotonic", "cached_tokens": 7,
          "segments": [{"stage": "queue", "start_ns": 1000100, "end_ns": 1000300},
                       {"stage": "prefill", "start_ns": 1000300, "end_ns": 1009000}],
          "lanes": [{"name": "prefetch", "start_ns": 999000, "end_ns": 1005000, "bytes": 4096},
                    {"name": "tokens", "start_ns": 1000000, "end_ns": 1000001, "bytes": null}]})",
      kSend);
  ASSERT_TRUE(timeline.ok()) << timeline.error().message();
  ASSERT_EQ(timeline->segments.size(), 2U);
  EXPECT_EQ(timeline->segments[0].stage, results::Stage::kQueue);
  EXPECT_EQ(timeline->segments[0].start_ns, 100);
  EXPECT_EQ(timeline->segments[1].end_ns, 9000);
  EXPECT_EQ(timeline->lanes[0].start_ns, -1000);
  EXPECT_EQ(timeline->lanes[0].bytes, 4096);
  EXPECT_FALSE(timeline->lanes[1].bytes.has_value());
  EXPECT_EQ(timeline->cached_tokens, 7);
}

TEST(ServerTimeline, IsRefusedWhenItIsAnythingElse) {
  for (const char* const text :
       {"", "[]", "{}", "{\"schema\": \"rouse.timeline/2\"}",
        R"({"schema": "rouse.timeline/1", "clock": "realtime", "segments": []})",
        R"({"schema": "rouse.timeline/1", "clock": "monotonic"})",
        R"({"schema": "rouse.timeline/1", "clock": "monotonic", "segments": [3]})",
        R"({"schema": "rouse.timeline/1", "clock": "monotonic",
               "segments": [{"stage": "lunch", "start_ns": 1, "end_ns": 2}]})",
        R"({"schema": "rouse.timeline/1", "clock": "monotonic",
               "segments": [{"stage": "queue", "start_ns": 1.5, "end_ns": 2}]})",
        R"({"schema": "rouse.timeline/1", "clock": "monotonic", "segments": [],
               "lanes": [{"name": "x"}]})"}) {
    const Result<ServerTimeline> timeline = ParseTimeline(text, kSend);
    ASSERT_FALSE(timeline.ok()) << text;
    EXPECT_EQ(timeline.error().code(), ErrorCode::kCorrupt);
  }
}

TEST(ReportedPrefill, IsTakenFromLlamaServersTimings) {
  EXPECT_EQ(ReportedPrefillNs(R"({"cache_n": 0, "prompt_n": 12, "prompt_ms": 71.25})"), 71'250'000);
}

TEST(ReportedPrefill, IsTakenFromOllamasPromptEvalAndNeverFromItsLoadDuration) {
  EXPECT_EQ(ReportedPrefillNs(R"({"load_duration": 3000000000, "prompt_eval_duration": 600000})"),
            600'000);
  EXPECT_FALSE(ReportedPrefillNs(R"({"load_duration": 3000000000})").has_value());
}

TEST(ReportedPrefill, IsUnknownForNonsense) {
  for (const char* const text : {"", "7", "{}", R"({"prompt_ms": "fast"})", R"({"prompt_ms": -1})",
                                 R"({"prompt_ms": 1e300})", R"({"prompt_ms": null})"}) {
    EXPECT_FALSE(ReportedPrefillNs(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace rouse::lab
