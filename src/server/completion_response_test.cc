#include "server/completion_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rouse::server {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;
using Json = nlohmann::json;

engine::GenerateReport Report() {
  engine::GenerateReport report;
  report.prompt_tokens = 12;
  report.cached_tokens = 2;
  report.generated_tokens = 4;
  report.prefill_start = MonoTime{0};
  report.prefill_end = MonoTime{20 * kNsPerMs};
  report.end = MonoTime{60 * kNsPerMs};
  return report;
}

Json EventJson(const std::string& event) {
  EXPECT_THAT(event, StartsWith("data: "));
  EXPECT_THAT(event, EndsWith("\n\n"));
  return Json::parse(event.substr(6));
}

AnswerFormat Format(CompletionKind kind, bool include_usage = false) {
  return AnswerFormat({kind, "id-1", "the \"model\"", 77}, include_usage);
}

TEST(AnswerFormat, KeepsTextAsItIs) {
  const std::string text = "quote \" backslash \\ line\nbreak ünïcode \xf0\x9f\x98\x80 nul";
  const Json event = EventJson(Format(CompletionKind::kChat).Text(text));
  EXPECT_EQ(event["choices"][0]["delta"]["content"], text);
  EXPECT_EQ(event["model"], "the \"model\"");
  EXPECT_EQ(event["created"], 77);
  EXPECT_EQ(EventJson(Format(CompletionKind::kText).Text(text))["choices"][0]["text"], text);
}

TEST(AnswerFormat, NeverPutsALineBreakIntoAnEvent) {
  const std::string event = Format(CompletionKind::kChat).Text("a\nb\r\nc");
  EXPECT_EQ(event.find('\n'), event.size() - 2);
  EXPECT_EQ(event.find('\r'), std::string::npos);
}

TEST(AnswerFormat, HasNoOpeningForPlainText) {
  EXPECT_EQ(Format(CompletionKind::kText).Opening(), "");
}

TEST(AnswerFormat, TellsTimingsInLlamaServersWords) {
  const Json whole = Json::parse(Format(CompletionKind::kChat).Whole("x", {Report(), ""}));
  EXPECT_EQ(whole["timings"], (Json{{"cache_n", 2},
                                    {"prompt_n", 10},
                                    {"prompt_ms", 20.0},
                                    {"prompt_per_token_ms", 2.0},
                                    {"prompt_per_second", 500.0},
                                    {"predicted_n", 4},
                                    {"predicted_ms", 40.0},
                                    {"predicted_per_token_ms", 10.0},
                                    {"predicted_per_second", 100.0}}));
  EXPECT_EQ(whole["usage"], (Json{{"prompt_tokens", 12},
                                  {"completion_tokens", 4},
                                  {"total_tokens", 16},
                                  {"prompt_tokens_details", {{"cached_tokens", 2}}}}));
}

TEST(AnswerFormat, SaysNullForARateThatIsNotKnown) {
  engine::GenerateReport report = Report();
  report.prefill_end.reset();
  report.generated_tokens = 0;
  const Json timings =
      Json::parse(Format(CompletionKind::kChat).Whole("", {report, ""}))["timings"];
  EXPECT_TRUE(timings["prompt_ms"].is_null());
  EXPECT_TRUE(timings["prompt_per_second"].is_null());
  EXPECT_TRUE(timings["predicted_per_token_ms"].is_null());
}

TEST(AnswerFormat, PutsTheTimelineIntoTheLastEventBeforeDone) {
  for (const bool usage : {false, true}) {
    const std::string closing =
        Format(CompletionKind::kChat, usage).Closing({Report(), R"({"schema":"s"})"});
    EXPECT_THAT(closing, EndsWith("\n\ndata: [DONE]\n\n"));
    const size_t done = closing.rfind("data: [DONE]");
    const size_t last = closing.rfind("data: ", done - 1);
    const Json event = Json::parse(closing.substr(last + 6, done - last - 8));
    EXPECT_EQ(event["rouse"]["schema"], "s");
    EXPECT_EQ(event.contains("usage"), usage);
    EXPECT_EQ(event["choices"].size(), usage ? 0U : 1U);
    EXPECT_EQ(last == 0, !usage);
  }
}

TEST(MakeIdentity, IsDifferentEachTime) {
  const AnswerIdentity one = MakeIdentity(CompletionKind::kChat, "m");
  const AnswerIdentity two = MakeIdentity(CompletionKind::kChat, "m");
  EXPECT_NE(one.id, two.id);
  EXPECT_THAT(one.id, StartsWith("chatcmpl-"));
  EXPECT_THAT(MakeIdentity(CompletionKind::kText, "m").id, StartsWith("cmpl-"));
}

TEST(FinishReason, KnowsLengthFromAnEnd) {
  EXPECT_EQ(FinishReason(engine::StopReason::kLength), "length");
  EXPECT_EQ(FinishReason(engine::StopReason::kEnd), "stop");
  EXPECT_EQ(FinishReason(engine::StopReason::kStopText), "stop");
}

}  // namespace
}  // namespace rouse::server
