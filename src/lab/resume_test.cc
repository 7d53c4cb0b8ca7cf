#include "lab/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/check.h"
#include "base/time.h"
#include "os/process.h"

namespace rouse::lab {
namespace {

using testing::HasSubstr;

Plan PlanOf(const std::string& name) {
  const Result<Plan> plan =
      ParsePlan("[experiment]\nname = \"" + name + "\"\n[[condition]]\nname = \"warm\"\n", "plan");
  CHECK(plan.ok());
  return *plan;
}

PlanOverrides Idle(const std::string& list) {
  PlanOverrides overrides;
  overrides.idle = list;
  return overrides;
}

PlanOverrides Require(const std::string& ttft) {
  PlanOverrides overrides;
  overrides.require_ttft = ttft;
  return overrides;
}

class ResumeTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("rouse-resume-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    Result<results::Store> store =
        results::Store::Open((directory_ / "r.sqlite").string(), results::OpenMode::kReadWrite);
    CHECK(store.ok());
    store_.emplace(*std::move(store));
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  int64_t Store(const Plan& plan, const std::string& status) {
    results::Run run;
    run.kind = "measure";
    run.status = status;
    run.plan_hash = PlanHash(plan);
    return *store_->CreateRun(run);
  }

  std::filesystem::path directory_;
  std::optional<results::Store> store_;
};

TEST_F(ResumeTest, FindsTheUnfinishedRunOfThisVeryPlan) {
  const Plan mine = PlanOf("mine");
  ASSERT_TRUE(UnfinishedRunOf(*store_, mine).ok());
  EXPECT_FALSE(UnfinishedRunOf(*store_, mine)->has_value());
  Store(PlanOf("other"), "paused");
  EXPECT_FALSE(UnfinishedRunOf(*store_, mine)->has_value());
  for (const char* const status : {"running", "paused", "interrupted", "failed"}) {
    const int64_t run = Store(mine, status);
    Store(PlanOf("other"), "complete");
    EXPECT_EQ(*UnfinishedRunOf(*store_, mine), run) << status;
  }
}

TEST_F(ResumeTest, BeginsNoSecondRunOfAPlanWhoseLatestRunIsComplete) {
  const Plan mine = PlanOf("mine");
  Store(mine, "interrupted");
  const int64_t complete = Store(mine, "complete");
  const auto found = UnfinishedRunOf(*store_, mine);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), ErrorCode::kUsage);
  EXPECT_THAT(found.error().message(),
              HasSubstr("run " + std::to_string(complete) + " of this plan is complete"));
}

TEST(Sessions, OneNightHoldsOneBlockOfTheIdleLadder) {
  const Result<Plan> idle = ParsePlan(FindPreset("idle")->toml, "preset idle");
  ASSERT_TRUE(idle.ok()) << idle.error().message();
  const std::vector<ScheduledAttempt> schedule = MakeSchedule(*idle, 1);
  ASSERT_EQ(schedule.size(), 16U);
  EXPECT_EQ(CountSessions(*idle, schedule, std::nullopt), 3);
  EXPECT_THAT(SessionsText(*idle, schedule, std::nullopt),
              HasSubstr("in 3 nights of at most 10 h"));
  Plan shorter = *idle;
  ASSERT_TRUE(ApplyOverrides(Idle("0s,20s,60s"), shorter).ok());
  EXPECT_EQ(shorter.conditions.size(), 3U);
  EXPECT_EQ(SessionsText(shorter, MakeSchedule(shorter, 1), std::nullopt), "");
  Plan two = *idle;
  two.session_ns = *idle->session_ns * 2;
  EXPECT_EQ(CountSessions(two, schedule, std::nullopt), 2);
}

TEST(IdlePreset, BlockOfTheLadderTakesNineHoursAndElevenMinutes) {
  const Result<Plan> idle = ParsePlan(FindPreset("idle")->toml, "preset idle");
  ASSERT_TRUE(idle.ok());
  int64_t block_ns = 0;
  for (const Condition& condition : idle->conditions) block_ns += *condition.idle_ns;
  EXPECT_EQ(block_ns, int64_t{9 * 60 + 11} * 60 * kNsPerSecond);
}

TEST(RequireTtft, NeedsAnIdleTimeAndIsPartOfThePlansHash) {
  Plan plan = PlanOf("x");
  const std::string without = PlanHash(plan);
  const Status refused = ApplyOverrides(Require("500ms"), plan);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("no condition has one"));
  Plan idle = *ParsePlan(FindPreset("idle")->toml, "preset idle");
  const std::string before = PlanHash(idle);
  ASSERT_TRUE(ApplyOverrides(Require("500ms"), idle).ok());
  EXPECT_NE(PlanHash(idle), before);
  EXPECT_TRUE(WantsSentinel(idle)) << "no claim of warmth without its guards";
  const Result<Plan> again = ParsePlan(idle.toml, "stored");
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(PlanHash(*again), PlanHash(idle));
  EXPECT_EQ(again->require_ttft_ns, 500 * kNsPerMs);
}

results::RunProgress ProgressOf(int64_t pid) {
  results::RunProgress progress;
  progress.boot_id = "this boot";
  progress.tool_pid = pid;
  progress.tool_start_ticks = *os::ProcessStartTicks(static_cast<int>(pid));
  return progress;
}

TEST(IsBeingMeasured, OnlyByTheSameProcessOfTheSameBoot) {
  const results::RunProgress here = ProgressOf(getpid());
  EXPECT_TRUE(IsBeingMeasured(here, "this boot"));
  EXPECT_FALSE(IsBeingMeasured(here, "another boot"));
  results::RunProgress reused = here;
  reused.tool_start_ticks -= 1;
  EXPECT_FALSE(IsBeingMeasured(reused, "this boot"));
}

TEST(IsBeingMeasured, NotByAProcessThatHasEndedAndWasNotWaitedFor) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const results::RunProgress progress = ProgressOf(child);
  EXPECT_TRUE(IsBeingMeasured(progress, "this boot"));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IsBeingMeasured(progress, "this boot"));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(ResumeTest, NamesTheRunsThatOthersMeasureRightNow) {
  const Plan plan = PlanOf("a");
  EXPECT_EQ(MeasuredBesideText(*store_, "this boot"), "");
  const int64_t run = Store(plan, "running");
  EXPECT_EQ(MeasuredBesideText(*store_, "this boot"), "");  // it has told nothing yet
  ASSERT_TRUE(store_->SetProgress(run, ProgressOf(getppid())).ok());
  EXPECT_EQ(MeasuredBesideText(*store_, "this boot"),
            "run 1 (process " + std::to_string(getppid()) +
                ") is being measured at the same time: both disturb each other");
  EXPECT_EQ(MeasuredBesideText(*store_, "another boot"), "");
  ASSERT_TRUE(store_->FinishRun(run, "interrupted").ok());
  EXPECT_EQ(MeasuredBesideText(*store_, "this boot"), "");
}

TEST(ApplyOverrides, AnIdleTimeThatIsGivenTwiceAndARequirementOfNothingAreRefused) {
  Plan plan = *ParsePlan(FindPreset("idle")->toml, "preset idle");
  EXPECT_EQ(ApplyOverrides(Idle("1s,2s,1s"), plan).error().message(),
            "--idle: 1.00 s is given twice; repeat it with --repeat");
  EXPECT_EQ(ApplyOverrides(Require("0s"), plan).error().message(),
            "--require-ttft must be above 0");
}

}  // namespace
}  // namespace rouse::lab
