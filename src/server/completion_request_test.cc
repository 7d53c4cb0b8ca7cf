#include "server/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rouse::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CompletionRequest Chat(const std::string& more) {
  const auto request = ParseCompletionRequest(
      R"({"messages":[{"role":"user","content":"a"}])" + more + "}", CompletionKind::kChat);
  EXPECT_TRUE(request.has_value()) << more << ": " << request.error().message;
  return request.value_or(CompletionRequest());
}

ApiError Refusal(const std::string& body, CompletionKind kind = CompletionKind::kChat) {
  const auto request = ParseCompletionRequest(body, kind);
  EXPECT_FALSE(request.has_value()) << body;
  return request.has_value() ? ApiError{.status = 0, .message = ""} : request.error();
}

ApiError ChatRefusal(const std::string& more) {
  return Refusal(R"({"messages":[{"role":"user","content":"a"}])" + more + "}");
}

std::string Messages(const std::string& messages) {
  const auto request =
      ParseCompletionRequest("{\"messages\":" + messages + "}", CompletionKind::kChat);
  EXPECT_TRUE(request.has_value()) << messages;
  return request.has_value() ? request->messages_json : "";
}

TEST(CompletionRequest, HasTheEnginesDefaults) {
  const CompletionRequest request = Chat("");
  EXPECT_EQ(request.max_tokens, -1);
  EXPECT_EQ(request.sampling.temperature, engine::SamplingParams().temperature);
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_TRUE(request.cache_prompt);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.rouse_timeline);
  EXPECT_EQ(request.model, "");
}

TEST(CompletionRequest, TakesNullAsAbsent) {
  const CompletionRequest request = Chat(
      R"(,"max_tokens":null,"temperature":null,"stop":null,"stream":null,"seed":null,"tools":null,)"
      R"("response_format":null,"stream_options":null,"logprobs":null,"n":null)");
  EXPECT_EQ(request.max_tokens, -1);
  EXPECT_FALSE(request.stream);
}

TEST(CompletionRequest, IgnoresFieldsThatItDoesNotKnow) {
  Chat(R"(,"user":"me","metadata":{"a":[1,2]},"store":false,"parallel_tool_calls":true)");
}

TEST(CompletionRequest, AcceptsNeutralValuesOfWhatItCannotDo) {
  Chat(R"(,"n":1,"presence_penalty":0,"frequency_penalty":0.0,"tools":[],"logit_bias":{},)"
       R"("logprobs":false,"echo":false,"response_format":{"type":"text"},"grammar":"")");
}

TEST(CompletionRequest, RefusesWhatItCannotDoByName) {
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
           {"n", "2"},
           {"best_of", "3"},
           {"presence_penalty", "0.5"},
           {"frequency_penalty", "-1"},
           {"tools", R"([{"type":"function"}])"},
           {"functions", "[{}]"},
           {"logit_bias", R"({"5":1})"},
           {"logprobs", "true"},
           {"echo", "true"},
           {"response_format", R"({"type":"json_object"})"},
           {"grammar", R"("root ::= x")"},
       }) {
    const ApiError error = ChatRefusal(",\"" + field + "\":" + value);
    EXPECT_EQ(error.status, 400) << field;
    EXPECT_EQ(error.param, field);
    EXPECT_EQ(error.code, "unsupported_parameter") << field;
  }
}

TEST(CompletionRequest, RefusesWrongTypesByName) {
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
           {"model", "5"},
           {"max_tokens", "\"5\""},
           {"max_tokens", "1.5"},
           {"max_tokens", "-2"},
           {"max_tokens", "1e400"},
           {"max_completion_tokens", "[]"},
           {"temperature", "\"hot\""},
           {"temperature", "-0.1"},
           {"top_p", "1.5"},
           {"top_k", "true"},
           {"min_p", "2"},
           {"seed", "\"x\""},
           {"seed", "1e30"},
           {"stream", "1"},
           {"cache_prompt", "\"yes\""},
           {"rouse_timeline", "0"},
           {"stop", "5"},
           {"stop", "[5]"},
           {"n", "0"},
           {"chat_template_kwargs", "[]"},
       }) {
    const ApiError error = ChatRefusal(",\"" + field + "\":" + value);
    EXPECT_EQ(error.status, 400) << field << " " << value;
    // A number that no double can hold is not JSON to the parser.
    EXPECT_EQ(error.param, value == "1e400" ? "" : field) << value;
  }
}

TEST(CompletionRequest, RefusesStreamOptionsThatMakeNoSense) {
  EXPECT_EQ(ChatRefusal(R"(,"stream_options":{"include_usage":true})").param, "stream_options");
  EXPECT_EQ(ChatRefusal(R"(,"stream":true,"stream_options":[])").param, "stream_options");
  EXPECT_EQ(ChatRefusal(R"(,"stream":true,"stream_options":{"include_usage":1})").param,
            "stream_options.include_usage");
  EXPECT_TRUE(Chat(R"(,"stream":true,"stream_options":{"include_usage":true})").include_usage);
}

TEST(CompletionRequest, TakesTheNewestNameOfTheLimit) {
  EXPECT_EQ(Chat(R"(,"max_tokens":5)").max_tokens, 5);
  EXPECT_EQ(Chat(R"(,"max_tokens":5,"max_completion_tokens":6)").max_tokens, 6);
  EXPECT_EQ(Chat(R"(,"max_completion_tokens":6,"max_tokens":5)").max_tokens, 6);
  EXPECT_EQ(Chat(R"(,"n_predict":7)").max_tokens, 7);
  EXPECT_EQ(Chat(R"(,"max_tokens":8.0)").max_tokens, 8);
  EXPECT_EQ(Chat(R"(,"max_tokens":0)").max_tokens, 0);
}

TEST(CompletionRequest, TakesOneStopOrSeveral) {
  EXPECT_THAT(Chat(R"(,"stop":"x")").stop, ElementsAre("x"));
  EXPECT_THAT(Chat(R"(,"stop":["x","","y"])").stop, ElementsAre("x", "y"));
  EXPECT_EQ(ChatRefusal(R"(,"stop":[)" + std::string(R"("a")") +
                        [] {
                          std::string more;
                          for (int count = 0; count < 16; ++count) more += R"(,"a")";
                          return more;
                        }() +
                        "]")
                .param,
            "stop");
}

TEST(CompletionRequest, ReadsSeedsAsOthersWriteThem) {
  EXPECT_EQ(Chat(R"(,"seed":42)").sampling.seed, 42U);
  EXPECT_EQ(Chat(R"(,"seed":0)").sampling.seed, 0U);
  EXPECT_FALSE(Chat(R"(,"seed":-1)").sampling.seed.has_value());
  EXPECT_EQ(Chat(R"(,"top_k":-1)").sampling.top_k, 0);
}

TEST(CompletionRequest, JoinsTextPartsAndKeepsOtherFieldsOfAMessage) {
  EXPECT_EQ(Messages(R"([{"role":"user","name":"n","content":[{"type":"text","text":"a"},)"
                     R"({"type":"text","text":"b"}]}])"),
            R"([{"role":"user","name":"n","content":"a\nb"}])");
  EXPECT_EQ(Messages(R"([{"role":"assistant","content":null},{"role":"user","content":"ü"}])"),
            R"([{"role":"assistant","content":""},{"role":"user","content":"ü"}])");
  EXPECT_EQ(Messages(R"([{"role":"assistant"},{"role":"user","content":""}])"),
            R"([{"role":"assistant","content":""},{"role":"user","content":""}])");
}

TEST(CompletionRequest, NamesTheMessageThatIsWrong) {
  const auto refusal = [](const std::string& second) {
    return Refusal(R"({"messages":[{"role":"user","content":"a"},)" + second + "]}");
  };
  EXPECT_EQ(refusal("5").param, "messages[1]");
  EXPECT_EQ(refusal(R"({"content":"a"})").param, "messages[1].role");
  EXPECT_EQ(refusal(R"({"role":5,"content":"a"})").param, "messages[1].role");
  EXPECT_EQ(refusal(R"({"role":"user"})").param, "messages[1].content");
  EXPECT_EQ(refusal(R"({"role":"user","content":{}})").param, "messages[1].content");
  EXPECT_EQ(refusal(R"({"role":"user","content":["a"]})").param, "messages[1].content");
  const ApiError image =
      refusal(R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]})");
  EXPECT_EQ(image.code, "unsupported_content");
  EXPECT_THAT(image.message, HasSubstr("image_url"));
  EXPECT_EQ(Refusal(R"({"messages":[]})").param, "messages");
}

TEST(CompletionRequest, TakesAPromptAsTextOrTokens) {
  const auto parse = [](const std::string& prompt) {
    return ParseCompletionRequest("{\"prompt\":" + prompt + "}", CompletionKind::kText);
  };
  EXPECT_EQ(parse(R"("abc")")->prompt, "abc");
  EXPECT_EQ(parse(R"(["abc"])")->prompt, "abc");
  EXPECT_THAT(parse("[1,2,3]")->prompt_tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(parse("[[1,2]]")->prompt_tokens, ElementsAre(1, 2));
  EXPECT_THAT(parse("[7]")->prompt_tokens, ElementsAre(7));
  for (const std::string wrong : {"5", "{}", "[]", R"("")", R"(["a","b"])", "[1,\"a\"]", "[-1]",
                                  "[1.5]", "[4294967296]", "[[[1]]]", "null"}) {
    EXPECT_FALSE(parse(wrong).has_value()) << wrong;
  }
}

TEST(CompletionRequest, RefusesWhatIsNoJsonObject) {
  EXPECT_THAT(Refusal("").message, HasSubstr("not valid JSON"));
  EXPECT_THAT(Refusal("{\"messages\":").message, HasSubstr("not valid JSON"));
  EXPECT_THAT(Refusal("{\"a\":\"\xff\"}").message, HasSubstr("not valid JSON"));
  EXPECT_THAT(Refusal("5").message, HasSubstr("JSON object"));
  EXPECT_THAT(Refusal("null").message, HasSubstr("JSON object"));
}

TEST(CompletionRequest, RefusesDeepNestingWithoutBuildingIt) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(Refusal("{\"a\":" + deep).message, HasSubstr("nested too deep"));
  // Brackets in strings are no nesting.
  Chat(",\"user\":\"\\\"" + std::string(1000, '[') + "\"");
}

TEST(ModelRequest, NeedsAModel) {
  EXPECT_EQ(ParseModelRequest(R"({"model":"a"})")->model, "a");
  EXPECT_FALSE(ParseModelRequest(R"({"model":"a"})")->wait);
  EXPECT_TRUE(ParseModelRequest(R"({"model":"a","wait":true})")->wait);
  EXPECT_EQ(ParseModelRequest("{}").error().param, "model");
  EXPECT_EQ(ParseModelRequest(R"({"model":5})").error().param, "model");
  EXPECT_EQ(ParseModelRequest(R"({"model":"a","wait":1})").error().param, "wait");
}

}  // namespace
}  // namespace rouse::server
