// The whole server over real sockets, with a fake engine that a test can hold back.
#include "server/model_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "http/test_client.h"
#include "server/fake_engine.h"

namespace rouse::server {
namespace {

using http::test::Client;
using http::test::Signal;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::string PostText(const std::string& path, const std::string& body,
                     const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string GetText(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n";
}

struct Answer {
  int status = 0;
  std::string head;
  std::string body;  // chunks joined
  Json Parsed() const { return Json::parse(body, nullptr, false); }
  Json ErrorObject() const { return Parsed().value("error", Json::object()); }
};

// Asks on a connection of its own and waits for the whole answer.
Answer Ask(int port, std::string request) {
  request.insert(request.find("\r\n") + 2, "Connection: close\r\n");
  Client client(port);
  client.Say(request);
  const std::string heard = client.HearAll();
  Answer answer;
  const size_t blank = heard.find("\r\n\r\n");
  if (blank == std::string::npos || heard.size() < 12) return answer;
  answer.status = std::stoi(heard.substr(9, 3));
  answer.head = heard.substr(0, blank + 2);
  std::string_view rest = std::string_view(heard).substr(blank + 4);
  if (answer.head.find("chunked") == std::string::npos) {
    answer.body = rest;
    return answer;
  }
  while (!rest.empty()) {
    const size_t line = rest.find("\r\n");
    const size_t size = std::stoul(std::string(rest.substr(0, line)), nullptr, 16);
    if (size == 0) break;
    answer.body += rest.substr(line + 2, size);
    rest.remove_prefix(line + 2 + size + 2);
  }
  return answer;
}

// The JSON of every "data: " event; "[DONE]" as a string.
std::vector<Json> Events(const std::string& body) {
  std::vector<Json> events;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    const std::string event = body.substr(at, end - at);
    EXPECT_THAT(event, StartsWith("data: "));
    const std::string data = event.substr(6);
    events.push_back(data == "[DONE]" ? Json(data) : Json::parse(data, nullptr, false));
    if (end == std::string::npos) break;
    at = end + 2;
  }
  return events;
}

const std::string kChat = R"({"messages":[{"role":"user","content":"Hi"}]})";
const std::string kStream = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})";

class ModelServerTest : public ::testing::Test {
 protected:
  void Start(ModelServerOptions options = {}, bool load_now = true) {
    Listen(std::move(options));
    Run(load_now);
  }

  void Listen(ModelServerOptions options = {}) {
    options.log = [this](LogLevel, const std::string& line) {
      const std::lock_guard lock(log_mutex_);
      log_ += line + "\n";
    };
    auto server = ModelServer::Start(std::move(options));
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
  }

  void Run(bool load_now = true) {
    file_ = ::testing::TempDir() + "model_server_test_" + std::to_string(::getpid());
    std::ofstream(file_) << std::string(10'000, 'x');
    ModelServer::RunOptions run;
    run.model = {"fake", file_, {file_}, 10'000, {}};
    run.engine = std::make_unique<FakeEngine>(control_);
    run.load_now = load_now;
    run.on_first_load_failed = [this](const Error& error) {
      failure_ = error.message();
      failed_.Set();
    };
    server_->Run(std::move(run));
  }

  void TearDown() override {
    control_->load.Open();
    control_->token.Open();
    server_.reset();
    if (!file_.empty()) ::unlink(file_.c_str());
  }

  Answer Get(const std::string& path) { return Ask(server_->port(), GetText(path)); }
  Answer Post(const std::string& path, const std::string& body) {
    return Ask(server_->port(), PostText(path, body));
  }
  Answer Chat(const std::string& body) { return Post("/v1/chat/completions", body); }

  bool AwaitHealth(int status) {
    for (int tries = 0; tries < 5000; ++tries) {
      if (Get("/health").status == status) return true;
      ::usleep(2000);
    }
    return false;
  }
  bool AwaitWaiting(int64_t waiting) {
    for (int tries = 0; tries < 5000; ++tries) {
      if (Get("/state").Parsed()["queue"]["waiting"] == waiting) return true;
      ::usleep(2000);
    }
    return false;
  }
  bool AwaitCall(const std::string& call) {
    for (int tries = 0; tries < 5000; ++tries) {
      const auto calls = control_->Calls();
      if (std::count(calls.begin(), calls.end(), call) > 0) return true;
      ::usleep(2000);
    }
    return false;
  }
  std::string Metric(const std::string& name) {
    const std::string text = "\n" + Get("/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    if (at == std::string::npos) return "";
    const size_t value = at + name.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }

  std::shared_ptr<FakeControl> control_ = std::make_shared<FakeControl>();
  std::string file_;
  std::mutex log_mutex_;
  std::string log_;
  std::string failure_;
  Signal failed_;
  std::unique_ptr<ModelServer> server_;
};

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
  ASSERT_TRUE(AwaitWaiting(1));
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
  EXPECT_EQ(Metric("rouse_queue_waiting"), "1");
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
  for (int64_t count = 1; count <= 2; ++count) {
    asking.emplace_back([&] { EXPECT_EQ(Chat(kChat).status, 200); });
    ASSERT_TRUE(AwaitWaiting(count));
  }
  const Answer refused = Chat(kChat);
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.head, HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_EQ(refused.ErrorObject()["type"], "rate_limit_error");
  EXPECT_EQ(refused.ErrorObject()["code"], "queue_full");
  control_->load.Open();
  for (std::thread& thread : asking) thread.join();
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"overload\"}"), "1");
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"ok\"}"), "2");
}

TEST_F(ModelServerTest, AClientThatHangsUpWhileItWaitsLeavesTheQueueAndTheLoadGoesOn) {
  control_->load.Shut();
  Start();
  ASSERT_TRUE(control_->load.AwaitWaiter());
  {
    Client client(server_->port());
    client.Say(PostText("/v1/chat/completions", kStream));
    ASSERT_TRUE(AwaitWaiting(1));
  }
  ASSERT_TRUE(AwaitWaiting(0));
  control_->load.Open();
  ASSERT_TRUE(AwaitHealth(200));
  EXPECT_THAT(control_->Calls(), ElementsAre("load"));
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"cancelled\"}"), "1");
}

TEST_F(ModelServerTest, AClientThatHangsUpCancelsItsAnswerAtTheNextToken) {
  control_->token.Shut();
  Start();
  for (const std::string& body : {kStream, kChat}) {
    control_->token.LetPass(1);
    {
      Client client(server_->port());
      client.Say(PostText("/v1/chat/completions", body));
      if (body == kStream) client.HearUntil("\"one\"");
      ASSERT_TRUE(control_->token.AwaitWaiter());
    }
    ASSERT_TRUE(AwaitCall("cancelled"));
    control_->Record("next");
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
  ASSERT_TRUE(AwaitWaiting(1));
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
  ASSERT_TRUE(AwaitWaiting(1));
  control_->load.Open();
  EXPECT_TRUE(failed_.Wait());
  asking.join();
  EXPECT_EQ(failure_, "unknown architecture");
  EXPECT_EQ(answer.ErrorObject()["message"], "unknown architecture");
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

// Segments do not overlap, leave no gap, and begin and end where the request did.
void ExpectTiles(const Json& timeline, MonoTime before, MonoTime after) {
  EXPECT_EQ(timeline["schema"], "rouse.timeline/1");
  EXPECT_EQ(timeline["clock"], "monotonic");
  const Json& segments = timeline["segments"];
  ASSERT_GE(segments.size(), 3U);
  EXPECT_GE(segments.front()["start_ns"], before.ns);
  EXPECT_LE(segments.back()["end_ns"], after.ns);
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_LT(segments[i]["start_ns"], segments[i]["end_ns"]);
    const Json& joint = i == 0 ? segments[0]["start_ns"] : segments[i - 1]["end_ns"];
    EXPECT_EQ(segments[i]["start_ns"], joint);
  }
  EXPECT_EQ(segments.front()["stage"], "queue");
  EXPECT_EQ(segments.back()["stage"], "first_decode");
}

TEST_F(ModelServerTest, ATimelineTilesTheRequestFromAcceptToItsFirstToken) {
  control_->cached_tokens = 4;
  Start();
  ASSERT_TRUE(AwaitHealth(200));
  for (const bool stream : {true, false}) {
    const std::string body = std::string(R"({"messages":[{"role":"user","content":"Hi"}],)") +
                             R"("rouse_timeline":true,"stream":)" + (stream ? "true}" : "false}");
    const MonoTime before = MonoNow();
    const Answer answer = Chat(body);
    const MonoTime after = MonoNow();
    const auto events = stream ? Events(answer.body) : std::vector<Json>();
    const Json last = stream ? events[events.size() - 2] : answer.Parsed();
    ASSERT_TRUE(last.contains("rouse")) << answer.body;
    ExpectTiles(last["rouse"], before, after);
    EXPECT_EQ(last["rouse"]["cached_tokens"], 4);
    EXPECT_EQ(last["rouse"]["lanes"], Json::array());
    EXPECT_EQ(last["rouse"]["process"]["pid"], ::getpid());
    EXPECT_LE(last["rouse"]["process"]["exec_start_ns"], before.ns);
    for (size_t i = 0; i + 2 < events.size(); ++i) EXPECT_FALSE(events[i].contains("rouse"));
  }
}

TEST_F(ModelServerTest, ATimelineGivesTheWaitForALoadToItsSteps) {
  control_->load.Shut();
  control_->load_steps_ns = 30 * kNsPerMs;
  Start();
  ASSERT_TRUE(control_->load.AwaitWaiter());
  const MonoTime before = MonoNow();
  Answer answer;
  std::thread asking([&] {
    answer = Chat(R"({"messages":[{"role":"user","content":"Hi"}],"rouse_timeline":true})");
  });
  ASSERT_TRUE(AwaitWaiting(1));
  control_->load.Open();
  asking.join();
  const Json timeline = answer.Parsed()["rouse"];
  const Json& segments = timeline["segments"];
  ASSERT_GE(segments.size(), 4U) << timeline;
  EXPECT_GE(segments[0]["start_ns"], before.ns);
  // It came in the middle of the load: no queue, and the first step counts from its arrival on.
  EXPECT_EQ(segments[0]["stage"], "weights");
  EXPECT_EQ(segments[1]["stage"], "runtime_init");
  EXPECT_GE(segments[1]["end_ns"].get<int64_t>() - segments[1]["start_ns"].get<int64_t>(),
            30 * kNsPerMs);
  ASSERT_EQ(timeline["lanes"].size(), 2U);
  EXPECT_EQ(timeline["lanes"][0]["name"], "weights");
  EXPECT_EQ(timeline["lanes"][0]["bytes"], 1000);
  EXPECT_LT(timeline["lanes"][0]["start_ns"], segments[0]["start_ns"]);
}

TEST_F(ModelServerTest, WaitingForOthersIsQueueAlsoBehindALoad) {
  Start({}, false);
  control_->token.Shut();
  std::thread first([&] { EXPECT_EQ(Chat(kChat).status, 200); });
  ASSERT_TRUE(control_->token.AwaitWaiter());
  Answer answer;
  std::thread second([&] {
    answer = Chat(R"({"messages":[{"role":"user","content":"Hi"}],"rouse_timeline":true})");
  });
  ASSERT_TRUE(AwaitWaiting(1));
  ::usleep(30'000);
  control_->token.Open();
  first.join();
  second.join();
  const Json segment = answer.Parsed()["rouse"]["segments"][0];
  EXPECT_EQ(segment["stage"], "queue");
  EXPECT_GE(segment["end_ns"].get<int64_t>() - segment["start_ns"].get<int64_t>(), 30 * kNsPerMs);
}

TEST_F(ModelServerTest, EstimatesTheFirstTokenOnlyFromWhatItMeasured) {
  control_->load_steps_ns = 20 * kNsPerMs;
  Start();
  ASSERT_TRUE(AwaitHealth(200));
  Json model = Get("/state").Parsed()["models"][0];
  EXPECT_TRUE(model["eta_first_token_ns"].is_null());
  EXPECT_THAT(model["null_reasons"].value("eta_first_token_ns", ""), HasSubstr("no request"));
  EXPECT_EQ(Chat(kChat).status, 200);
  // The answer is sent before the request is entered into the history.
  int64_t warm_ns = 0;
  for (int tries = 0; tries < 5000 && warm_ns == 0; ++tries) {
    model = Get("/state").Parsed()["models"][0];
    if (model["eta_first_token_ns"].is_number()) warm_ns = model["eta_first_token_ns"];
  }
  EXPECT_GT(warm_ns, 0);
  EXPECT_LT(warm_ns, 20 * kNsPerMs);
  // The tokenizer is kept now, and no load of that kind was measured.
  Post("/models/unload", R"({"model":"fake"})");
  EXPECT_TRUE(Get("/state").Parsed()["models"][0]["eta_first_token_ns"].is_null());
  Post("/models/load", R"({"model":"fake","wait":true})");
  Post("/models/unload", R"({"model":"fake"})");
  const Json asleep = Get("/state").Parsed()["models"][0]["eta_first_token_ns"];
  ASSERT_TRUE(asleep.is_number());
  EXPECT_GE(asleep, 40 * kNsPerMs);
}

TEST_F(ModelServerTest, ReadsTheFilesResidency) {
  Start();
  const Json model = Get("/state").Parsed()["models"][0];
  EXPECT_EQ(model["bytes"], 10'000);
  EXPECT_EQ(model["resident_ratio"], 1.0);
  EXPECT_EQ(model["layers"]["page_cache"], "warm");
  ::unlink(file_.c_str());
  const Json gone = Get("/state").Parsed()["models"][0];
  EXPECT_TRUE(gone["resident_ratio"].is_null());
  EXPECT_EQ(gone["layers"]["page_cache"], "unknown");
  EXPECT_FALSE(gone["null_reasons"].value("resident_ratio", "").empty());
}

TEST_F(ModelServerTest, DrainFinishesWhatWaitsAndWhatRuns) {
  control_->token.Shut();
  Start();
  Answer first;
  Answer second;
  std::thread one([&] { first = Chat(kStream); });
  ASSERT_TRUE(control_->token.AwaitWaiter());
  std::thread two([&] { second = Chat(kChat); });
  ASSERT_TRUE(AwaitWaiting(1));
  Signal drained;
  server_->Drain([&] { drained.Set(); });
  EXPECT_FALSE(drained.Wait(30 * kNsPerMs));
  control_->token.Open();
  one.join();
  two.join();
  EXPECT_THAT(first.body, EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(second.status, 200);
  EXPECT_TRUE(drained.Wait());
  EXPECT_FALSE(Client(server_->port()).connected());
}

TEST_F(ModelServerTest, StopInterruptsALoadAndAnAnswer) {
  control_->load.Shut();
  Start();
  ASSERT_TRUE(control_->load.AwaitWaiter());
  server_->Stop();  // would wait for ever if the load were not interrupted
  control_->load.Open();
  server_.reset();

  control_->token.Shut();
  Start();
  std::thread asking([&] { EXPECT_EQ(Chat(kStream).status, 0); });
  ASSERT_TRUE(control_->token.AwaitWaiter());
  server_->Stop();
  asking.join();
}

}  // namespace
}  // namespace rouse::server
