// The whole server over real sockets, with a fake engine that a test can hold back: answers, queue,
// load and unload, and what is refused.
#include "server/model_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/model_server_fixture.h"

namespace rouse::server {
namespace {

using namespace test;  // NOLINT: the fixture
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ModelServerTest, AnswersAWholeChat) {
  Start();
  const Answer answer = Chat(kChat);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json body = answer.Parsed();
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "fake");
  EXPECT_EQ(body["choices"][0]["message"],
            (Json{{"role", "assistant"}, {"content", "one two three"}}));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(body["timings"]["predicted_n"], 3);
  EXPECT_FALSE(body.contains("rouse"));
}

TEST_F(ModelServerTest, StreamsAChatAsStrictClientsExpectIt) {
  Start();
  const Answer answer = Chat(kStream);
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/event-stream"));
  const auto events = Events(answer.body);
  ASSERT_EQ(events.size(), 6U) << answer.body;
  EXPECT_EQ(events[0]["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(events[1]["choices"][0]["delta"], (Json{{"content", "one"}}));
  EXPECT_EQ(events[1]["object"], "chat.completion.chunk");
  EXPECT_TRUE(events[1]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(events[4]["choices"][0]["delta"], Json::object());
  EXPECT_EQ(events[4]["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(events[4].contains("timings"));
  EXPECT_FALSE(events[4].contains("usage"));
  EXPECT_EQ(events[5], "[DONE]");
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(events[i]["id"], events[0]["id"]);
}

TEST_F(ModelServerTest, TellsUsageInAnEventOfItsOwnWhenAsked) {
  Start();
  const auto events = Events(Chat(R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,
      "stream_options":{"include_usage":true}})")
                                 .body);
  ASSERT_EQ(events.size(), 7U);
  EXPECT_TRUE(events[1]["usage"].is_null());
  EXPECT_EQ(events[5]["choices"], Json::array());
  EXPECT_EQ(events[5]["usage"]["completion_tokens"], 3);
}

TEST_F(ModelServerTest, AnswersAPlainCompletionWholeAndStreamed) {
  Start();
  const Json whole = Post("/v1/completions", R"({"prompt":"abc","max_tokens":2})").Parsed();
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_EQ(whole["choices"][0]["text"], "one two");
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(whole["usage"]["prompt_tokens"], 3);
  const auto events = Events(Post("/v1/completions", R"({"prompt":"abc","stream":true})").body);
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0]["choices"][0]["text"], "one");
  EXPECT_EQ(events[3]["choices"][0]["text"], "");
}

TEST_F(ModelServerTest, HandsSamplingAndLimitsToTheEngine) {
  Start();
  Post("/v1/completions",
       R"({"prompt":[5,6],"temperature":0,"top_p":0.5,"top_k":7,"min_p":0.25,"seed":9,)"
       R"("stop":["x","y"],"max_completion_tokens":11,"cache_prompt":false,"ignore_eos":true})");
  ASSERT_EQ(control_->requests.size(), 1U);
  const engine::GenerateRequest& request = control_->requests[0];
  EXPECT_THAT(request.prompt, ElementsAre(5, 6));
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_p, 0.5);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.min_p, 0.25);
  EXPECT_EQ(request.sampling.seed, 9U);
  EXPECT_THAT(request.stop, ElementsAre("x", "y"));
  EXPECT_EQ(request.max_tokens, 11);
  EXPECT_FALSE(request.cache_prompt);
  EXPECT_TRUE(request.ignore_end);
}

TEST_F(ModelServerTest, SendsTheFirstTokenBeforeTheSecondExists) {
  control_->token.Shut();
  Start();
  Client client(server_->port());
  client.Say(PostText("/v1/chat/completions", kStream));
  control_->token.LetPass(1);
  EXPECT_THAT(client.HearUntil("\"one\""), HasSubstr("\"role\":\"assistant\""));
  ASSERT_TRUE(control_->token.AwaitWaiter());
  control_->token.Open();
  client.HearUntil("[DONE]");
}

TEST_F(ModelServerTest, AnswersFromSnapshotsWhileALoadIsHeldBlocked) {
  control_->load.Shut();
  Start();
  ASSERT_TRUE(control_->load.AwaitWaiter());
  std::thread asking([&] { EXPECT_EQ(Chat(kChat).status, 200); });
  ASSERT_TRUE(AwaitHere(1));
  for (int round = 0; round < 20; ++round) {
    const Answer health = Get("/health");
    EXPECT_EQ(health.status, 503);
    EXPECT_EQ(health.body, R"({"status":"loading model"})");
  }
  const Json state = Get("/state").Parsed();
  EXPECT_EQ(state["schema"], "rouse.server_state/1");
  EXPECT_EQ(state["models"][0]["state"], "loading");
  EXPECT_EQ(state["models"][0]["layers"]["weights"], "loading");
  EXPECT_EQ(Get("/v1/models").Parsed()["data"][0]["status"]["value"], "loading");
  EXPECT_EQ(Metric("rouse_model_loading{model=\"fake\"}"), "1");
  EXPECT_EQ(Metric("rouse_requests_running"), "1");
  control_->load.Open();
  asking.join();
  EXPECT_EQ(Get("/health").status, 200);
}

TEST_F(ModelServerTest, IsNeverHealthyBeforeItCouldAnswer) {
  Listen();
  EXPECT_EQ(Get("/health").body, R"({"status":"starting"})");
  EXPECT_EQ(Get("/state").Parsed()["models"], Json::array());
  std::thread asking([&] { EXPECT_EQ(Chat(kChat).status, 200); });
  ASSERT_TRUE(AwaitWaiting(1));
  control_->load.Shut();
  Run();
  ASSERT_TRUE(control_->load.AwaitWaiter());
  EXPECT_EQ(Get("/health").status, 503);
  control_->load.Open();
  asking.join();
  EXPECT_EQ(Get("/health").body, R"({"status":"ok"})");
}

TEST_F(ModelServerTest, ALazyServerSaysUnloadedAndLoadsForTheFirstRequest) {
  Start({}, false);
  const Answer health = Get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.Parsed()["status"], "unloaded");
  EXPECT_THAT(control_->Calls(), ElementsAre());
  EXPECT_EQ(Chat(kChat).status, 200);
  EXPECT_EQ(control_->Calls()[0], "load");
  EXPECT_EQ(Get("/health").status, 200);
}

TEST_F(ModelServerTest, RefusesMoreThanTheQueueHoldsWithATimeToRetry) {
  control_->load.Shut();
  Start({.queue_limit = 2});
  ASSERT_TRUE(control_->load.AwaitWaiter());
  std::vector<std::thread> asking;
  for (int64_t count = 1; count <= 3; ++count) {  // the first one prepares its prompt
    asking.emplace_back([&] { EXPECT_EQ(Chat(kChat).status, 200); });
    ASSERT_TRUE(AwaitHere(count));
  }
  const Answer refused = Chat(kChat);
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.head, HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_EQ(refused.ErrorObject()["type"], "rate_limit_error");
  EXPECT_EQ(refused.ErrorObject()["code"], "queue_full");
  control_->load.Open();
  for (std::thread& thread : asking) thread.join();
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"overload\"}"), "1");
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"ok\"}"), "3");
}

TEST_F(ModelServerTest, AClientThatHangsUpWhileItWaitsLeavesAndAnEagerLoadGoesOn) {
  control_->load.Shut();
  Start();
  ASSERT_TRUE(control_->load.AwaitWaiter());
  {
    Client client(server_->port());
    client.Say(PostText("/v1/chat/completions", kStream));
    ASSERT_TRUE(AwaitHere(1));
  }
  ASSERT_TRUE(AwaitHere(0));
  control_->load.Open();
  ASSERT_TRUE(AwaitHealth(200));
  EXPECT_THAT(control_->Calls(), ElementsAre("load"));
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"cancelled\"}"), "1");
}

TEST_F(ModelServerTest, AClientThatHangsUpCancelsItsAnswerAtTheNextToken) {
  control_->token.Shut();
  Start();
  int cancelled = 0;
  for (const std::string& body : {kStream, kChat}) {
    control_->token.LetPass(1);
    {
      Client client(server_->port());
      client.Say(PostText("/v1/chat/completions", body));
      if (body == kStream) client.HearUntil("\"one\"");
      ASSERT_TRUE(control_->token.AwaitWaiter());
    }
    ASSERT_TRUE(AwaitCalls("cancelled", ++cancelled));
  }
  control_->token.Open();
  EXPECT_EQ(Chat(kChat).status, 200);
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"cancelled\"}"), "2");
}

TEST_F(ModelServerTest, AnswersOneAfterTheOther) {
  control_->token.Shut();
  Start();
  std::vector<std::thread> asking;
  for (int count = 0; count < 4; ++count) {
    asking.emplace_back([&] { EXPECT_EQ(Chat(kChat).status, 200); });
  }
  ASSERT_TRUE(AwaitWaiting(3));
  control_->token.Open();
  for (std::thread& thread : asking) thread.join();
  EXPECT_EQ(control_->requests.size(), 4U);
}

TEST_F(ModelServerTest, UnloadsWhenAskedAndSaysWhenItIsDone) {
  Start();
  ASSERT_TRUE(AwaitHealth(200));
  EXPECT_EQ(Post("/models/unload", R"({"model":"fake"})").body, R"({"success":true})");
  EXPECT_EQ(Get("/health").Parsed()["status"], "unloaded");
  const Json model = Get("/state").Parsed()["models"][0];
  EXPECT_EQ(model["layers"]["weights"], "absent");
  EXPECT_EQ(model["layers"]["tokenizer"], "ready");
  EXPECT_EQ(Chat(kChat).status, 200);
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_THAT(control_->Calls(), ElementsAre("load", "unload", "load", testing::_));
}

TEST_F(ModelServerTest, LoadAnswersAtOnceUnlessAskedToWait) {
  control_->load.Shut();
  Start({}, false);
  EXPECT_EQ(Post("/models/load", R"({"model":"fake"})").body, R"({"success":true})");
  ASSERT_TRUE(control_->load.AwaitWaiter());
  EXPECT_EQ(Get("/health").Parsed()["status"], "loading model");
  Client waiting(server_->port());
  waiting.Say(PostText("/models/load", R"({"model":"fake","wait":true})"));
  control_->load.Open();
  EXPECT_THAT(waiting.HearUntil("}"), EndsWith(R"({"success":true})"));
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_THAT(control_->Calls(), ElementsAre("load"));
}

TEST_F(ModelServerTest, AFailedLoadIsToldAndTriedAgain) {
  control_->load_error = Error(ErrorCode::kExhausted, "no memory for --context");
  Start({}, false);
  const Answer answer = Chat(kChat);
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.ErrorObject()["type"], "unavailable_error");
  EXPECT_EQ(answer.ErrorObject()["message"], "no memory for --context");
  const Answer health = Get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.Parsed()["status"], "load failed");
  EXPECT_EQ(Get("/state").Parsed()["models"][0]["failure"], "no memory for --context");
  {
    const std::lock_guard lock(control_->mutex);
    control_->load_error.reset();
  }
  EXPECT_EQ(Chat(kChat).status, 200);
  EXPECT_EQ(Metric("rouse_loads_total{result=\"failed\"}"), "1");
}

TEST_F(ModelServerTest, TheFirstLoadsFailureIsTheOwnersAfterThoseWhoWaitedWereTold) {
  control_->load.Shut();
  control_->load_error = Error(ErrorCode::kUnsupported, "unknown architecture");
  Start();
  Answer answer;
  std::thread asking([&] { answer = Chat(kChat); });
  ASSERT_TRUE(AwaitHere(1));
  control_->load.Open();
  EXPECT_TRUE(failed_.Wait());
  asking.join();
  EXPECT_EQ(failure_, "unknown architecture");
  EXPECT_EQ(answer.ErrorObject()["message"], "unknown architecture");
}

// Whatever the engine calls it, the request is not at fault.
TEST_F(ModelServerTest, NoLoadsFailureIsTheRequestsFault) {
  Start({}, false);
  for (const ErrorCode code :
       {ErrorCode::kUsage, ErrorCode::kUnsupported, ErrorCode::kCorrupt, ErrorCode::kInternal}) {
    {
      const std::lock_guard lock(control_->mutex);
      control_->load_error = Error(code, "this runtime can't");
    }
    control_->load.Shut();
    Answer first;
    std::thread asking([&] { first = Chat(kChat); });
    ASSERT_TRUE(control_->load.AwaitWaiter());
    Answer second;
    std::thread waiting([&] { second = Chat(kChat); });
    ASSERT_TRUE(AwaitHere(2));
    control_->load.Open();
    asking.join();
    waiting.join();
    const Answer asked = Post("/models/load", R"({"model":"fake","wait":true})");
    for (const Answer& answer : {first, second, asked}) {
      EXPECT_EQ(answer.status, 503);
      EXPECT_EQ(answer.ErrorObject()["type"], "unavailable_error");
      EXPECT_EQ(answer.ErrorObject()["message"], "this runtime can't");
    }
  }
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"failed\"}"), "8");
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"refused\"}"), "0");
}

// A request that is refused for its own sake stops the load that only it wanted; one that had
// failed by itself is still told.
TEST_F(ModelServerTest, AWrongRequestHidesNoFailedLoad) {
  control_->load_error = Error(ErrorCode::kExhausted, "no memory for --context");
  Start({}, false);
  const Answer answer = Chat(R"({"messages":[{"role":"forbidden-role","content":"a"}]})");
  EXPECT_EQ(answer.status, 400);
  ASSERT_TRUE(AwaitHere(0));
  EXPECT_EQ(Get("/state").Parsed()["models"][0]["failure"], "no memory for --context");
  const std::lock_guard lock(log_mutex_);
  EXPECT_THAT(log_, HasSubstr("cannot load fake: no memory for --context"));
}

TEST_F(ModelServerTest, RefusesWhatIsWrongWithTheRequest) {
  Start();
  struct Case {
    std::string body;
    int status;
    std::string param;
    std::string words;
  };
  const std::vector<Case> cases = {
      {"{", 400, "", "not valid JSON"},
      {"[]", 400, "", "must be a JSON object"},
      {"{}", 400, "messages", "required"},
      {R"({"messages":"hi"})", 400, "messages", "array"},
      {R"({"messages":[{"role":"user","content":5}]})", 400, "messages[0].content", "string"},
      {R"({"messages":[{"role":"user","content":"a"}],"max_tokens":"x"})", 400, "max_tokens",
       "whole number"},
      {R"({"messages":[{"role":"user","content":"a"}],"n":2})", 400, "n", "other than 1"},
      {R"({"messages":[{"role":"user","content":"a"}],"model":"gpt"})", 404, "model", "\"fake\""},
      {R"({"messages":[{"role":"forbidden-role","content":"a"}]})", 400, "messages", "template"},
  };
  for (const Case& one : cases) {
    const Answer answer = Chat(one.body);
    EXPECT_EQ(answer.status, one.status) << one.body;
    const Json error = answer.ErrorObject();
    EXPECT_THAT(error.value("message", ""), HasSubstr(one.words));
    EXPECT_EQ(error["param"], one.param.empty() ? Json() : Json(one.param)) << one.body;
    EXPECT_TRUE(error["type"].is_string());
  }
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"refused\"}"), std::to_string(cases.size()));
}

TEST_F(ModelServerTest, SaysBothNumbersWhenThePromptIsTooLong) {
  Start();
  const Answer fits =
      Post("/v1/completions", "{\"prompt\":\"" + std::string(99, 'x') + "\",\"max_tokens\":1}");
  EXPECT_EQ(fits.status, 200);
  const Answer long_one = Post("/v1/completions", "{\"prompt\":\"" + std::string(123, 'x') + "\"}");
  EXPECT_EQ(long_one.status, 400);
  const Json error = long_one.ErrorObject();
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_THAT(error.value("message", ""), AllOf(HasSubstr("123"), HasSubstr("100")));
}

TEST_F(ModelServerTest, RefusesWrongPathsMethodsAndBodies) {
  Start();
  EXPECT_EQ(Get("/nothing").status, 404);
  EXPECT_EQ(Get("/nothing").ErrorObject()["code"], "path_not_found");
  const Answer method = Get("/v1/chat/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_THAT(method.head, HasSubstr("\r\nAllow: POST\r\n"));
  EXPECT_EQ(Post("/health", "").status, 405);
  const Answer large = Chat(std::string((8U << 20U) + 1, 'x'));
  EXPECT_EQ(large.status, 413);
  EXPECT_THAT(large.ErrorObject().value("message", ""), HasSubstr("8388608"));
  EXPECT_EQ(Post("/models/load", R"({"model":"other"})").status, 404);
  EXPECT_EQ(Post("/models/unload", "{}").ErrorObject()["param"], "model");
}

TEST_F(ModelServerTest, ParsesALargeBodyOffTheIoThread) {
  Start();
  const std::string content(1U << 20U, 'x');
  const Answer answer = Post("/v1/completions", "{\"prompt\":\"" + content + "\"}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.ErrorObject().value("message", ""), HasSubstr("1048576"));
}

TEST_F(ModelServerTest, AsksForTheKeyEverywhereButOnHealth) {
  Start({.api_key = "secret-key"});
  ASSERT_TRUE(AwaitHealth(200));
  for (const char* const path : {"/v1/models", "/state", "/metrics"}) {
    const Answer answer = Get(path);
    EXPECT_EQ(answer.status, 401) << path;
    EXPECT_THAT(answer.head, HasSubstr("WWW-Authenticate: Bearer"));
    EXPECT_EQ(answer.ErrorObject()["code"], "invalid_api_key");
  }
  EXPECT_EQ(Chat(kChat).status, 401);
  const auto with = [&](const std::string& header) {
    return Ask(server_->port(), PostText("/v1/chat/completions", kChat, header + "\r\n")).status;
  };
  EXPECT_EQ(with("Authorization: Bearer secret-key"), 200);
  EXPECT_EQ(with("X-Api-Key: secret-key"), 200);
  EXPECT_EQ(with("Authorization: Bearer secret-keys"), 401);
  EXPECT_EQ(with("Authorization: Bearer secret-ke"), 401);
  EXPECT_EQ(with("Authorization: Bearer "), 401);
  EXPECT_EQ(with("Authorization: Basic secret-key"), 401);
}

TEST_F(ModelServerTest, AFailureInTheMiddleOfAStreamIsAnErrorEvent) {
  control_->fail_after_pieces = 1;
  Start();
  const Answer answer = Chat(kStream);
  EXPECT_EQ(answer.status, 200);
  const auto events = Events(answer.body);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2]["error"]["message"], "the engine broke");
  EXPECT_THAT(answer.body, Not(HasSubstr("[DONE]")));
  // Before the first token it is a status.
  control_->fail_after_pieces = 0;
  EXPECT_EQ(Chat(kStream).status, 500);
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"failed\"}"), "2");
}

TEST_F(ModelServerTest, AnAnswerWithoutTextIsStillAnAnswer) {
  control_->pieces.clear();
  Start();
  const auto events = Events(Chat(kStream).body);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(Chat(kChat).Parsed()["choices"][0]["message"]["content"], "");
}

}  // namespace
}  // namespace rouse::server
