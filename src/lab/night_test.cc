// The whole idle ladder, 0 to 480 minutes in three blocks, with the fake clock and the scripted
// server, while everything that can happen in three nights happens: suspend, reboot, death of the
// server, a full disk, Ctrl-C, and the tool being killed. Faults are drawn from a seed, which every
// failure names; ROUSE_NIGHT_SEED=17 runs that one alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/strings.h"
#include "lab/experiment.h"
#include "lab/fakes.h"
#include "results/json.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;

constexpr int64_t kMinuteNs = 60 * kNsPerSecond;
constexpr int64_t kHourNs = 60 * kMinuteNs;
constexpr uint64_t kSeeds = 200;
constexpr int kLivesLimit = 60;

constexpr const char* kLadder =
    "[experiment]\nname = \"idle\"\nrepeat = 3\n"
    "[[condition]]\nname = \"idle 0 s\"\nidle = \"0s\"\n"
    "[[condition]]\nname = \"idle 1 min\"\nbase = \"idle 0 s\"\nidle = \"1m\"\n"
    "[[condition]]\nname = \"idle 10 min\"\nbase = \"idle 0 s\"\nidle = \"10m\"\n"
    "[[condition]]\nname = \"idle 60 min\"\nbase = \"idle 0 s\"\nidle = \"60m\"\n"
    "[[condition]]\nname = \"idle 480 min\"\nbase = \"idle 0 s\"\nidle = \"480m\"\n";

enum class Fault { kSuspend, kServerDeath, kInterrupt, kKill, kReboot, kDiskFull };

// Thrown where the tool is killed: nothing after it runs, and the store is left as it is.
struct Killed {};

// A limit on file sizes stands for a full disk.
class Disk {
 public:
  Disk() : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) { getrlimit(RLIMIT_FSIZE, &old_); }
  ~Disk() {
    Empty();
    std::signal(SIGXFSZ, old_handler_);
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  void Fill() const {
    const rlimit none{.rlim_cur = 1, .rlim_max = old_.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
  }
  void Empty() const { setrlimit(RLIMIT_FSIZE, &old_); }

 private:
  void (*old_handler_)(int);
  rlimit old_{};
};

// Nobody answers for a dead server, and the request is a moment at which things happen too.
class NightSender : public FakeSender {
 public:
  NightSender(Bench& bench, std::function<void()> during)
      : FakeSender(bench.clock, bench.target, bench.page_cache, bench.log),
        bench_(bench),
        during_(std::move(during)) {}

  wire::Exchange Perform(std::optional<MonoTime> intended,
                         const std::atomic<bool>* interrupt) override {
    if (bench_.target.alive) {
      if (intended) during_();
      return FakeSender::Perform(intended, interrupt);
    }
    bench_.log.push_back(intended ? "send" : "primer");
    wire::Exchange exchange;
    exchange.outcome = wire::Outcome::kConnectError;
    exchange.connection.connect_errno = ECONNREFUSED;
    exchange.marks.send_start = intended.value_or(bench_.clock.Now());
    exchange.marks.connect_start = exchange.marks.end = bench_.clock.Now();
    return exchange;
  }

 private:
  Bench& bench_;
  std::function<void()> during_;
};

// Three nights of one seed, over as many lives of the tool as they take.
class Nights {
 public:
  Nights(uint64_t seed, std::string path) : seed_(seed), random_(seed), path_(std::move(path)) {
    fatal_left_ = random_.Below(5);
  }

  void Run() {
    for (int life = 0; life < kLivesLimit && !complete_; ++life) Live();
    ASSERT_TRUE(complete_) << "not complete after " << kLivesLimit << " lives of the tool";
    CheckTheWhole();
  }

 private:
  // One life: from the start of the command to its end, whatever ends it.
  void Live() {
    const auto bench = std::make_unique<Bench>(kLadder);
    bench->plan.session_ns = 10 * kHourNs;
    bench->page_cache.ratio = rebooted_ ? 0 : 1;
    rebooted_ = false;
    bench_ = bench.get();
    DrawFaults();
    NightSender sender(*bench, [this] { During(true); });
    MonoTime before = bench->clock.Now();
    bench->clock.on_sleep = [&] {
      const bool idle = bench->clock.Now() - before >= kMinuteNs / 2;
      before = bench->clock.Now();
      if (idle) During(false);
    };
    ExperimentEvents events;
    events.interrupt = &bench->interrupt;
    events.on_step = [&](const Progress& progress) {
      before = bench->clock.Now();
      OnStep(progress);
    };
    events.on_attempt = [&](const Attempt& attempt, const Progress&) { OnAttempt(attempt); };
    events.on_start = [&](const results::Run& run) { run_ = *run.id; };
    Result<results::Store> store = results::Store::Open(path_, results::OpenMode::kReadWrite);
    ASSERT_TRUE(store.ok()) << store.error().message();
    try {
      const Result<ExperimentResult> result = RunExperiment(bench->plan, seed_, *store,
                                                            {.target = bench->target,
                                                             .sender = sender,
                                                             .page_cache = bench->page_cache,
                                                             .clock = bench->clock,
                                                             .environment = {},
                                                             .calibrate = false,
                                                             .resume_run = run_,
                                                             .clocks = [this] { return clocks_; }},
                                                            events);
      disk_.Empty();
      EXPECT_FALSE(bench->target.alive) << "the server must end with its run";
      if (!result.ok()) {
        EXPECT_TRUE(disk_was_full_) << result.error().message();
        if (in_flight_) Lose();
      } else {
        complete_ = result->run.status == "complete";
        EXPECT_EQ(result->failure, "");
      }
    } catch (const Killed&) {
      disk_.Empty();
      if (in_flight_) Lose();
    }
    disk_was_full_ = false;
    in_flight_ = false;
    CheckNothingWasLost(*store);
  }

  void DrawFaults() {
    faults_.clear();
    const auto draw = [&](Fault fault) {
      const auto after_ns = static_cast<int64_t>(random_.Below(10 * kHourNs));
      faults_.emplace(bench_->clock.Now().ns + after_ns, fault);
    };
    for (uint64_t i = random_.Below(3); i > 0; --i) {
      draw(random_.Below(2) == 0 ? Fault::kSuspend : Fault::kServerDeath);
    }
    if (fatal_left_ == 0) return;
    --fatal_left_;
    draw(static_cast<Fault>(2 + random_.Below(4)));
  }

  // In an idle time or in the request: what is due happens.
  void During(bool request) {
    while (!faults_.empty() && faults_.begin()->first <= bench_->clock.Now().ns) {
      const Fault fault = faults_.begin()->second;
      faults_.erase(faults_.begin());
      Strike(fault, request);
    }
  }

  void Strike(Fault fault, bool request) {
    switch (fault) {
      case Fault::kSuspend:
        clocks_.suspended_ns += kMinuteNs + static_cast<int64_t>(random_.Below(3 * kHourNs));
        suspended_ = true;
        return;
      case Fault::kServerDeath:
        if (request) return;  // it answers at once: nothing lies between
        bench_->target.Die("was ended by SIGKILL");
        server_died_ = true;
        return;
      case Fault::kInterrupt:
        bench_->interrupt = true;
        interrupted_ = true;
        return;
      case Fault::kReboot:
        clocks_ = {.boot_id = "boot " + std::to_string(++boots_)};
        rebooted_ = true;
        throw Killed();
      case Fault::kKill:
        throw Killed();
      case Fault::kDiskFull:
        disk_.Fill();
        disk_was_full_ = true;
        return;
    }
  }

  void OnStep(const Progress& progress) {
    if (progress.step == "preparing" || progress.step == "unmeasured first attempt") {
      ++begun_;
      in_flight_ = true;
      suspended_ = server_died_ = interrupted_ = false;
      idle_from_.reset();
    }
    if (!progress.step.starts_with("idle for")) return;
    idle_from_ = bench_->log.size();
    idle_since_ = bench_->clock.Now();
  }

  void OnAttempt(const Attempt& attempt) {
    in_flight_ = false;
    ++stored_;
    switch (attempt.outcome) {
      case Outcome::kOk:
        EXPECT_FALSE(suspended_ || server_died_);
        break;
      case Outcome::kTargetExited:
        EXPECT_TRUE(server_died_) << attempt.outcome_detail;
        break;
      case Outcome::kInterrupted:
        EXPECT_TRUE(suspended_ || interrupted_) << attempt.outcome_detail;
        break;
      default:
        ADD_FAILURE() << results::OutcomeName(attempt.outcome) << " " << attempt.outcome_detail;
    }
    if (!idle_from_) return;
    const Log& log = bench_->log;
    if (log.size() > *idle_from_) {
      EXPECT_EQ(log[*idle_from_], "send") << "the idle time was used for something else";
      EXPECT_GE(bench_->clock.Now() - idle_since_, *attempt.idle_ns);
    } else {
      EXPECT_EQ(attempt.outcome, Outcome::kInterrupted) << "no request was sent";
    }
  }

  // The attempt in flight leaves nothing but what the store was told before it.
  void Lose() {
    ++lost_;
    Result<results::Store> store = results::Store::Open(path_, results::OpenMode::kReadOnly);
    ASSERT_TRUE(store.ok());
    const auto progress = store->LoadProgress(run_.value_or(0));
    ASSERT_TRUE(progress.ok());
    if (!*progress || !(*progress)->position) return;  // a prime
    // A full disk can have kept the note of this attempt out: then the one before stands there.
    const std::vector<Attempt> attempts = *store->LoadAttempts(*run_);
    const auto is_this = [&](const Attempt& each) {
      return each.position == (*progress)->position && each.outcome != Outcome::kInterrupted;
    };
    if (std::none_of(attempts.begin(), attempts.end(), is_this)) {
      ++lost_rows_;
    }
  }

  // What was stored once stays, word for word.
  void CheckNothingWasLost(results::Store& store) {
    if (!run_) return;
    const auto attempts = store.LoadAttempts(*run_);
    ASSERT_TRUE(attempts.ok());
    std::vector<std::string> now;
    for (const Attempt& attempt : *attempts) now.push_back(results::AttemptJson(attempt));
    ASSERT_GE(now.size(), known_.size());
    EXPECT_TRUE(std::equal(known_.begin(), known_.end(), now.begin()));
    known_ = std::move(now);
  }

  void CheckTheWhole() {
    Result<results::Store> store = results::Store::Open(path_, results::OpenMode::kReadOnly);
    ASSERT_TRUE(store.ok());
    const std::vector<Attempt> attempts = *store->LoadAttempts(*run_);
    EXPECT_EQ(attempts.size(), stored_ + lost_rows_);
    EXPECT_EQ(begun_, stored_ + lost_) << "every attempt that was begun ends exactly once";
    const Plan plan = Bench::ParseOrDie(kLadder);
    std::map<int64_t, std::vector<const Attempt*>> by_position;
    for (const Attempt& attempt : attempts) {
      if (attempt.position) by_position[*attempt.position].push_back(&attempt);
    }
    size_t scheduled_count = 0;
    for (const ScheduledAttempt& scheduled : MakeSchedule(plan, seed_)) {
      if (scheduled.prime) continue;
      ++scheduled_count;
      const std::vector<const Attempt*>& tries = by_position[*scheduled.position];
      ASSERT_FALSE(tries.empty()) << "position " << *scheduled.position << " was never made";
      for (const Attempt* const each : tries) {
        EXPECT_EQ(each->condition, plan.conditions[scheduled.condition].name);
        EXPECT_EQ(each->outcome == Outcome::kInterrupted, each != tries.back());
      }
      EXPECT_EQ(HasWarning(*tries.back(), "repeated"), tries.size() > 1)
          << "position " << *scheduled.position;
    }
    EXPECT_EQ(by_position.size(), scheduled_count);
    EXPECT_EQ(store->LoadRun(*run_)->status, "complete");
  }

  static bool HasWarning(const Attempt& attempt, const std::string& code) {
    return std::any_of(attempt.warnings.begin(), attempt.warnings.end(),
                       [&](const results::Warning& each) { return each.code == code; });
  }

  uint64_t seed_;
  SplitMix64 random_;
  std::string path_;
  uint64_t fatal_left_ = 0;
  std::multimap<int64_t, Fault> faults_;  // by the time on the fake clock
  Disk disk_;
  MachineClocks clocks_ = {.boot_id = "boot 0"};
  int boots_ = 0;
  Bench* bench_ = nullptr;
  std::optional<int64_t> run_;
  bool complete_ = false;
  bool rebooted_ = false;
  bool disk_was_full_ = false;
  bool in_flight_ = false;
  // Of the attempt in flight.
  bool suspended_ = false;
  bool server_died_ = false;
  bool interrupted_ = false;
  std::optional<size_t> idle_from_;
  MonoTime idle_since_;
  size_t begun_ = 0;
  size_t stored_ = 0;
  size_t lost_ = 0;
  size_t lost_rows_ = 0;  // which get their end when the run goes on
  std::vector<std::string> known_;
};

// In memory where that is possible: 30,000 transactions wait for no disk.
std::filesystem::path Folder() {
  std::error_code none;
  const std::filesystem::path memory = "/dev/shm";
  const bool usable = std::filesystem::is_directory(memory, none) && access("/dev/shm", W_OK) == 0;
  return (usable ? memory : std::filesystem::temp_directory_path()) /
         ("rouse-night-" + std::to_string(getpid()));
}

TEST(Night, EveryScheduledAttemptEndsExactlyOnceWhateverHappens) {
  const std::filesystem::path folder = Folder();
  std::filesystem::create_directories(folder);
  const char* const chosen = std::getenv("ROUSE_NIGHT_SEED");
  const std::optional<int64_t> only = chosen == nullptr ? std::nullopt : ParseInt64(chosen);
  const auto first = static_cast<uint64_t>(only.value_or(1));
  const uint64_t last = only ? first : kSeeds;
  for (uint64_t seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("ROUSE_NIGHT_SEED=" + std::to_string(seed));
    const std::filesystem::path path = folder / (std::to_string(seed) + ".sqlite");
    Nights(seed, path.string()).Run();
    for (const char* const end : {"", "-wal", "-shm"}) {
      std::filesystem::remove(path.string() + end);
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rouse::lab
