#include "results/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "results/example_attempt.h"

namespace rouse::results {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ImportError(const std::string& line) {
  const Result<Attempt> attempt = ParseAttempt(line, ParseFor::kImport);
  return attempt.ok() ? "accepted" : attempt.error().message();
}

TEST(AttemptJson, ReadsBackExactlyWhatItWrote) {
  Attempt attempt = ExampleAttempt();
  attempt.id = 17;
  attempt.run = 3;
  const std::string text = AttemptJson(attempt);
  const Result<Attempt> back = ParseAttempt(text, ParseFor::kReading);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(AttemptJson(*back), text);
  EXPECT_EQ(back->counters.at("cotenant_slowdown_ratio"), MetricValue(1.0));
  EXPECT_EQ(back->warnings, attempt.warnings);
  EXPECT_EQ(back->marks.first_token, attempt.marks.first_token);
  EXPECT_EQ(back->extra_json, attempt.extra_json);
  EXPECT_EQ(back->samples_json, attempt.samples_json);
  EXPECT_EQ(back->state_at_send.at("page_cache").strip_json, "[1,0.5,0]");
}

TEST(AttemptJson, HasEveryFieldOfTheContractAndNullForWhatWasNotMeasured) {
  const auto json = nlohmann::json::parse(AttemptJson(Attempt()));
  EXPECT_EQ(json.at("schema"), "rouse.attempt/1");
  for (const char* const mark :
       {"send_start", "connected", "request_sent", "response_headers", "first_byte", "first_event",
        "first_token", "first_content", "last_token", "end"}) {
    EXPECT_TRUE(json.at("marks_ns").at(mark).is_null()) << mark;
  }
  for (const char* const stage : {"queue", "process_start", "weights", "runtime_init", "tokenize",
                                  "prefill", "first_decode", "transport", "unattributed"}) {
    EXPECT_TRUE(json.at("stages_ns").at(stage).is_null()) << stage;
  }
  for (const char* const key : {"prompt", "cached", "completion", "first_chunk"}) {
    EXPECT_TRUE(json.at("tokens").at(key).is_null()) << key;
  }
  EXPECT_TRUE(json.at("ttft_ns").is_null());
  EXPECT_TRUE(json.at("stream").at("coalesced").is_null());
  EXPECT_EQ(json.at("stream").at("faults"), nlohmann::json::array());
  EXPECT_TRUE(json.at("connection").at("reused").is_null());
}

TEST(AttemptJson, MakesBytesThatAreNotUtf8Harmless) {
  Attempt attempt;
  attempt.outcome_detail = "server said \xff\xfe";
  EXPECT_TRUE(nlohmann::json::accept(AttemptJson(attempt)));
}

TEST(AttemptJson, IsOneLineOfJsonWhateverTheNamesAndTheServerSay) {
  Attempt attempt = ExampleAttempt();
  const std::string hostile = "a \"b\" \\ {[: \n\t\x01\x7f </script> µ é";
  attempt.condition = hostile;
  attempt.lanes.front().name = hostile;
  attempt.counters[hostile] = MetricValue(std::nan(""));
  attempt.null_reasons[hostile] = hostile;
  attempt.warnings.push_back({hostile, ""});
  attempt.server_json = "{\n  \"said\": [1, 2.5]\n}";
  const std::string text = AttemptJson(attempt);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("condition"), hostile);
  EXPECT_EQ(json.at("lanes")[0].at("name"), hostile);
  EXPECT_TRUE(json.at("counters").at(hostile).is_null());
  EXPECT_EQ(json.at("null_reasons").at(hostile), hostile);
  EXPECT_EQ(json.at("server").at("said")[1], 2.5);
  attempt.server_json = "not {json";
  EXPECT_EQ(nlohmann::json::parse(AttemptJson(attempt)).at("server"), "not {json");
}

TEST(AttemptJson, WritesAFieldOnceThoughAnOldImportKeptItAsUnknown) {
  Attempt attempt = ExampleAttempt();
  attempt.extra_json = R"({"tries":"many","my_gpu":"none"})";
  const std::string text = AttemptJson(attempt);
  EXPECT_EQ(text.find("\"tries\""), text.rfind("\"tries\""));
  EXPECT_EQ(nlohmann::json::parse(text).at("my_gpu"), "none");
}

TEST(ParseAttempt, TakesTheLeastThatAnImportNeeds) {
  const auto attempt =
      ParseAttempt(R"({"condition":"a","outcome":"ok","ttft_ns":5})", ParseFor::kImport);
  ASSERT_TRUE(attempt.ok()) << attempt.error().message();
  EXPECT_EQ(attempt->ttft_ns, 5);
  EXPECT_EQ(attempt->ttfc_ns, std::nullopt);
  EXPECT_TRUE(ParseAttempt(R"({"condition":"a","outcome":"timeout"})", ParseFor::kImport).ok());
}

TEST(ParseAttempt, RefusesAnImportThatLacksWhatIsNeeded) {
  EXPECT_THAT(ImportError(R"({"outcome":"ok","ttft_ns":5})"), HasSubstr("condition"));
  EXPECT_THAT(ImportError(R"({"condition":"a","ttft_ns":5})"), HasSubstr("outcome: is missing"));
  EXPECT_THAT(ImportError(R"({"condition":"a","outcome":"ok"})"), HasSubstr("ttft_ns"));
  EXPECT_THAT(ImportError(R"({"condition":"a","outcome":"fine","ttft_ns":5})"),
              HasSubstr("no outcome \"fine\""));
}

TEST(ParseAttempt, RefusesNumbersThatAreNegativeNotFiniteOrFractions) {
  const std::string start = R"({"condition":"a","outcome":"ok","ttft_ns":)";
  EXPECT_THAT(ImportError(start + "-1}"), HasSubstr("ttft_ns: must not be negative"));
  EXPECT_THAT(ImportError(start + "1e999}"), HasSubstr("not finite"));
  EXPECT_THAT(ImportError(start + "NaN}"), HasSubstr("is not JSON"));
  EXPECT_THAT(ImportError(start + "Infinity}"), HasSubstr("is not JSON"));
  EXPECT_THAT(ImportError(start + "1.5}"), HasSubstr("whole number"));
  EXPECT_THAT(ImportError(start + "99999999999999999999}"), HasSubstr("ttft_ns"));
  EXPECT_THAT(ImportError(start + R"("12"})"), HasSubstr("whole number"));
  EXPECT_THAT(ImportError(start + R"(5,"counters":{"x":-0.5}})"), HasSubstr("counters.x"));
  EXPECT_THAT(ImportError(start + R"(5,"marks_ns":{"end":-3}})"), HasSubstr("marks_ns.end"));
  EXPECT_THAT(ImportError(start + R"(5,"block":-3})"), HasSubstr("block"));
  EXPECT_EQ(ImportError(start + "1.5e3}"), "accepted");
}

TEST(ParseAttempt, KeepsANegativeValueOfOurOwnBecauseItIsABugToBeSeen) {
  const auto attempt =
      ParseAttempt(R"({"condition":"a","outcome":"ok","ttft_ns":-5})", ParseFor::kReading);
  ASSERT_TRUE(attempt.ok());
  EXPECT_EQ(attempt->ttft_ns, -5);
}

TEST(ParseAttempt, RefusesWhatIsNoObjectOrHasAnotherShape) {
  EXPECT_THAT(ImportError(""), HasSubstr("is not JSON"));
  EXPECT_THAT(ImportError("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(ImportError("{"), HasSubstr("is not JSON"));
  EXPECT_THAT(ImportError(R"({"schema":"rouse.attempt/9","condition":"a","outcome":"timeout"})"),
              HasSubstr("rouse.attempt/9"));
  EXPECT_THAT(ImportError(R"({"condition":"a","outcome":"timeout","marks_ns":[]})"),
              HasSubstr("marks_ns: must be an object"));
  EXPECT_THAT(ImportError(R"({"condition":7,"outcome":"timeout"})"), HasSubstr("condition"));
  EXPECT_THAT(ImportError(R"({"condition":"a","outcome":"timeout","stage_source":{"lunch":"os"}})"),
              HasSubstr("stage_source.lunch"));
}

TEST(ParseAttempt, RefusesNestingThatCouldExhaustTheStack) {
  const std::string deep = R"({"condition":"a","outcome":"timeout","server":)" +
                           std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_THAT(ImportError(deep), HasSubstr("deeper than 64"));
}

TEST(ParseAttempt, RefusesSamplesAndStripsOfAnotherShape) {
  const std::string start = R"({"condition":"a","outcome":"timeout",)";
  EXPECT_THAT(ImportError(start + R"("samples":[]})"), HasSubstr("samples: must be an object"));
  EXPECT_THAT(ImportError(start + R"("samples":{"at_ns":[2,1]}})"), HasSubstr("do not go back"));
  const std::string state = start + R"("state_after":{"page_cache":{"value":1,"strip":)";
  EXPECT_THAT(ImportError(state + R"("x"}}})"), HasSubstr("state_after.page_cache.strip"));
  EXPECT_THAT(ImportError(state + R"([1,"x"]}}})"), HasSubstr("page_cache.strip"));
  EXPECT_EQ(ImportError(state + R"([1,0.5]}}})"), "accepted");
  EXPECT_EQ(ImportError(state + R"(null}}})"), "accepted");
}

TEST(ParseAttempt, KeepsFieldsThatItDoesNotKnowAndNamesThem) {
  const auto attempt =
      ParseAttempt(R"({"condition":"a","outcome":"timeout","gpu":{"name":"x"},"tttft_ns":1})",
                   ParseFor::kImport);
  ASSERT_TRUE(attempt.ok());
  EXPECT_THAT(ExtraFields(*attempt), ElementsAre("gpu", "tttft_ns"));
  EXPECT_EQ(nlohmann::json::parse(AttemptJson(*attempt)).at("gpu").at("name"), "x");
}

}  // namespace
}  // namespace rouse::results
