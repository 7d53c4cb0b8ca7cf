// The fixtures are written by hand after the public formats; none is another project's file.
#include "results/foreign_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::results {
namespace {

using testing::HasSubstr;

constexpr std::string_view kVllm = R"({"backend": "openai-chat", "model_id": "m", "completed": 2,
  "mean_ttft_ms": 150.0, "input_lens": [10, 20, 30], "output_lens": [3, 2, 0],
  "ttfts": [0.1, 0.2, 0.0], "itls": [[0.01, 0.02], [0.03], []],
  "errors": ["", "", "Connection reset"]})";

constexpr std::string_view kAiperf =
    R"({"metadata": {"session_num": 0, "request_start_ns": 1700000000000000000, )"
    R"("request_end_ns": 1700000000900000000, "worker_id": "w", "record_processor_id": )"
    R"("r", "benchmark_phase": "warmup", "was_cancelled": false}, "metrics": )"
    R"({"time_to_first_token": {"value": 300.5, "unit": "ms"}, "request_latency": )"
    R"({"value": 900, "unit": "ms"}, "input_sequence_length": {"value": 12, "unit": )"
    R"("tokens"}}, "error": null})"
    "\n"
    R"({"metadata": {"session_num": 1, "request_start_ns": 1700000001000000000, )"
    R"("request_end_ns": 1700000001500000000, "worker_id": "w", "record_processor_id": )"
    R"("r", "benchmark_phase": "profiling", "was_cancelled": false}, "metrics": )"
    R"({"time_to_first_token": {"value": 200, "unit": "ms"}}, "error": null})"
    "\n"
    R"({"metadata": {"session_num": 2, "request_start_ns": 1700000002000000000, )"
    R"("request_end_ns": 1700000002100000000, "worker_id": "w", "record_processor_id": )"
    R"("r", "benchmark_phase": "profiling", "was_cancelled": false}, "metrics": {}, )"
    R"("error": {"code": 500, "type": "x", "message": "boom"}})"
    "\n";

constexpr std::string_view kGuidellm = R"({"metadata": {"version": 1}, "benchmarks": [{
  "config": {"strategy": {"type_": "synchronous"}},
  "requests": {
    "successful": [{"request_id": "a", "time_to_first_token_ms": 80.25, "request_latency": 0.5,
                    "prompt_tokens": 7, "output_tokens": 4, "request_start_time": 1700000000.5}],
    "errored": [{"request_id": "b", "time_to_first_token_ms": null, "request_latency": 2.0}],
    "incomplete": []}}]})";

constexpr std::string_view kLlamaBench = R"([
  {"model_type": "llama 1B Q4_0", "n_prompt": 512, "n_gen": 0, "avg_ns": 2000,
   "samples_ns": [1900, 2100]},
  {"model_type": "llama 1B Q4_0", "n_prompt": 0, "n_gen": 128, "avg_ns": 5000,
   "samples_ns": [5000]}])";

constexpr std::string_view kOllama = R"(It is blue.

total duration:       1.5s
load duration:        21.5ms
prompt eval count:    26 token(s)
prompt eval duration: 128.25ms
prompt eval rate:     202.7 tokens/s
eval count:           8 token(s)
eval duration:        1m0.5s
eval rate:            6.2 tokens/s
)";

ForeignAttempts Parsed(std::string_view text) {
  const std::optional<ForeignFormat> format = DetectForeignFormat(text);
  EXPECT_TRUE(format.has_value());
  Result<ForeignAttempts> parsed = ParseForeign(*format, text, "");
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message());
  return *std::move(parsed);
}

std::string Refusal(ForeignFormat format, std::string_view text) {
  const Result<ForeignAttempts> parsed = ParseForeign(format, text, "");
  EXPECT_FALSE(parsed.ok());
  return parsed.ok() ? "" : parsed.error().message();
}

TEST(ForeignImport, EachFormatIsDetectedAndOursIsNot) {
  EXPECT_EQ(DetectForeignFormat(kVllm), ForeignFormat::kVllm);
  EXPECT_EQ(DetectForeignFormat(kAiperf), ForeignFormat::kAiperf);
  EXPECT_EQ(DetectForeignFormat(kGuidellm), ForeignFormat::kGuidellm);
  EXPECT_EQ(DetectForeignFormat(kLlamaBench), ForeignFormat::kLlamaBench);
  EXPECT_EQ(DetectForeignFormat(kOllama), ForeignFormat::kOllamaVerbose);
  EXPECT_EQ(DetectForeignFormat(R"({"condition":"a","outcome":"ok","ttft_ns":1})"), std::nullopt);
  EXPECT_EQ(DetectForeignFormat(""), std::nullopt);
  EXPECT_EQ(DetectForeignFormat("[]"), std::nullopt);
}

TEST(ForeignImport, NamesReadBack) {
  for (const std::string_view name : ForeignFormatNames()) {
    EXPECT_EQ(ForeignFormatName(*ForeignFormatFromName(name)), name);
  }
  EXPECT_EQ(ForeignFormatFromName("nope"), std::nullopt);
}

TEST(ForeignImport, AVllmResultKeepsItsFailuresAsFailures) {
  const ForeignAttempts parsed = Parsed(kVllm);
  ASSERT_EQ(parsed.attempts.size(), 3U);
  EXPECT_EQ(parsed.attempts[0].ttft_ns, 100'000'000);
  EXPECT_EQ(parsed.attempts[0].marks.end, 130'000'000);
  EXPECT_EQ(parsed.attempts[0].tokens.prompt, 10);
  EXPECT_EQ(parsed.attempts[2].outcome, Outcome::kStreamError);
  EXPECT_EQ(parsed.attempts[2].outcome_detail, "Connection reset");
  EXPECT_EQ(parsed.attempts[2].ttft_ns, std::nullopt);
}

TEST(ForeignImport, AVllmResultOfMeansIsRefusedWithTheFlagThatWouldHelp) {
  EXPECT_THAT(Refusal(ForeignFormat::kVllm, R"({"mean_ttft_ms": 150.0})"),
              HasSubstr("--save-detailed"));
}

TEST(ForeignImport, AnAiperfRecordIsAnAttemptAndItsWarmUpAPrime) {
  const ForeignAttempts parsed = Parsed(kAiperf);
  ASSERT_EQ(parsed.attempts.size(), 3U);
  EXPECT_TRUE(parsed.attempts[0].prime);
  EXPECT_EQ(parsed.attempts[0].ttft_ns, 300'500'000);
  EXPECT_EQ(parsed.attempts[0].started_wall_ns, 1'700'000'000'000'000'000);
  EXPECT_FALSE(parsed.attempts[1].prime);
  EXPECT_EQ(parsed.attempts[2].outcome, Outcome::kStreamError);
  EXPECT_EQ(parsed.attempts[2].outcome_detail, "boom");
}

TEST(ForeignImport, AnAiperfRecordThatWasNotStreamedIsRefusedWithItsLine) {
  const std::string record = R"({"metadata": {"benchmark_phase": "profiling"}, "metrics": {}})";
  const std::string message = Refusal(ForeignFormat::kAiperf, "\n" + record);
  EXPECT_THAT(message, HasSubstr("line 2"));
  EXPECT_THAT(message, HasSubstr("--streaming"));
}

TEST(ForeignImport, AGuidellmReportGivesEveryRequest) {
  const ForeignAttempts parsed = Parsed(kGuidellm);
  ASSERT_EQ(parsed.attempts.size(), 2U);
  EXPECT_EQ(parsed.attempts[0].condition, "guidellm 1 synchronous");
  EXPECT_EQ(parsed.attempts[0].ttft_ns, 80'250'000);
  EXPECT_EQ(parsed.attempts[1].outcome, Outcome::kStreamError);
  EXPECT_THAT(Refusal(ForeignFormat::kGuidellm, R"({"benchmarks": [{}]})"),
              HasSubstr("distributions"));
}

TEST(ForeignImport, ALlamaBenchSampleIsAPrefillAndNeverATtft) {
  const ForeignAttempts parsed = Parsed(kLlamaBench);
  ASSERT_EQ(parsed.attempts.size(), 2U);
  EXPECT_EQ(parsed.attempts[0].condition, "llama 1B Q4_0 pp512");
  EXPECT_EQ(parsed.attempts[0].ttft_ns, std::nullopt);
  EXPECT_EQ(parsed.attempts[0].stages[static_cast<size_t>(Stage::kPrefill)].ns, 1900);
  EXPECT_THAT(parsed.attempts[0].null_reasons.at("ttft_ns"), HasSubstr("sends no request"));
  EXPECT_THAT(parsed.remarks, testing::Contains("1 samples of tests that generate were left out"));
}

TEST(ForeignImport, ALlamaBenchFileOfMeansOrOfGenerationIsRefused) {
  EXPECT_THAT(Refusal(ForeignFormat::kLlamaBench, R"([{"n_prompt": 512, "avg_ns": 1}])"),
              HasSubstr("only means"));
  EXPECT_THAT(
      Refusal(ForeignFormat::kLlamaBench, R"({"n_prompt": 0, "n_gen": 8, "samples_ns": [1]})"),
      HasSubstr("-p N -n 0"));
}

TEST(ForeignImport, OllamaLinesGiveTheServersDurationsAndNoTtft) {
  const ForeignAttempts parsed = Parsed(std::string(kOllama) + std::string(kOllama));
  ASSERT_EQ(parsed.attempts.size(), 2U);
  const Attempt& attempt = parsed.attempts[0];
  EXPECT_EQ(attempt.ttft_ns, std::nullopt);
  EXPECT_EQ(attempt.marks.end, 1'500'000'000);
  EXPECT_EQ(attempt.tokens.prompt, 26);
  EXPECT_EQ(attempt.stages[static_cast<size_t>(Stage::kPrefill)].ns, 128'250'000);
  EXPECT_THAT(attempt.server_json, HasSubstr("\"eval_duration\":60500000000"));
  EXPECT_THAT(attempt.server_json, HasSubstr("\"load_duration\":21500000"));
}

TEST(ForeignImport, TextThatIsNotTheFormatIsRefused) {
  for (const std::string_view name : ForeignFormatNames()) {
    for (const std::string_view text : {"", "{}", "[1,2]", "{\"ttfts\": 3}", "hello", "\xff\xfe"}) {
      EXPECT_FALSE(ParseForeign(*ForeignFormatFromName(name), text, "").ok()) << name << text;
    }
  }
}

}  // namespace
}  // namespace rouse::results
