#include "lab/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "lab/verify_cases.h"

namespace rouse::lab {
namespace {

using results::CaseStatus;
using results::VerificationCase;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// How the scripted server may misbehave; the default is a sound one.
struct Script {
  bool ignores_bad_model = false;
  bool crashes_on_bad_model = false;
  bool hides_the_file = false;
  bool ends_well_on_bad_model = false;
  bool stays_dead_after_refusal = false;
  bool crashes_without_memory = false;
  bool never_starts_without_memory = false;
  bool needs_no_memory = false;
  bool queues_everything = false;
  bool loses_queued = false;
  bool takes_wrong_requests = false;
  bool blames_itself = false;  // for a wrong request
  bool stays_dead_after_kill = false;
  bool answers_otherwise_after_kill = false;
  bool cut_looks_whole = false;
  bool hides_its_death = false;
  bool refuses_long_answers = false;
  bool outlives_kills = false;
  bool hangs_when_left = false;
};

// Threads of requests and the thread of the cases look at it together.
class ScriptedServer : public Target {
 public:
  explicit ScriptedServer(std::string file) : file_(std::move(file)) {}

  TargetKind kind() const override { return TargetKind::kBuiltin; }
  std::string url() const override { return "http://127.0.0.1:9"; }
  std::string request_model() const override { return ""; }
  std::string model_file() const override { return moved_.empty() ? file_ : moved_; }
  bool tells_timeline() const override { return true; }
  Status UseModelFile(const std::string& path) override {
    moved_ = path;
    return {};
  }
  Result<MonoTime> Spawn(const std::vector<std::string>& args) override {
    const std::scoped_lock lock(mutex_);
    limited_queue = std::ranges::find(args, "--queue-limit") != args.end();
    exit_.clear();
    log_.clear();
    alive_ = true;
    loaded_at_ = MonoNow() + 20 * kNsPerMs;
    if (dead_for_good_) End("exited with status 3", "no");
    if (!moved_.empty() && !script.ignores_bad_model) RefuseModel();
    return MonoNow();
  }
  Status PickPort() override { return {}; }
  Status WaitReady(MonoTime) override { return {}; }
  Status Stop(MonoTime) override {
    alive_ = false;
    return {};
  }
  bool Alive() override { return alive_; }
  std::optional<ProcessIdentity> Identity() override {
    if (!alive_) return std::nullopt;
    return ProcessIdentity{.pid = getpid(), .start_ticks = 1};  // whose address space is read
  }
  std::vector<int> Tree() override { return {}; }
  std::string ExitText() override {
    const std::scoped_lock lock(mutex_);
    return exit_;
  }
  std::string LogTail() override {
    const std::scoped_lock lock(mutex_);
    return log_;
  }
  Status LoadModel(MonoTime) override { return {}; }
  Status UnloadModel(MonoTime) override { return {}; }
  Result<ServerState> ReadState() override { return ServerState{}; }

  void Kill() {
    if (script.outlives_kills) return;
    const std::scoped_lock lock(mutex_);
    killed_ = true;
    if (script.stays_dead_after_kill) dead_for_good_ = true;
    End("was ended by SIGKILL", "");
  }
  Status LimitMemory() {
    const std::scoped_lock lock(mutex_);
    if (script.needs_no_memory) return {};
    End(script.crashes_without_memory        ? "was ended by SIGABRT"
        : script.never_starts_without_memory ? "exited with status 127"
                                             : "exited with status 3",
        "out of memory");
    return {};
  }

  void Answer(const wire::RequestSpec& spec, const std::atomic<bool>* stop,
              wire::Exchange& exchange) {
    if (!alive_) {
      exchange.outcome = wire::Outcome::kConnectError;
      exchange.connection.connect_errno = ECONNREFUSED;
    } else if (MonoNow() < loaded_at_.load()) {
      Refuse(503, "loading", exchange);
    } else if (spec.extra_body_json.find(R"("messages": 7)") != std::string::npos &&
               !script.takes_wrong_requests) {
      Refuse(script.blames_itself ? 500 : 400, "messages must be an array", exchange);
    } else if (hung_) {
      Refuse(500, "stuck", exchange);
    } else if (spec.max_tokens == 64) {
      Queue(exchange);
    } else if (spec.max_tokens > 64 && script.refuses_long_answers) {
      Refuse(400, "too long", exchange);
    } else if (spec.max_tokens > 64) {
      Talk(stop, exchange);
    } else {
      Whole(exchange);
    }
  }

  Script script;
  std::atomic<bool> limited_queue = false;

 private:
  void End(const std::string& exit, const std::string& log) {
    alive_ = false;
    exit_ = exit;
    log_ = log;
  }
  void RefuseModel() {
    if (script.stays_dead_after_refusal) dead_for_good_ = true;
    End(script.crashes_on_bad_model     ? "was ended by SIGSEGV"
        : script.ends_well_on_bad_model ? "exited with status 0"
                                        : "exited with status 3",
        script.hides_the_file ? "cannot load the model" : "cannot load " + moved_);
  }
  static void Refuse(int64_t status, const std::string& why, wire::Exchange& exchange) {
    exchange.outcome = wire::Outcome::kHttpError;
    exchange.http_status = status;
    exchange.outcome_detail = why;
  }
  void Whole(wire::Exchange& exchange) {
    exchange.outcome = wire::Outcome::kOk;
    exchange.http_status = 200;
    exchange.marks.first_token = MonoNow();
    exchange.content_text = killed_ && script.answers_otherwise_after_kill ? "green" : "blue";
  }
  void Queue(wire::Exchange& exchange) {
    const int place = ++queued_;
    RealClock().SleepFor(20 * kNsPerMs);
    if (place > 2 && !script.queues_everything) {
      Refuse(429, "queue full", exchange);
    } else if (place == 2 && script.loses_queued) {
      exchange.outcome = wire::Outcome::kTruncated;
    } else {
      Whole(exchange);
    }
    --queued_;
  }
  // Until it is killed or its client leaves.
  void Talk(const std::atomic<bool>* stop, wire::Exchange& exchange) {
    Whole(exchange);
    exchange.stream.token_events = 2;
    while ((alive_ || script.hides_its_death) && !*stop) RealClock().SleepFor(kNsPerMs);
    if (alive_ && script.hangs_when_left) hung_ = true;
    if (alive_) {
      exchange.outcome = wire::Outcome::kInterrupted;
    } else if (!script.cut_looks_whole) {
      exchange.outcome = wire::Outcome::kTruncated;
    }
  }

  std::mutex mutex_;
  std::string file_;
  std::string moved_;
  std::string exit_;
  std::string log_;
  std::atomic<bool> alive_ = false;
  std::atomic<bool> killed_ = false;
  std::atomic<bool> hung_ = false;
  std::atomic<int> queued_ = 0;
  bool dead_for_good_ = false;
  std::atomic<MonoTime> loaded_at_ = MonoTime{};
};

class ScriptedSender : public Sender {
 public:
  explicit ScriptedSender(ScriptedServer& server) : server_(server) {}
  Status Prepare(const wire::RequestSpec& spec) override {
    spec_ = spec;
    return {};
  }
  wire::Exchange Perform(std::optional<MonoTime>, const std::atomic<bool>* stop) override {
    wire::Exchange exchange;
    server_.Answer(spec_, stop, exchange);
    exchange.marks.end = MonoNow();
    return exchange;
  }
  void KeepConnection(bool) override {}

 private:
  ScriptedServer& server_;
  wire::RequestSpec spec_;
};

class VerifyTest : public testing::Test {
 protected:
  VerifyTest() : plan_(Parsed()), server_(ModelFile()) {}
  ~VerifyTest() override { std::filesystem::remove(ModelFile()); }

  static Plan Parsed() {
    Result<Plan> plan = ParsePlan(FindPreset("verify")->toml, "preset verify");
    CHECK(plan.ok());
    plan->timeout_ns = 2 * kNsPerSecond;
    return *std::move(plan);
  }
  static std::string ModelFile() {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("rouse-verify-" + std::to_string(getpid()));
    if (!std::filesystem::exists(path)) std::ofstream(path) << "some model";
    return path.string();
  }

  VerifyParts Parts() {
    return {.target = server_,
            .make_sender = [this] { return std::make_unique<ScriptedSender>(server_); },
            .interrupt = &interrupt_,
            .kill = [this](Target&) { server_.Kill(); },
            .limit_memory = [this](Target&, int64_t) { return server_.LimitMemory(); },
            .on_begin = [this](const VerificationCase& each) { interrupt_ = each.name == cut_at_; },
            .on_end =
                [this](const VerificationCase& each) {
                  ended_.push_back(each.name);
                  return Status();
                },
            .idle_ns = kNsPerMs};
  }

  // Refusals and recoveries: benefits are not run here.
  std::vector<VerificationCase> RunAllCases() {
    std::vector<VerificationCase> cases = PlanCases(plan_, {});
    std::erase_if(cases, [](const VerificationCase& each) {
      return each.kind == results::CaseKind::kBenefit;
    });
    const Status ran = RunCases(plan_, cases, Parts());
    CHECK(ran.ok());
    return cases;
  }

  VerificationCase RunNamed(const std::string& name) {
    for (const VerificationCase& each : RunAllCases()) {
      if (each.name == name) return each;
    }
    return {};
  }

  // Every case that is not named has passed.
  void ExpectOnlyFailed(const std::vector<std::string>& names, const std::string& why) {
    for (const VerificationCase& each : RunAllCases()) {
      const bool named = std::ranges::find(names, each.name) != names.end();
      EXPECT_EQ(each.status, named ? CaseStatus::kFailed : CaseStatus::kPassed)
          << each.name << ": " << each.detail;
      EXPECT_TRUE(!named || each.detail.find(why) != std::string::npos) << each.detail;
    }
  }

  Plan plan_;
  ScriptedServer server_;
  std::atomic<bool> interrupt_ = false;
  std::string cut_at_ = "none";
  std::vector<std::string> ended_;
};

std::vector<std::string> BadModels() { return {"missing model", "cut model", "not a model"}; }

TEST_F(VerifyTest, ASoundServerPassesEveryCase) {
  for (const VerificationCase& each : RunAllCases()) {
    EXPECT_EQ(each.status, CaseStatus::kPassed) << each.name << ": " << each.detail;
    ASSERT_TRUE(each.took_ns.has_value()) << each.name;
    EXPECT_LE(*each.took_ns, each.bound_ns) << each.name;
    EXPECT_FALSE(each.detail.empty()) << each.name;
  }
  EXPECT_EQ(ended_.size(), CaseRows().size());
  EXPECT_FALSE(server_.Alive());
}

TEST_F(VerifyTest, ABadModelThatIsAnsweredFromIsAFailure) {
  server_.script.ignores_bad_model = true;
  ExpectOnlyFailed(BadModels(), "as if nothing were wrong");
}

TEST_F(VerifyTest, ACrashIsNoClearError) {
  server_.script.crashes_on_bad_model = true;
  ExpectOnlyFailed(BadModels(), "was ended by SIGSEGV");
}

TEST_F(VerifyTest, AnErrorHasToNameTheFile) {
  server_.script.hides_the_file = true;
  ExpectOnlyFailed(BadModels(), "does not name the file");
}

TEST_F(VerifyTest, AStatusOfZeroIsNoRefusal) {
  server_.script.ends_well_on_bad_model = true;
  ExpectOnlyFailed(BadModels(), "as if all were well");
}

TEST_F(VerifyTest, ARefusalAfterWhichNothingIsServedLosesSomething) {
  server_.script.stays_dead_after_refusal = true;
  const VerificationCase missing = RunNamed("missing model");
  EXPECT_EQ(missing.status, CaseStatus::kFailed);
  EXPECT_THAT(missing.detail, HasSubstr("lost after the refusal"));
}

TEST_F(VerifyTest, NoMemoryMustNotEndItByASignal) {
  server_.script.crashes_without_memory = true;
  ExpectOnlyFailed({"no memory"}, "was ended by SIGABRT");
}

TEST_F(VerifyTest, AServerThatGetsByWithLessIsLeftOut) {
  server_.script.needs_no_memory = true;
  const VerificationCase memory = RunNamed("no memory");
  EXPECT_EQ(memory.status, CaseStatus::kLeftOut);
  EXPECT_THAT(memory.detail, HasSubstr("it got by with"));
}

TEST_F(VerifyTest, AQueueWithoutABoundFails) {
  server_.script.queues_everything = true;
  ExpectOnlyFailed({"queue full"}, "0 of 4 requests got 429");
}

TEST_F(VerifyTest, AQueuedRequestThatIsDroppedIsLost) {
  server_.script.loses_queued = true;
  ExpectOnlyFailed({"queue full"}, "a request was lost");
}

TEST_F(VerifyTest, AWrongRequestThatIsAnsweredFails) {
  server_.script.takes_wrong_requests = true;
  ExpectOnlyFailed({"wrong request"}, "as if nothing were wrong");
}

TEST_F(VerifyTest, AServerThatDoesNotComeBackFailsEveryKill) {
  server_.script.stays_dead_after_kill = true;
  for (const VerificationCase& each : RunAllCases()) {
    if (!each.name.starts_with("killed")) continue;
    EXPECT_EQ(each.status, CaseStatus::kFailed) << each.name;
  }
}

TEST_F(VerifyTest, AnotherAnswerAfterAKillIsALoss) {
  server_.script.answers_otherwise_after_kill = true;
  ExpectOnlyFailed({"killed while loading", "killed while answering", "killed while idle"},
                   "\"green\" instead of \"blue\"");
}

TEST_F(VerifyTest, ACutAnswerMustNotLookWhole) {
  server_.script.cut_looks_whole = true;
  ExpectOnlyFailed({"killed while answering"}, "looked whole");
}

// As behind a proxy that keeps the connection of a server that is gone.
TEST_F(VerifyTest, AClientThatIsNeverToldOfAKillIsAFailure) {
  server_.script.hides_its_death = true;
  ExpectOnlyFailed({"killed while answering"}, "the client was not told within 5.00 s");
}

TEST_F(VerifyTest, AServerWithoutLongAnswersIsLeftOutWithWhatItSaid) {
  server_.script.refuses_long_answers = true;
  const VerificationCase killed = RunNamed("killed while answering");
  EXPECT_EQ(killed.status, CaseStatus::kLeftOut);
  EXPECT_THAT(killed.detail, HasSubstr("too long"));
}

TEST_F(VerifyTest, AServerThatIsStuckWithAClientThatLeftFails) {
  server_.script.hangs_when_left = true;
  ExpectOnlyFailed({"client left"}, "not served");
}

TEST_F(VerifyTest, AWrongRequestIsNoFaultOfTheServer) {
  server_.script.blames_itself = true;
  ExpectOnlyFailed({"wrong request"}, "no clear refusal: http_error, HTTP 500");
}

TEST_F(VerifyTest, AProcessThatCouldNotEvenStartHasRefusedNothing) {
  server_.script.never_starts_without_memory = true;
  const VerificationCase memory = RunNamed("no memory");
  EXPECT_EQ(memory.status, CaseStatus::kLeftOut);
  EXPECT_THAT(memory.detail, HasSubstr("could not even be started"));
}

TEST_F(VerifyTest, AServerThatOutlivesAKillFailsEveryKill) {
  server_.script.outlives_kills = true;
  ExpectOnlyFailed({"killed while loading", "killed while answering", "killed while idle"},
                   "outlived SIGKILL");
}

TEST_F(VerifyTest, AnInterruptMarksWhatItCutAndTheRestAndTheyAreRunWhenItIsResumed) {
  std::vector<VerificationCase> cases = PlanCases(plan_, {});
  cut_at_ = "queue full";
  ASSERT_TRUE(RunCases(plan_, cases, Parts()).ok());
  std::vector<std::string> interrupted;
  for (const VerificationCase& each : cases) {
    if (each.status == CaseStatus::kInterrupted) interrupted.push_back(each.name);
  }
  EXPECT_THAT(interrupted,
              ElementsAre("queue full", "wrong request", "killed while loading",
                          "killed while answering", "killed while idle", "client left"));
  cut_at_ = "none";
  interrupt_ = false;
  ended_.clear();
  ASSERT_TRUE(RunCases(plan_, cases, Parts()).ok());
  EXPECT_EQ(ended_, interrupted);
  for (const VerificationCase& each : cases) {
    const bool benefit = each.kind == results::CaseKind::kBenefit;
    EXPECT_EQ(each.status, benefit ? CaseStatus::kPlanned : CaseStatus::kPassed) << each.name;
  }
}

TEST_F(VerifyTest, AStoreThatFailsEndsTheCases) {
  std::vector<VerificationCase> cases = PlanCases(plan_, {});
  VerifyParts parts = Parts();
  parts.on_end = [](const VerificationCase&) { return Status(Error(ErrorCode::kIo, "disk full")); };
  EXPECT_EQ(RunCases(plan_, cases, parts).error().message(), "disk full");
  EXPECT_EQ(cases.back().status, CaseStatus::kPlanned);
  EXPECT_FALSE(server_.Alive());
}

TEST_F(VerifyTest, AServerThatNeverAnswersIsNotJudged) {
  server_.script.stays_dead_after_kill = true;
  server_.Kill();
  std::vector<VerificationCase> cases = PlanCases(plan_, {});
  const Status ran = RunCases(plan_, cases, Parts());
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code(), ErrorCode::kState);
  EXPECT_TRUE(ended_.empty());
}

// The preset's cases on another target: the names of those that are planned.
std::vector<std::string> PlannedOn(const std::string& target, std::string& reasons) {
  PlanOverrides overrides;
  overrides.target = target;
  const Result<AdaptedPlan> adapted = PlanFromPreset(*FindPreset("verify"), overrides);
  CHECK(adapted.ok());
  std::vector<std::string> planned;
  for (const VerificationCase& each : PlanCases(adapted->plan, adapted->left_out)) {
    if (each.status == CaseStatus::kPlanned) {
      planned.push_back(each.name);
      EXPECT_FALSE(each.does.empty() || each.expects.empty() || each.nothing_lost.empty());
      EXPECT_GT(each.bound_ns, 0) << each.name;
    } else {
      EXPECT_FALSE(each.detail.empty()) << each.name;
      reasons += each.name + ": " + each.detail + "\n";
    }
  }
  return planned;
}

TEST(PlanCases, AreAllPlannedOnTheBuiltInServer) {
  std::string reasons;
  EXPECT_EQ(PlannedOn("builtin", reasons).size(), CaseRows().size() + 2);
  EXPECT_EQ(reasons, "");
}

TEST(PlanCases, NameWhatAServerThatIsNotOursCannotBeBroughtTo) {
  std::string reasons;
  EXPECT_THAT(PlannedOn("http://127.0.0.1:8080", reasons),
              ElementsAre("wrong request", "client left"));
  EXPECT_THAT(reasons, HasSubstr("warm before unloaded: condition \"model unloaded\" is left out"));
  EXPECT_THAT(reasons, HasSubstr("killed while idle: the server's process is not ours"));
  EXPECT_THAT(PlannedOn("llama-server:http://127.0.0.1:8080", reasons),
              ElementsAre("warm before unloaded", "wrong request", "client left"));
}

TEST(PlanCases, ACommandsModelIsOursToChooseWhereItHasAPlaceForIt) {
  std::string reasons;
  std::vector<std::string> planned =
      PlannedOn("cmd:my-server --port {port} --model fixed.gguf", reasons);
  EXPECT_THAT(planned, Not(Contains("missing model")));
  EXPECT_THAT(planned, Contains("no memory"));
  EXPECT_THAT(reasons, HasSubstr("missing model: the command has no {model}"));
  planned = PlannedOn("cmd:my-server --port {port} --model {model}", reasons);
  EXPECT_THAT(planned, Contains("missing model"));
  EXPECT_THAT(planned, Not(Contains("queue full")));
}

TEST(PlanCases, APlanWithoutAHypothesisHasNoBenefitToShow) {
  Result<Plan> plan = ParsePlan(FindPreset("verify")->toml, "preset verify");
  ASSERT_TRUE(plan.ok());
  plan->hypotheses.clear();
  const std::vector<VerificationCase> cases = PlanCases(*plan, {});
  EXPECT_EQ(cases.front().kind, results::CaseKind::kBenefit);
  EXPECT_EQ(cases.front().status, CaseStatus::kLeftOut);
}

}  // namespace
}  // namespace rouse::lab
