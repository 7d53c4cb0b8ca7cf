// Each kind of server that is given by its address, against a small server that speaks the part of
// its documented API that rouse uses, and refuses everything else.
#include "lab/managed_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>

#include "http/server.h"
#include "lab/control.h"
#include "lab/targets.h"

namespace rouse::lab {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MonoTime In(int64_t ms) { return MonoNow() + ms * kNsPerMs; }

// Answers by "METHOD target" -> what the test gives, and keeps what was asked.
class FakeServer {
 public:
  using Answer = std::function<http::Response(const Json& body)>;

  // 127.0.0.2 stands for another machine: no process is looked for.
  explicit FakeServer(const std::string& host = "127.0.0.1")
      : server_(std::move(http::Server::Listen({.host = host})).value()) {
    server_->Start([this](http::Request request, std::shared_ptr<http::ResponseWriter> writer) {
      const std::lock_guard lock(mutex_);
      const std::string line = request.method + " " + request.target;
      asked_.push_back(request.body.empty() ? line : line + " " + request.body);
      for (const http::Header& header : request.headers) {
        if (header.name == "Authorization") authorization_ = header.value;
      }
      const auto answer = answers.find(line);
      if (answer == answers.end()) return writer->Send(http::ErrorResponse(404, "no such path"));
      writer->Send(answer->second(Json::parse(request.body, nullptr, false)));
    });
  }
  ~FakeServer() { server_->Stop(); }

  std::unique_ptr<Target> Make(TargetKind kind, const std::string& model) const {
    TargetSpec spec;
    spec.kind = kind;
    spec.model = model;
    spec.url = "http://" + server_->host() + ":" + std::to_string(server_->port()) + "/v1";
    spec.headers_env = {{"Authorization", "ROUSE_TEST_AUTHORIZATION"}};
    Result<std::unique_ptr<Target>> target = MakeManagedTarget(spec);
    EXPECT_TRUE(target.ok());
    return *std::move(target);
  }

  std::vector<std::string> Asked() {
    const std::lock_guard lock(mutex_);
    return std::exchange(asked_, {});
  }
  int Port() const { return server_->port(); }
  std::string Authorization() {
    const std::lock_guard lock(mutex_);
    return authorization_;
  }

  std::map<std::string, Answer> answers;

 private:
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::string authorization_;
  std::unique_ptr<http::Server> server_;
};

FakeServer::Answer Says(const Json& json) {
  return [json](const Json&) { return http::Response{.body = json.dump()}; };
}

// A state that changes `after` readings of it: every unload is asynchronous.
struct Delayed {
  int left = 0;
  bool now = false;
  bool later = false;
  bool Read() {
    if (left > 0 && --left == 0) now = later;
    return now;
  }
  void Change(bool to) {
    later = to;
    left = 3;
  }
};

TEST(AnyTarget, IsSentNothingOnItsOwn) {
  FakeServer server;
  for (const TargetRow& row : Targets()) {
    if (row.owns_process) continue;
    const std::unique_ptr<Target> target = server.Make(row.kind, "m");
    EXPECT_EQ(target->kind(), row.kind);
    EXPECT_TRUE(target->WaitReady(In(100)).ok());
    EXPECT_TRUE(target->Alive());
    target->Tree();
    EXPECT_TRUE(target->Stop(In(100)).ok());
    EXPECT_FALSE(target->Spawn({}).ok());
  }
  EXPECT_TRUE(server.Asked().empty());
}

TEST(AnyTarget, IsFoundByItsPortWithoutBeingAsked) {
  FakeServer server;
  const std::unique_ptr<Target> target = server.Make(TargetKind::kUrl, "m");
  const std::optional<ProcessIdentity> identity = target->Identity();
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(identity->pid, getpid());  // the fake server is this process
  EXPECT_EQ(target->Identity(), identity);
  EXPECT_THAT(target->Tree(), ::testing::Contains(getpid()));
}

TEST(BareUrl, HasNoCallsOfItsOwn) {
  FakeServer server;
  const std::unique_ptr<Target> target = server.Make(TargetKind::kUrl, "m");
  EXPECT_FALSE(target->ReadState().ok());
  EXPECT_FALSE(target->LoadModel(In(100)).ok());
  EXPECT_FALSE(target->UnloadModel(In(100)).ok());
  EXPECT_TRUE(server.Asked().empty());
}

class LlamaRouter : public ::testing::Test {
 protected:
  LlamaRouter() {
    const auto status = [](const std::string& id, const std::string& value) {
      return Json{{"id", id}, {"status", {{"value", value}}}};
    };
    server_.answers["GET /models"] = [this, status](const Json&) {
      const std::string value = model_.left > 1 ? "loading" : model_.Read() ? "loaded" : "unloaded";
      if (model_.left > 1) model_.Read();
      return http::Response{
          .body = Json{{"data", {status("other", "loaded"), status("mine", value)}}}.dump()};
    };
    for (const bool load : {true, false}) {
      server_.answers[load ? "POST /models/load" : "POST /models/unload"] =
          [this, load](const Json& body) {
            if (body.value("model", "") != "mine") return http::ErrorResponse(400, "no such model");
            model_.Change(load);
            return http::Response{.body = R"({"success": true})"};
          };
    }
  }
  FakeServer server_;
  Delayed model_;
};

TEST_F(LlamaRouter, LoadsAndUnloadsAndWaitsForBoth) {
  const auto target = server_.Make(TargetKind::kLlamaServer, "mine");
  EXPECT_EQ(target->ReadState()->model_loaded, false);
  ASSERT_TRUE(target->LoadModel(In(5000)).ok());
  EXPECT_EQ(target->ReadState()->model_loaded, true);
  ASSERT_TRUE(target->UnloadModel(In(5000)).ok());
  EXPECT_EQ(target->ReadState()->model_loaded, false);
}

TEST_F(LlamaRouter, NamesTheModelsThatItHas) {
  const auto target = server_.Make(TargetKind::kLlamaServer, "mien");
  const auto state = target->ReadState();
  ASSERT_FALSE(state.ok());
  EXPECT_THAT(state.error().message(), HasSubstr("no model \"mien\"; it has other, mine"));
}

TEST_F(LlamaRouter, ThatNeverUnloadsIsATimeout) {
  server_.answers["POST /models/unload"] = Says({{"success", true}});
  model_.now = true;
  const auto target = server_.Make(TargetKind::kLlamaServer, "mine");
  const Status unloaded = target->UnloadModel(In(100));
  ASSERT_FALSE(unloaded.ok());
  EXPECT_EQ(unloaded.error().code(), ErrorCode::kTimeout);
}

TEST(SingleLlamaServer, IsUnloadedByWaitingForItsOwnSleep) {
  FakeServer server("127.0.0.2");
  Delayed asleep;
  server.answers["GET /models"] = Says({{"data", {{{"id", "m"}, {"object", "model"}}}}});
  server.answers["GET /props"] = [&](const Json&) {
    return http::Response{.body = Json{{"is_sleeping", asleep.Read()}}.dump()};
  };
  asleep.Change(true);
  const auto target = server.Make(TargetKind::kLlamaServer, "m");
  ASSERT_TRUE(target->UnloadModel(In(5000)).ok());
  EXPECT_EQ(target->ReadState()->model_loaded, false);
  // Nothing but its state was asked: any other request would wake it.
  for (const std::string& asked : server.Asked()) {
    EXPECT_TRUE(asked == "GET /models" || asked == "GET /props") << asked;
  }
  asleep.now = false;
  const Status awake = target->UnloadModel(In(100));
  ASSERT_FALSE(awake.ok());
  EXPECT_THAT(awake.error().message(), HasSubstr("does not sleep in time"));
}

TEST(SingleLlamaServer, TellsWhetherItSleepsAndThatItNeverWill) {
  FakeServer server;
  server.answers["GET /models"] = Says({{"data", {{{"id", "m"}, {"object", "model"}}}}});
  server.answers["GET /props"] = Says({{"is_sleeping", true}});
  const auto target = server.Make(TargetKind::kLlamaServer, "m");
  EXPECT_EQ(target->ReadState()->model_loaded, false);
  server.answers["GET /props"] = Says({{"is_sleeping", false}});
  EXPECT_EQ(target->ReadState()->model_loaded, true);
  const Status unloaded = target->UnloadModel(In(1000));
  ASSERT_FALSE(unloaded.ok());
  EXPECT_EQ(unloaded.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(unloaded.error().message(), HasSubstr("this one never sleeps"));
  EXPECT_THAT(unloaded.error().message(), HasSubstr("--sleep-idle-seconds 1"));
  EXPECT_THAT(unloaded.error().message(), HasSubstr("--models-dir"));
}

TEST(SingleLlamaServer, ThatIsStillLoadingIsWaitedFor) {
  FakeServer server;
  int left = 3;
  server.answers["GET /models"] = [&](const Json&) {
    if (left-- > 0) return http::ErrorResponse(503, "Loading model");
    return http::Response{.body = R"({"data": []})"};
  };
  server.answers["GET /props"] = Says({{"is_sleeping", false}});
  const auto state = server.Make(TargetKind::kLlamaServer, "m")->ReadState();
  ASSERT_TRUE(state.ok()) << state.error().message();
  EXPECT_EQ(state->model_loaded, true);
  EXPECT_EQ(left, -1);
}

TEST(Ollama, ThatNeverLoadsIsWaitedForUntilAnInterrupt) {
  FakeServer server("127.0.0.2");
  server.answers["GET /api/ps"] = Says({{"models", Json::array()}});
  server.answers["POST /api/generate"] = Says({{"done", true}});
  const auto target = server.Make(TargetKind::kOllama, "qwen");
  std::atomic<bool> interrupt = false;
  target->StopWaitingWhen(&interrupt);
  std::thread user([&interrupt] {
    RealClock().SleepFor(100 * kNsPerMs);
    interrupt = true;
  });
  EXPECT_EQ(target->LoadModel(In(600'000)).error().code(), ErrorCode::kInterrupted);
  user.join();
}

TEST(Ollama, LoadsForAsLongAsItsOwnSettingSaysAndUnloadsByKeepAliveZero) {
  FakeServer server("127.0.0.2");
  Delayed model;
  server.answers["GET /api/ps"] = [&](const Json&) {
    Json models = Json::array();
    if (model.Read()) models.push_back({{"name", "qwen:latest"}, {"size", 1000}});
    return http::Response{.body = Json{{"models", models}}.dump()};
  };
  server.answers["POST /api/generate"] = [&](const Json& body) {
    model.Change(!body.contains("keep_alive"));
    return http::Response{.body = R"({"done": true})"};
  };
  const auto target = server.Make(TargetKind::kOllama, "qwen");
  ASSERT_TRUE(target->LoadModel(In(5000)).ok());
  EXPECT_EQ(target->ReadState()->memory_bytes, 1000);
  EXPECT_THAT(server.Asked().front(), R"(POST /api/generate {"model":"qwen","stream":false})");
  ASSERT_TRUE(target->UnloadModel(In(5000)).ok());
  EXPECT_THAT(server.Asked().front(),
              R"(POST /api/generate {"keep_alive":0,"model":"qwen","stream":false})");
  EXPECT_EQ(target->ReadState()->model_loaded, false);
}

// A server in a process of its own, whose only child is its runner.
[[noreturn]] void BeOllamaWithARunner(int told) {
  const pid_t runner = fork();
  if (runner == 0) {
    while (true) pause();
  }
  FakeServer server;
  server.answers["GET /api/ps"] = Says({{"models", Json::array()}});
  server.answers["POST /end"] = [runner](const Json&) {
    kill(runner, SIGKILL);
    waitpid(runner, nullptr, 0);
    return http::Response{.body = "{}"};
  };
  const int port = server.Port();
  [[maybe_unused]] const ssize_t count = write(told, &port, sizeof port);
  while (true) pause();
}

TEST(Ollama, IsNotUnloadedWhileItsRunnerLives) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t ollama = fork();
  if (ollama == 0) BeOllamaWithARunner(ends[1]);
  TargetSpec spec;
  spec.kind = TargetKind::kOllama;
  spec.model = "qwen";
  int port = 0;
  ASSERT_EQ(read(ends[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  spec.url = "http://127.0.0.1:" + std::to_string(port);
  const Result<std::unique_ptr<Target>> target = MakeManagedTarget(spec);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ((*target)->Tree().size(), 2U);
  EXPECT_FALSE((*target)->ReadState()->model_loaded.has_value());
  EXPECT_TRUE(CallControl(spec.url, "POST", "/end", "{}", In(5000)).ok());
  EXPECT_EQ((*target)->ReadState()->model_loaded, false);
  kill(ollama, SIGKILL);
  waitpid(ollama, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(LlamaSwap, LoadsThroughTheUpstreamPathAndUnloads) {
  FakeServer server;
  Delayed model;
  server.answers["GET /running"] = [&](const Json&) {
    Json running = Json::array();
    if (model.Read()) running.push_back({{"model", "m"}, {"state", "ready"}});
    return http::Response{.body = Json{{"running", running}}.dump()};
  };
  server.answers["GET /upstream/m/health"] = [&](const Json&) {
    model.Change(true);
    return http::ErrorResponse(404, "the upstream has no /health");
  };
  server.answers["GET /unload"] = [&](const Json&) {
    model.Change(false);
    return http::Response{.content_type = "text/plain", .body = "OK"};
  };
  const auto target = server.Make(TargetKind::kLlamaSwap, "m");
  EXPECT_EQ(target->ReadState()->model_loaded, false);
  ASSERT_TRUE(target->LoadModel(In(5000)).ok());
  ASSERT_TRUE(target->UnloadModel(In(5000)).ok());
  EXPECT_EQ(target->ReadState()->model_loaded, false);
}

TEST(LlamaSwap, ThatIsStillStartingIsNeitherLoadedNorUnloaded) {
  FakeServer server;
  server.answers["GET /running"] = Says({{"running", {{{"model", "m"}, {"state", "starting"}}}}});
  EXPECT_FALSE(server.Make(TargetKind::kLlamaSwap, "m")->ReadState()->model_loaded.has_value());
}

TEST(Vllm, SleepsWakesAndForgetsPrefixes) {
  FakeServer server;
  Delayed asleep;
  server.answers["GET /is_sleeping"] = [&](const Json&) {
    return http::Response{.body = Json{{"is_sleeping", asleep.Read()}}.dump()};
  };
  server.answers["POST /sleep?level=1"] = [&](const Json&) {
    asleep.Change(true);
    return http::Response{.body = ""};
  };
  server.answers["POST /wake_up"] = [&](const Json&) {
    asleep.Change(false);
    return http::Response{.body = ""};
  };
  server.answers["POST /reset_prefix_cache"] = Says(Json::object());
  setenv("ROUSE_TEST_AUTHORIZATION", "Bearer key", 1);
  const auto target = server.Make(TargetKind::kVllm, "m");
  EXPECT_EQ(target->ReadState()->model_loaded, true);
  ASSERT_TRUE(target->UnloadModel(In(5000)).ok());
  ASSERT_TRUE(target->LoadModel(In(5000)).ok());
  server.Asked();
  ASSERT_TRUE(target->ForgetPrefixes(In(5000)).ok());
  EXPECT_THAT(server.Asked(), ElementsAre("POST /reset_prefix_cache"));
  EXPECT_EQ(server.Authorization(), "Bearer key");
}

TEST(Vllm, WithoutItsDevelopmentModeSaysHowToStartIt) {
  FakeServer server;
  const auto target = server.Make(TargetKind::kVllm, "m");
  EXPECT_THAT(target->ReadState().error().message(), HasSubstr("VLLM_SERVER_DEV_MODE=1"));
  EXPECT_THAT(target->UnloadModel(In(100)).error().message(), HasSubstr("VLLM_SERVER_DEV_MODE=1"));
}

TEST(AnyTarget, ThatAnswersWithSomethingElseIsAnErrorAndNotAState) {
  FakeServer server;
  const auto text = [](const Json&) { return http::Response{.body = "<html>"}; };
  for (const char* path : {"GET /models", "GET /api/ps", "GET /running", "GET /is_sleeping"}) {
    server.answers[path] = text;
  }
  for (const TargetKind kind :
       {TargetKind::kLlamaServer, TargetKind::kOllama, TargetKind::kLlamaSwap, TargetKind::kVllm}) {
    const auto state = server.Make(kind, "m")->ReadState();
    ASSERT_FALSE(state.ok()) << TargetKindName(kind);
    EXPECT_EQ(state.error().code(), ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace rouse::lab
