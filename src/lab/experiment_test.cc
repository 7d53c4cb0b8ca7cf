#include "lab/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "lab/fakes.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;
using testing::HasSubstr;

class ExperimentTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("rouse-experiment-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    path_ = (directory_ / "r.sqlite").string();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  results::Store Open() {
    Result<results::Store> store = results::Store::Open(path_, results::OpenMode::kReadWrite);
    CHECK(store.ok());
    return *std::move(store);
  }

  Result<ExperimentResult> Run(Bench& bench, uint64_t seed) {
    results::Store store = Open();
    events_.interrupt = &bench.interrupt;
    return RunExperiment(bench.plan, seed, store,
                         {.target = bench.target,
                          .sender = bench.sender,
                          .page_cache = bench.page_cache,
                          .clock = bench.clock,
                          .environment = {{"engine", engine_}},
                          .calibrate = false,
                          .resume_run = resume_,
                          .clocks = [this] { return clocks_; }},
                         events_);
  }

  MachineClocks clocks_ = {.boot_id = "boot a"};
  std::filesystem::path directory_;
  std::string path_;
  ExperimentEvents events_;
  std::optional<int64_t> resume_;
  std::string engine_ = "fake 1";
};

constexpr const char* kOneCondition =
    "[experiment]\nname = \"x\"\nrepeat = 3\n[[condition]]\nname = \"warm\"\n";

// Of the warnings those that the clocks gave.
std::string Codes(const Attempt& attempt) {
  std::string codes;
  for (const results::Warning& warning : attempt.warnings) {
    const std::string& code = warning.code;
    if (code == "rebooted" || code == "suspended" || code == "clock_stepped") codes += code + " ";
  }
  return codes;
}

TEST_F(ExperimentTest, NoticesASuspendAndAClockStepBetweenAttempts) {
  Bench bench(kOneCondition);
  // Between the attempts: the next one begins after it, and is whole.
  events_.on_attempt = [&](const Attempt&, const Progress& progress) {
    if (progress.done == 1) clocks_.suspended_ns = 60 * kNsPerSecond;
    if (progress.done == 2) clocks_.wall_offset_ns = -5 * kNsPerSecond;
  };
  const Result<ExperimentResult> result = Run(bench, 1);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->attempts.size(), 4U);
  EXPECT_EQ(Codes(result->attempts[1]), "");
  EXPECT_EQ(Codes(result->attempts[2]), "suspended ");
  EXPECT_EQ(Codes(result->attempts[3]), "clock_stepped ");
  const auto stored = Open().LoadAttempts(*result->run.id);
  ASSERT_TRUE(stored.ok());
  EXPECT_THAT(stored->at(1).extra_json, HasSubstr("\"boot_id\":\"boot a\""));
  EXPECT_EQ(Codes(stored->at(2)), "suspended ");
}

TEST_F(ExperimentTest, NoticesThatARunWasResumedAfterAReboot) {
  Bench bench(kOneCondition);
  events_.on_attempt = [&](const Attempt&, const Progress& progress) {
    if (progress.done == 1) bench.interrupt = true;
  };
  const Result<ExperimentResult> cut = Run(bench, 1);
  ASSERT_TRUE(cut.ok() && cut->interrupted);
  bench.interrupt = false;
  events_.on_attempt = {};
  resume_ = *cut->run.id;
  clocks_ = {.boot_id = "boot b"};
  const Result<ExperimentResult> resumed = Run(bench, 1);
  ASSERT_TRUE(resumed.ok()) << resumed.error().message();
  const std::vector<Attempt>& attempts = resumed->attempts;
  const size_t first = cut->attempts.size();
  ASSERT_GT(attempts.size(), first + 1);
  EXPECT_EQ(Codes(attempts[first]), "rebooted ");
  EXPECT_EQ(Codes(attempts[first + 1]), "");
}

std::string Quick() { return std::string(FindPreset("quick")->toml); }

TEST_F(ExperimentTest, RunsEveryAttemptOfTheScheduleInItsOrder) {
  Bench bench(Quick());
  const Result<ExperimentResult> result = Run(bench, 4711);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_FALSE(result->interrupted);
  EXPECT_EQ(result->run.status, "complete");
  EXPECT_EQ(result->run.seed, 4711U);
  EXPECT_EQ(result->run.plan_hash, PlanHash(bench.plan));
  EXPECT_EQ(result->run.environment.at("engine"), "fake 1");
  const std::vector<ScheduledAttempt> schedule = MakeSchedule(bench.plan, 4711);
  ASSERT_EQ(result->attempts.size(), schedule.size());
  for (size_t i = 0; i < schedule.size(); ++i) {
    const Attempt& attempt = result->attempts[i];
    EXPECT_EQ(attempt.condition, bench.plan.conditions[schedule[i].condition].name);
    EXPECT_EQ(attempt.position, schedule[i].position);
    EXPECT_EQ(attempt.prime, schedule[i].prime);
    EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  }
  EXPECT_FALSE(bench.target.alive) << "the server must end with its run";
}

TEST_F(ExperimentTest, StoresEachAttemptBeforeTheNextBegins) {
  Bench bench(Quick());
  int64_t seen = 0;
  events_.on_attempt = [&](const Attempt&, const Progress&) {
    Result<results::Store> reader = results::Store::Open(path_, results::OpenMode::kReadOnly);
    ASSERT_TRUE(reader.ok());
    const auto stored = reader->LoadAttempts(1);
    ASSERT_TRUE(stored.ok());
    EXPECT_EQ(static_cast<int64_t>(stored->size()), ++seen);
    EXPECT_EQ(reader->LoadRun(1)->status, "running");
  };
  ASSERT_TRUE(Run(bench, 1).ok());
  EXPECT_EQ(seen, 31);
}

TEST_F(ExperimentTest, KeepsWhatWasMeasuredWhenInterrupted) {
  Bench bench(Quick());
  events_.on_attempt = [&](const Attempt&, const Progress& progress) {
    if (progress.done == 7) bench.interrupt = true;
  };
  const Result<ExperimentResult> result = Run(bench, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->interrupted);
  EXPECT_EQ(result->run.status, "interrupted");
  EXPECT_EQ(Open().LoadAttempts(1)->size(), 8U);
  EXPECT_FALSE(bench.target.alive);
}

TEST_F(ExperimentTest, StopsAtOnceWhenTheTargetCannotBeBroughtUp) {
  Bench bench(Quick());
  bench.target.spawn_error = "no program called my-server";
  const Result<ExperimentResult> result = Run(bench, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->failure, HasSubstr("no program called my-server"));
  EXPECT_EQ(result->run.status, "failed");
  EXPECT_EQ(result->attempts.size(), 1U);
}

TEST_F(ExperimentTest, GoesOnAfterAServerDiedInOneAttempt) {
  Bench bench(Quick());
  int attempts = 0;
  events_.on_attempt = [&](const Attempt&, const Progress&) {
    if (++attempts != 3) return;
    bench.sender.scripts.push_back([&](wire::Exchange exchange) {
      exchange.outcome = wire::Outcome::kTruncated;
      bench.target.Die("was ended by SIGKILL");
      return exchange;
    });
  };
  const Result<ExperimentResult> result = Run(bench, 1);
  ASSERT_TRUE(result.ok());
  int64_t died = 0;
  int64_t fine = 0;
  for (const Attempt& attempt : result->attempts) {
    died += attempt.outcome == Outcome::kTargetExited ? 1 : 0;
    fine += attempt.outcome == Outcome::kOk ? 1 : 0;
  }
  EXPECT_EQ(died, 1);
  EXPECT_EQ(fine, 30);
}

TEST_F(ExperimentTest, RunsANightOfIdleTimesInNoTime) {
  Bench bench(
      "[experiment]\nname = \"idle\"\nrepeat = 3\n[[condition]]\nname = \"warm\"\n"
      "[[condition]]\nname = \"1 min\"\nbase = \"warm\"\nidle = \"1m\"\n"
      "[[condition]]\nname = \"480 min\"\nbase = \"warm\"\nidle = \"480m\"\n");
  int64_t first_eta_ns = 0;
  events_.on_step = [&](const Progress& progress) {
    if (first_eta_ns == 0) first_eta_ns = progress.eta_ns;
  };
  const MonoTime from = bench.clock.Now();
  const Result<ExperimentResult> result = Run(bench, 2);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->attempts.size(), 10U);
  const int64_t idled_ns = 3 * (60 + 480 * 60) * kNsPerSecond;
  EXPECT_GE(bench.clock.Now() - from, idled_ns);
  EXPECT_GE(first_eta_ns, idled_ns);
  EXPECT_LT(first_eta_ns, idled_ns + 120 * kNsPerSecond);
}

TEST_F(ExperimentTest, ResumesARunThatWasCutAndRepeatsOnlyWhatWasNotFinished) {
  Bench bench(Quick());
  events_.on_attempt = [&](const Attempt&, const Progress& progress) {
    // The next attempt is cut while it waits.
    if (progress.done == 7) bench.clock.on_sleep = [&] { bench.interrupt = true; };
  };
  events_.on_step = [&](const Progress& progress) {
    if (progress.done == 7) bench.interrupt = true;
  };
  ASSERT_TRUE(Run(bench, 4711)->interrupted);
  const size_t before = Open().LoadAttempts(1)->size();

  Bench later(Quick());
  events_.on_attempt = {};
  events_.on_step = {};
  resume_ = 1;
  const Result<ExperimentResult> result = Run(later, 1);  // the run's own seed counts
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result->run.status, "complete");
  EXPECT_EQ(result->run.seed, 4711U);
  const std::vector<Attempt> stored = *Open().LoadAttempts(1);
  EXPECT_EQ(stored.size(), before + 1 + 23);  // a prime, and what was missing
  std::map<int64_t, int> finished;
  for (const Attempt& attempt : stored) {
    if (attempt.position && attempt.outcome == Outcome::kOk) ++finished[*attempt.position];
  }
  EXPECT_EQ(finished.size(), 30U);
  for (const auto& [position, count] : finished) EXPECT_EQ(count, 1) << position;
}

TEST_F(ExperimentTest, DoesNotResumeAChangedPlanOrACompleteRun) {
  Bench bench(Quick());
  ASSERT_TRUE(Run(bench, 1).ok());
  resume_ = 1;
  Bench same(Quick());
  EXPECT_THAT(Run(same, 1).error().message(), HasSubstr("is complete"));
  resume_.reset();
  Bench cut(Quick());
  cut.interrupt = true;
  ASSERT_TRUE(Run(cut, 1)->interrupted);
  resume_ = 2;
  Bench changed(Quick());
  changed.plan.repeat = 7;
  EXPECT_THAT(Run(changed, 1).error().message(), HasSubstr("a changed plan is a new run"));
}

// The plan's hash covers neither the file's content nor the server's version.
TEST_F(ExperimentTest, GoesOnWithTheSameModelOnlyAndTellsWhatElseHasChanged) {
  const std::string file = (directory_ / "m.gguf").string();
  std::ofstream(file) << "one model";
  Bench cut(Quick());
  cut.target.file = file;
  cut.interrupt = true;
  ASSERT_TRUE(Run(cut, 1)->interrupted);
  resume_ = 1;
  engine_ = "fake 2";
  std::ofstream(file) << "another 1";  // as long as the first
  Bench other(Quick());
  other.target.file = file;
  const Result<ExperimentResult> refused = Run(other, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
  EXPECT_THAT(refused.error().message(), HasSubstr("another model is a new run"));
  EXPECT_THAT(refused.error().message(), HasSubstr("model_sha256: it was"));
  std::ofstream(file) << "one model";
  Bench same(Quick());
  same.target.file = file;
  const Result<ExperimentResult> result = Run(same, 1);
  ASSERT_TRUE(result.ok()) << result.error().message();
  int told = 0;
  for (const Attempt& attempt : result->attempts) {
    for (const results::Warning& warning : attempt.warnings) {
      if (warning.code != "environment_changed") continue;
      ++told;
      EXPECT_EQ(warning.message, "engine: it was fake 1, it is fake 2");
    }
  }
  EXPECT_EQ(told, 1);
}

// A limit on file sizes stands for a full disk.
class FullDisk {
 public:
  FullDisk() : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) { getrlimit(RLIMIT_FSIZE, &old_); }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  void Fill() {
    const rlimit none{.rlim_cur = 1, .rlim_max = old_.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

TEST_F(ExperimentTest, EndsWithItsServerWhenTheDiskIsFullAndKeepsWhatFitted) {
  Bench bench(Quick());
  {
    FullDisk disk;
    events_.on_attempt = [&](const Attempt&, const Progress& progress) {
      if (progress.done == 2) disk.Fill();
    };
    const Result<ExperimentResult> result = Run(bench, 1);
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.error().message(), HasSubstr(path_));
  }
  EXPECT_FALSE(bench.target.alive) << "the server must end when the run does";
  EXPECT_EQ(Open().LoadAttempts(1)->size(), 3U);
}

}  // namespace
}  // namespace rouse::lab
