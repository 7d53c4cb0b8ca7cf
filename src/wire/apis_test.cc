#include "wire/apis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "wire/redact.h"
#include "wire/utf8.h"

namespace rouse::wire {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

RequestSpec Spec() {
  RequestSpec spec;
  spec.model = "m";
  spec.messages = {{"system", "salt"}, {"user", "hello"}};
  spec.max_tokens = 7;
  return spec;
}

Json Body(Api api, const RequestSpec& spec) { return Json::parse(BuildBody(api, spec).value()); }

TEST(Apis, HaveNamesThatLeadBackToThem) {
  ASSERT_EQ(ApiNames().size(), static_cast<size_t>(kApiCount));
  for (const std::string_view name : ApiNames()) {
    ASSERT_TRUE(ApiFromName(name).has_value()) << name;
    EXPECT_EQ(ApiName(*ApiFromName(name)), name);
    EXPECT_EQ(ApiOfPath(EndpointPath(*ApiFromName(name), "")), ApiFromName(name)) << name;
  }
  EXPECT_FALSE(ApiFromName("openai").has_value());
}

TEST(Apis, PutTheirPathUnderAnyBase) {
  EXPECT_EQ(EndpointPath(Api::kOpenAiChat, ""), "/v1/chat/completions");
  EXPECT_EQ(EndpointPath(Api::kOpenAiChat, "/"), "/v1/chat/completions");
  EXPECT_EQ(EndpointPath(Api::kOpenAiChat, "/v1/"), "/v1/chat/completions");
  EXPECT_EQ(EndpointPath(Api::kOpenAiChat, "/api/v1"), "/api/v1/chat/completions");
  EXPECT_EQ(EndpointPath(Api::kOllamaChat, "/v1"), "/api/chat");
  EXPECT_EQ(EndpointPath(Api::kOllamaChat, "/api"), "/api/chat");
  EXPECT_EQ(EndpointPath(Api::kLlamaCompletion, "/x/v1"), "/x/completion");
}

TEST(Apis, AreRecognizedByTheEndOfAFullPath) {
  EXPECT_EQ(ApiOfPath("/openai/deployments/d/chat/completions"), Api::kOpenAiChat);
  EXPECT_EQ(ApiOfPath("/v1/completions/"), Api::kOpenAiCompletions);
  EXPECT_EQ(ApiOfPath("/completion"), Api::kLlamaCompletion);
  EXPECT_EQ(ApiOfPath("/v1"), std::nullopt);
  EXPECT_EQ(ApiOfPath("/"), std::nullopt);
  EXPECT_EQ(ApiOfPath("/my-api/chat"), std::nullopt);
}

TEST(BuildBody, AsksEachApiInItsOwnWords) {
  const RequestSpec spec = Spec();
  const Json chat = Body(Api::kOpenAiChat, spec);
  EXPECT_EQ(chat["messages"][1]["content"], "hello");
  EXPECT_EQ(chat["max_tokens"], 7);
  EXPECT_EQ(chat["stream"], true);
  EXPECT_EQ(chat["stream_options"]["include_usage"], true);
  EXPECT_EQ(Body(Api::kOpenAiCompletions, spec)["prompt"], "salt\n\nhello\n\n");
  EXPECT_EQ(Body(Api::kOpenAiResponses, spec)["max_output_tokens"], 7);
  const Json anthropic = Body(Api::kAnthropic, spec);
  EXPECT_EQ(anthropic["system"], "salt");
  EXPECT_EQ(anthropic["messages"].size(), 1U);
  EXPECT_EQ(anthropic["max_tokens"], 7);
  const Json ollama = Body(Api::kOllamaChat, spec);
  EXPECT_EQ(ollama["options"]["num_predict"], 7);
  EXPECT_EQ(ollama["options"]["temperature"], 0.0);
  EXPECT_EQ(Body(Api::kLlamaCompletion, spec)["n_predict"], 7);
  ASSERT_EQ(ApiHeaders(Api::kAnthropic).size(), 1U);
  EXPECT_EQ(ApiHeaders(Api::kAnthropic)[0].name, "anthropic-version");
}

TEST(BuildBody, MergesExtraFieldsDeeply) {
  RequestSpec spec = Spec();
  spec.model.clear();
  spec.extra_body_json = R"({"options": {"num_ctx": 9, "temperature": null}, "keep_alive": 0})";
  const Json body = Body(Api::kOllamaGenerate, spec);
  EXPECT_EQ(body["options"], Json({{"num_predict", 7}, {"num_ctx", 9}}));
  EXPECT_EQ(body["keep_alive"], 0);
  EXPECT_FALSE(body.contains("model"));
}

TEST(ReadEvent, SurvivesAnyTypeInAnyPlace) {
  const std::vector<std::string> values = {"null", "1",  "-1.5",  "true",  "\"x\"",
                                           "[]",   "{}", "1e999", "[[1]]", "{\"a\":{}}"};
  const std::vector<std::string> shapes = {
      "%",
      "{\"choices\":%}",
      "{\"choices\":[%]}",
      "{\"choices\":[{\"delta\":%}]}",
      "{\"choices\":[{\"delta\":{\"content\":%,\"tool_calls\":%,\"reasoning\":%}}]}",
      "{\"choices\":[{\"finish_reason\":%,\"logprobs\":%,\"message\":%,\"text\":%}]}",
      "{\"usage\":%,\"timings\":%,\"error\":%,\"rouse\":%}",
      "{\"usage\":{\"prompt_tokens\":%,\"prompt_tokens_details\":%,\"completion_tokens\":%}}",
      "{\"type\":%,\"delta\":%,\"item\":%,\"response\":%,\"message\":%,\"content_block\":%}",
      "{\"type\":\"response.completed\",\"response\":{\"output\":%,\"usage\":%}}",
      "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":%}}",
      "{\"done\":%,\"response\":%,\"message\":%,\"eval_count\":%}",
      "{\"stop\":%,\"content\":%,\"tokens\":%,\"tokens_predicted\":%}"};
  for (int api = 0; api < kApiCount; ++api) {
    for (const std::string& shape : shapes) {
      for (const std::string& value : values) {
        std::string event;
        for (const char c : shape) event += c == '%' ? value : std::string(1, c);
        // It must not throw or crash; what it says of nonsense does not matter.
        static_cast<void>(ReadEvent(static_cast<Api>(api), "", event));
        static_cast<void>(ReadWholeBody(static_cast<Api>(api), event));
      }
    }
  }
}

TEST(ReadEvent, RefusesDeepNesting) {
  const std::string fits = std::string(256, '[') + std::string(256, ']');
  const std::string deep = std::string(257, '[') + std::string(257, ']');
  EXPECT_TRUE(ReadEvent(Api::kOpenAiChat, "", fits).has_value());
  EXPECT_FALSE(ReadEvent(Api::kOpenAiChat, "", deep).has_value());
  EXPECT_FALSE(ReadEvent(Api::kOpenAiChat, "", std::string(1 << 20, '[')).has_value());
  // Brackets inside strings nest nothing.
  EXPECT_TRUE(ReadEvent(Api::kOpenAiChat, "", "\"\\\"" + std::string(300, '[') + "\"").has_value());
}

TEST(ErrorMessage, FindsTheWordsInWhatServersSend) {
  EXPECT_EQ(ErrorMessage(R"({"error":{"message":"a"}})"), "a");
  EXPECT_EQ(ErrorMessage(R"({"error":"b"})"), "b");
  EXPECT_EQ(ErrorMessage(R"({"detail":"c"})"), "c");
  EXPECT_EQ(ErrorMessage(R"({"object":"error","message":"d"})"), "d");
  EXPECT_EQ(ErrorMessage("<html><head><TITLE> e </TITLE>"), "e");
  EXPECT_EQ(ErrorMessage("\n f\ng"), "f");
  EXPECT_EQ(ErrorMessage(" \r\n"), "");
  EXPECT_EQ(ErrorMessage(R"({"x":1})"), R"({"x":1})");
  EXPECT_LE(ErrorMessage(std::string(100'000, 'x')).size(), 520U);
  EXPECT_EQ(ErrorMessage("a\033[31m"), "a [31m");
}

TEST(Utf8, ReplacesEachIllFormedSequence) {
  EXPECT_EQ(ReplaceInvalidUtf8("gr\xC3\xBC\xC3\x9F"), "gr\xC3\xBC\xC3\x9F");
  EXPECT_EQ(ReplaceInvalidUtf8("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F"), "\xEF\xBF\xBD");
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80!"), "\xEF\xBF\xBD!");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(Utf8Prefix("gr\xC3\xBC", 3), "gr");
  EXPECT_EQ(Utf8Prefix("abc", 9), "abc");
}

TEST(Redactor, MasksValuesAndTheirWordsButNoShortOnes) {
  const Redactor redactor(std::vector<Header>{{"Authorization", "Bearer abcdefgh"},
                                              {"X-Api-Key", "k-12"},
                                              {"X-Trace", "on"},
                                              {"X-Long", "0123456789"}});
  EXPECT_EQ(redactor.Apply("abcdefgh k-12 on 0123456789 Bearer"),
            "******** **** on ********** Bearer");
  EXPECT_EQ(redactor.Apply("Bearer abcdefgh"), "***************");
}

TEST(Redactor, FindsASecretThatIsSpreadOverReads) {
  Exchange exchange;
  exchange.reads = {{{1}, 4, {}, "xabc"}, {{2}, 3, {}, "def"}, {{3}, 3, {}, "ghy"}};
  Redactor(std::vector<Header>{{"Cookie", "abcdefgh"}}).Apply(exchange);
  EXPECT_EQ(exchange.reads[0].data, "x***");
  EXPECT_EQ(exchange.reads[1].data, "***");
  EXPECT_EQ(exchange.reads[2].data, "**y");
}

}  // namespace
}  // namespace rouse::wire
