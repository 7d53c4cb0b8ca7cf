// The whole server over real sockets, with a fake engine that a test can hold back: timelines,
// estimates, residency, and the end.
#include "server/model_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/model_server_fixture.h"

namespace rouse::server {
namespace {

using namespace test;  // NOLINT: the fixture
using ::testing::EndsWith;
using ::testing::HasSubstr;

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
  ASSERT_TRUE(AwaitHere(1));
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
  // The prompt was prepared beside the load.
  ASSERT_EQ(timeline["lanes"].size(), 3U);
  EXPECT_EQ(timeline["lanes"][0]["name"], "weights");
  EXPECT_EQ(timeline["lanes"][0]["bytes"], 1000);
  EXPECT_LT(timeline["lanes"][0]["start_ns"], segments[0]["start_ns"]);
  EXPECT_EQ(timeline["lanes"][1]["name"], "prompt");
  EXPECT_LT(timeline["lanes"][1]["end_ns"], timeline["lanes"][2]["end_ns"]);
  for (const Json& segment : segments) EXPECT_NE(segment["stage"], "tokenize");
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
  model = Get("/state").Parsed()["models"][0];
  ASSERT_TRUE(model["eta_first_token_ns"].is_number());
  const int64_t warm_ns = model["eta_first_token_ns"];
  EXPECT_GT(warm_ns, 0);
  EXPECT_LT(warm_ns, 20 * kNsPerMs);
  // Unloaded, the tokenizer is kept, and no load of that kind was measured. One that somebody waits
  // for is.
  Post("/models/unload", R"({"model":"fake"})");
  EXPECT_TRUE(Get("/state").Parsed()["models"][0]["eta_first_token_ns"].is_null());
  EXPECT_EQ(Chat(kChat).status, 200);
  Post("/models/unload", R"({"model":"fake"})");
  model = Get("/state").Parsed()["models"][0];
  ASSERT_TRUE(model["eta_first_token_ns"].is_number());
  EXPECT_GE(model["eta_first_token_ns"], 40 * kNsPerMs);
  EXPECT_EQ(model["tiers"]["unloaded"]["first_token_ns"], model["eta_first_token_ns"]);
}

TEST_F(ModelServerTest, SleepsWhenAskedAndTellsWhatEachTierCosts) {
  Start();
  ASSERT_TRUE(AwaitHealth(200));
  EXPECT_EQ(Post("/models/sleep", R"({"model":"fake"})").body, R"({"success":true})");
  const Answer health = Get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.Parsed()["status"], "asleep");
  Json model = Get("/state").Parsed()["models"][0];
  EXPECT_EQ(model["state"], "asleep");
  EXPECT_EQ(model["layers"]["weights"], "asleep");
  EXPECT_EQ(model["layers"]["context"], "asleep");
  EXPECT_EQ(model["layers"]["tokenizer"], "ready");
  EXPECT_TRUE(model["eta_first_token_ns"].is_null());
  EXPECT_TRUE(model["tiers"]["asleep"]["first_token_ns"].is_null());
  EXPECT_EQ(Get("/v1/models").Parsed()["data"][0]["status"]["value"], "asleep");
  EXPECT_EQ(Metric("rouse_model_tier{model=\"fake\",tier=\"asleep\"}"), "1");
  EXPECT_EQ(Chat(kChat).status, 200);
  EXPECT_EQ(Get("/health").status, 200);
  Post("/models/sleep", R"({"model":"fake"})");
  Post("/models/sleep", R"({"model":"fake"})");  // is asleep already
  model = Get("/state").Parsed()["models"][0];
  EXPECT_GT(model["tiers"]["asleep"]["first_token_ns"], 0);
  EXPECT_EQ(model["eta_first_token_ns"], model["tiers"]["asleep"]["first_token_ns"]);
  EXPECT_EQ(Metric("rouse_sleeps_total"), "2");
  const auto calls = control_->Calls();
  // The engine is asked each time: pages may have come into the process since.
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "sleep"), 3);
}

TEST_F(ModelServerTest, TellsWhatTheContextWasMadeOf) {
  Start();
  ASSERT_TRUE(AwaitHealth(200));
  const Json details = Get("/state").Parsed()["models"][0]["layer_details"];
  EXPECT_EQ(details["context"]["threads"], 2);
  EXPECT_EQ(details["context"]["flash_attention"], "on");
  EXPECT_EQ(details["context"]["cache_type_k"], "q8_0");
  EXPECT_TRUE(details["context"]["cache_type_v"].is_null());
  EXPECT_EQ(details["prefix"]["bytes"], 77);
}

TEST_F(ModelServerTest, SaysWhyItCantSleep) {
  control_->sleep_error = Error(ErrorCode::kUnsupported, "the weights are repacked");
  Start();
  ASSERT_TRUE(AwaitHealth(200));
  const Answer answer = Post("/models/sleep", R"({"model":"fake"})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.ErrorObject()["message"], "the weights are repacked");
  EXPECT_EQ(Get("/health").status, 200);
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
