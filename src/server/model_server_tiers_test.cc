// The whole server over real sockets, with a fake engine: sleep and unload by themselves, work for
// later requests, loads that nobody waits for any more, and files that change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "server/model_server_fixture.h"

namespace rouse::server {
namespace {

using namespace test;  // NOLINT: the fixture
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = kNsPerMs;

TEST_F(ModelServerTest, SleepsAndThenUnloadsWhenNobodyAsks) {
  Start({}, true, {.sleep_after_ns = 50 * kMs, .unload_after_ns = 200 * kMs});
  ASSERT_TRUE(AwaitCalls("sleep", 1));
  ASSERT_TRUE(AwaitCalls("unload", 1));
  EXPECT_EQ(Get("/health").Parsed()["status"], "unloaded");
  EXPECT_EQ(Chat(kChat).status, 200);
  ASSERT_TRUE(AwaitCalls("sleep", 2));
}

TEST_F(ModelServerTest, WhatCantSleepIsUnloadedInstead) {
  control_->sleep_error = Error(ErrorCode::kUnsupported, "repacked");
  Start({}, true, {.sleep_after_ns = 30 * kMs, .unload_after_ns = {}});
  ASSERT_TRUE(AwaitCalls("unload", 1));
  EXPECT_EQ(Get("/health").Parsed()["status"], "unloaded");
}

TEST_F(ModelServerTest, NeitherSleepsNorUnloadsUnlessToldTo) {
  Start();
  ASSERT_TRUE(AwaitHealth(200));
  ASSERT_TRUE(AwaitCalls("improve", 1));  // that is later than the times above
  EXPECT_THAT(control_->Calls(), Not(Contains("sleep")));
  EXPECT_EQ(Get("/health").status, 200);
}

TEST_F(ModelServerTest, ImprovesUntilNothingIsLeftAndStopsForARequest) {
  control_->improvements = {"repacked", "locked"};
  control_->improve.Shut();
  Start();
  ASSERT_TRUE(control_->improve.AwaitWaiter());
  // The door stays shut: only the request can end that wait.
  EXPECT_EQ(Chat(kChat).status, 200);
  control_->improve.Open();
  ASSERT_TRUE(AwaitCalls("improve", 4));  // interrupted, two pieces of work, and nothing left
  ::usleep(50'000);
  const auto calls = control_->Calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "improve"), 4);
}

TEST_F(ModelServerTest, ALoadThatNobodyWaitsForAnyMoreIsStopped) {
  control_->load.Shut();
  Start({}, false);
  {
    Client first(server_->port());
    first.Say(PostText("/v1/chat/completions", kChat));
    ASSERT_TRUE(control_->load.AwaitWaiter());
    Client second(server_->port());
    second.Say(PostText("/v1/chat/completions", kStream));
    ASSERT_TRUE(AwaitHere(2));
  }
  // The door is still shut: the load has ended by being stopped.
  ASSERT_TRUE(AwaitHere(0));
  for (int tries = 0; tries < 1000; ++tries) {
    if (Get("/health").Parsed()["status"] == "unloaded") break;
    ::usleep(2000);
  }
  EXPECT_EQ(Get("/health").Parsed()["status"], "unloaded");
  EXPECT_EQ(Metric("rouse_requests_total{outcome=\"cancelled\"}"), "2");
  control_->load.Open();
  EXPECT_EQ(Chat(kChat).status, 200);
}

TEST_F(ModelServerTest, ALoadThatAnotherClientWaitsForGoesOn) {
  control_->load.Shut();
  Start({}, false);
  Answer answer;
  std::thread waiting;
  {
    Client first(server_->port());
    first.Say(PostText("/v1/chat/completions", kChat));
    ASSERT_TRUE(control_->load.AwaitWaiter());
    waiting = std::thread([&] { answer = Chat(kChat); });
    ASSERT_TRUE(AwaitHere(2));
  }
  ASSERT_TRUE(AwaitHere(1));
  control_->load.Open();
  waiting.join();
  EXPECT_EQ(answer.status, 200);
  const auto calls = control_->Calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "load"), 1);
}

TEST_F(ModelServerTest, AnEagerOrAskedLoadIsNotStoppedByAClientThatGoes) {
  control_->load.Shut();
  Start({}, false);
  EXPECT_EQ(Post("/models/load", R"({"model":"fake"})").status, 200);
  ASSERT_TRUE(control_->load.AwaitWaiter());
  {
    Client client(server_->port());
    client.Say(PostText("/v1/chat/completions", kChat));
    ASSERT_TRUE(AwaitHere(1));
  }
  ASSERT_TRUE(AwaitHere(0));
  EXPECT_EQ(Get("/health").Parsed()["status"], "loading model");
  control_->load.Open();
  ASSERT_TRUE(AwaitHealth(200));
}

TEST_F(ModelServerTest, AWrongRequestIsRefusedWithoutWaitingForTheLoad) {
  control_->load.Shut();
  Start();
  ASSERT_TRUE(control_->load.AwaitWaiter());
  const Answer answer = Chat(R"({"messages":[{"role":"forbidden-role","content":"a"}]})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(Get("/health").Parsed()["status"], "loading model");
  control_->load.Open();
}

TEST_F(ModelServerTest, TellsTheEngineHowLongTheWaitingPromptIs) {
  Start({}, false);
  Post("/v1/completions", "{\"prompt\":\"" + std::string(80, 'x') + "\"}");
  Post("/models/unload", R"({"model":"fake"})");
  Post("/v1/completions", R"({"prompt":[1,2,3]})");
  Post("/models/unload", R"({"model":"fake"})");
  Post("/models/load", R"({"model":"fake","wait":true})");
  EXPECT_THAT(control_->loads_prompt_tokens, ElementsAre(21, 3, std::nullopt));
}

TEST_F(ModelServerTest, FiftyFirstRequestsShareOneLoad) {
  control_->load.Shut();
  Start({}, false);
  std::atomic<int> answered{0};
  std::vector<std::thread> asking;
  for (int count = 0; count < 50; ++count) {
    asking.emplace_back([&] {
      if (Chat(kChat).status == 200) ++answered;
    });
  }
  ASSERT_TRUE(AwaitHere(50));
  control_->load.Open();
  for (std::thread& thread : asking) thread.join();
  EXPECT_EQ(answered, 50);
  EXPECT_EQ(Metric("rouse_loads_total{result=\"ok\"}"), "1");
}

TEST_F(ModelServerTest, AllWhoWaitedForAFailedLoadAreToldAndTheNextOneTriesAgain) {
  control_->load.Shut();
  control_->load_error = Error(ErrorCode::kExhausted, "no memory for --context");
  Start({}, false);
  std::atomic<int> refused{0};
  std::vector<std::thread> asking;
  for (int count = 0; count < 5; ++count) {
    asking.emplace_back([&] {
      if (Chat(kChat).status == 503) ++refused;
    });
  }
  ASSERT_TRUE(AwaitHere(5));
  control_->load.Open();
  for (std::thread& thread : asking) thread.join();
  EXPECT_EQ(refused, 5);
  EXPECT_EQ(Metric("rouse_loads_total{result=\"failed\"}"), "1");
  {
    const std::lock_guard lock(control_->mutex);
    control_->load_error.reset();
  }
  EXPECT_EQ(Chat(kChat).status, 200);
}

TEST_F(ModelServerTest, WhoAsksAgainRightAfterAFailedLoadIsAnotherTry) {
  control_->load_error = Error(ErrorCode::kExhausted, "no memory for --context");
  Start({}, false);
  for (int round = 0; round < 200; ++round) ASSERT_EQ(Chat(kChat).status, 503);
  EXPECT_EQ(Metric("rouse_loads_total{result=\"failed\"}"), "200");
}

TEST_F(ModelServerTest, AFileThatWasWrittenToIsLoadedAnewWithAnotherEngine) {
  Start();
  EXPECT_EQ(Chat(kChat).status, 200);
  std::ofstream(file_, std::ios::app) << "more";
  EXPECT_EQ(Chat(kChat).status, 200);
  const auto calls = control_->Calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "renew"), 1);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "load"), 2);
  EXPECT_THAT(log_, HasSubstr("was written to"));
}

TEST_F(ModelServerTest, AReplacedFileServesUntilTheNextLoadWhichTakesTheNewOne) {
  Start();
  EXPECT_EQ(Chat(kChat).status, 200);
  std::ofstream(file_ + ".new") << std::string(20'000, 'y');
  ASSERT_EQ(::rename((file_ + ".new").c_str(), file_.c_str()), 0);
  EXPECT_EQ(Chat(kChat).status, 200);
  EXPECT_THAT(control_->Calls(), Not(Contains("renew")));
  Post("/models/unload", R"({"model":"fake"})");
  EXPECT_EQ(Chat(kChat).status, 200);
  EXPECT_THAT(control_->Calls(), Contains("renew"));
}

TEST_F(ModelServerTest, AFileThatChangesDuringALoadIsLoadedOnceMore) {
  control_->load.Shut();
  Start({}, false);
  Answer answer;
  std::thread asking([&] { answer = Chat(kChat); });
  ASSERT_TRUE(control_->load.AwaitWaiter());
  std::ofstream(file_, std::ios::app) << "more";
  control_->load.Open();
  asking.join();
  EXPECT_EQ(answer.status, 200);
  const auto calls = control_->Calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "load"), 2);
  EXPECT_EQ(Metric("rouse_loads_total{result=\"failed\"}"), "1");
}

TEST_F(ModelServerTest, AFileThatChangesDuringTheFirstLoadIsLoadedOnceMoreBeforeTheOwnerIsTold) {
  control_->load.Shut();
  Start();
  ASSERT_TRUE(control_->load.AwaitWaiter());
  std::ofstream(file_, std::ios::app) << "more";
  control_->load.Open();
  ASSERT_TRUE(AwaitHealth(200));
  EXPECT_EQ(failure_, "");
  const std::lock_guard lock(log_mutex_);
  EXPECT_THAT(log_, HasSubstr("loading it once more"));
  EXPECT_THAT(log_, Not(HasSubstr("cannot load")));
}

TEST_F(ModelServerTest, AFileThatChangesDuringBothLoadsIsAFailure) {
  control_->load.Shut();
  Start();
  for (int load = 1; load <= 2; ++load) {
    ASSERT_TRUE(AwaitCalls("load", load));
    ASSERT_TRUE(control_->load.AwaitWaiter());
    std::ofstream(file_, std::ios::app) << "more";
    control_->load.LetPass(1);
  }
  EXPECT_TRUE(failed_.Wait());
  EXPECT_THAT(failure_, HasSubstr("changed while it was loaded"));
  EXPECT_EQ(Metric("rouse_loads_total{result=\"failed\"}"), "2");
}

// Who asked for the load goes on waiting for the second one, and a client that goes doesn't stop
// it.
TEST_F(ModelServerTest, ALoadThatIsBegunOnceMoreIsStillForThoseWhoWantedIt) {
  control_->load.Shut();
  Start({}, false);
  Answer asked;
  std::thread asking([&] { asked = Post("/models/load", R"({"model":"fake","wait":true})"); });
  ASSERT_TRUE(control_->load.AwaitWaiter());
  {
    Client client(server_->port());
    client.Say(PostText("/v1/chat/completions", kChat));
    ASSERT_TRUE(AwaitHere(1));
    std::ofstream(file_, std::ios::app) << "more";
    control_->load.LetPass(1);
    ASSERT_TRUE(AwaitCalls("load", 2));
    ASSERT_TRUE(control_->load.AwaitWaiter());
  }
  ASSERT_TRUE(AwaitHere(0));
  EXPECT_EQ(Get("/health").Parsed()["status"], "loading model");
  control_->load.Open();
  asking.join();
  EXPECT_EQ(asked.body, R"({"success":true})");
}

}  // namespace
}  // namespace rouse::server
