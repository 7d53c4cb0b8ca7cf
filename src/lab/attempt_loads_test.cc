// Loads around an attempt, with a maker that starts nothing and writes down what is asked of it.
#include "lab/attempt_loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/fakes.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class FakeLoadMaker : public LoadMaker {
 public:
  explicit FakeLoadMaker(Bench& bench) : bench_(bench) {}

  class FakeLoads : public Loads {
   public:
    FakeLoads(FakeLoadMaker& maker, LoadSpec spec) : maker_(maker), spec_(std::move(spec)) {}
    ~FakeLoads() override { maker_.bench_.log.push_back("end " + Word()); }
    std::string Word() const { return spec_.ballast_bytes ? "ballast" : spec_.background; }
    LoadReading Read() override {
      ++maker_.readings;
      LoadReading reading;
      if (spec_.ballast_bytes) reading.ballast_bytes = maker_.held_bytes;
      // As much as one CPU would have given.
      reading.cpu_ns = maker_.cpu_works ? maker_.bench_.clock.Now().ns : 0;
      reading.read_bytes = maker_.disk_works ? maker_.readings * 4096 : 0;
      return reading;
    }
    std::string BallastGroup() const override { return "in no control group of its own"; }
    Result<LoadReport> Finish(MonoTime) override {
      return LoadReport{.requests_answered = maker_.answered};
    }

   private:
    FakeLoadMaker& maker_;
    LoadSpec spec_;
  };

  class FakeSentinel : public Sentinel {
   public:
    explicit FakeSentinel(FakeLoadMaker& maker) : maker_(maker) {}
    Result<SentinelReading> Finish(MonoTime from, MonoTime to, MonoTime) override {
      maker_.sentinel_ns = to - from;
      if (maker_.too_short) return Error(ErrorCode::kState, "the sentinel ran 25 units and 2");
      return SentinelReading{.slowdown = 0.25};
    }

   private:
    FakeLoadMaker& maker_;
  };

  Result<std::unique_ptr<Loads>> StartLoads(const LoadSpec& spec, MonoTime) override {
    auto loads = std::make_unique<FakeLoads>(*this, spec);
    bench_.log.push_back("start " + loads->Word());
    last = spec;
    if (!failure.empty()) return Error(ErrorCode::kState, failure);
    if (spec.ballast_bytes && ballast_takes_pages) bench_.page_cache.ratio = 0.4;
    return std::unique_ptr<Loads>(std::move(loads));
  }
  Result<std::unique_ptr<Sentinel>> StartSentinel(MonoTime) override {
    bench_.log.push_back("start sentinel");
    return std::unique_ptr<Sentinel>(std::make_unique<FakeSentinel>(*this));
  }

  LoadSpec last;
  std::string failure;
  std::optional<int64_t> held_bytes = 1 << 30;
  bool cpu_works = true;
  bool disk_works = true;
  std::optional<int64_t> answered = 3;
  bool ballast_takes_pages = false;
  bool too_short = false;
  int64_t sentinel_ns = 0;
  int64_t readings = 0;

 private:
  Bench& bench_;
};

std::string PlanWith(const std::string& state, const std::string& more = "") {
  return "[experiment]\nname = \"x\"\n" + more + "[[condition]]\nname = \"warm\"\nstate = { " +
         state + " }\n";
}

struct LoadBench {
  explicit LoadBench(const std::string& toml) : bench(toml), maker(bench) {}
  Attempt Run() {
    AttemptContext context = bench.Context();
    context.states.loads = &maker;
    context.states.send_primer = [&](const SendSetup& setup) { return SendPrimer(context, setup); };
    return RunAttempt(context, {.block = 0, .position = 0, .condition = 0, .prime = false});
  }
  size_t At(const std::string& what) const {
    return static_cast<size_t>(std::find(bench.log.begin(), bench.log.end(), what) -
                               bench.log.begin());
  }
  Bench bench;
  FakeLoadMaker maker;
};

TEST(MemoryPressure, StandsAroundTheRequestAndIsProvedBeforeAndAfter) {
  LoadBench loads(PlanWith("memory_pressure = \"1GiB\""));
  const Attempt attempt = loads.Run();
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(loads.maker.last.ballast_bytes, 1 << 30);
  EXPECT_LT(loads.At("primer"), loads.At("start ballast"));
  EXPECT_LT(loads.At("start ballast"), loads.At("send"));
  EXPECT_LT(loads.At("send"), loads.At("end ballast"));
  for (const auto* readings :
       {&attempt.state_before, &attempt.state_at_send, &attempt.state_after}) {
    EXPECT_EQ(readings->at("memory_pressure").reached, true);
    EXPECT_EQ(std::get<std::string>(readings->at("memory_pressure").value), "1073741824");
  }
}

TEST(MemoryPressure, ThatIsNotHeldSendsNothing) {
  LoadBench loads(PlanWith("memory_pressure = \"1GiB\""));
  loads.maker.held_bytes = 900 << 20;
  const Attempt attempt = loads.Run();
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("memory_pressure: wanted 1073741824"));
  EXPECT_THAT(loads.bench.log, Not(Contains("send")));
  EXPECT_THAT(loads.bench.log, Contains("end ballast"));
}

TEST(MemoryPressure, ThatCannotBeBroughtAboutSaysWhy) {
  LoadBench loads(PlanWith("memory_pressure = \"1GiB\""));
  loads.maker.failure = "the load \"ballast\" did not start: cannot map";
  const Attempt attempt = loads.Run();
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("cannot map"));
}

TEST(MemoryPressure, ThatPushesTheFileOutIsAFindingAndSaidSo) {
  LoadBench loads(PlanWith("memory_pressure = \"1GiB\""));
  loads.maker.ballast_takes_pages = true;
  const Attempt attempt = loads.Run();
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(attempt.state_at_send.at("page_cache").reached, false);
  ASSERT_FALSE(attempt.warnings.empty());
  EXPECT_EQ(attempt.warnings.front().code, "lost_to_ballast");
}

TEST(Background, RunsOnlyAroundTheRequestAndIsProvedByWhatItDid) {
  for (const char* const kind : {"cpu", "disk", "requests"}) {
    LoadBench loads(PlanWith("background = \"" + std::string(kind) + "\""));
    const Attempt attempt = loads.Run();
    EXPECT_EQ(attempt.outcome, Outcome::kOk) << kind << attempt.outcome_detail;
    EXPECT_EQ(attempt.state_after.at("background").reached, true) << kind;
    EXPECT_FALSE(attempt.state_after.at("background").detail.empty());
    EXPECT_LT(loads.At("primer"), loads.At("start " + std::string(kind)));
    EXPECT_LT(loads.At("send"), loads.At("end " + std::string(kind)));
    EXPECT_EQ(loads.maker.last.url, loads.bench.target.url());
    EXPECT_EQ(loads.maker.last.disk_file, "/model.gguf");
  }
}

TEST(Background, ThatDidNothingMakesTheAttemptNoSample) {
  for (const char* const kind : {"cpu", "disk", "requests"}) {
    LoadBench loads(PlanWith("background = \"" + std::string(kind) + "\""));
    loads.maker.cpu_works = loads.maker.disk_works = false;
    loads.maker.answered = 0;
    const Attempt attempt = loads.Run();
    EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached) << kind;
    EXPECT_THAT(attempt.outcome_detail, HasSubstr("background: wanted " + std::string(kind)));
    EXPECT_TRUE(attempt.ttft_ns.has_value());  // what was seen stays
  }
}

TEST(Background, DoesNotRunWhileIdling) {
  LoadBench loads(PlanWith("background = \"cpu\"") + "idle = \"1h\"\n");
  size_t seen_at_hour = 0;
  loads.bench.clock.on_sleep = [&] {
    if (loads.bench.clock.now.ns > 3'600'000'000'000 && seen_at_hour == 0) {
      seen_at_hour = loads.bench.log.size();
    }
  };
  EXPECT_EQ(loads.Run().outcome, Outcome::kOk);
  ASSERT_GT(seen_at_hour, 0U);
  EXPECT_GE(loads.At("start cpu"), seen_at_hour);
}

TEST(CotenantSentinel, RunsWhenAskedForAndGivesItsMetric) {
  LoadBench loads(PlanWith("", "sentinel = true\n"));
  const Attempt attempt = loads.Run();
  EXPECT_EQ(attempt.counters.at("cotenant_slowdown_ratio"), results::MetricValue(0.25));
  EXPECT_EQ(loads.maker.sentinel_ns, attempt.marks.end);
}

TEST(CotenantSentinel, RunsWhenAHypothesisOrItsGuardNeedsIt) {
  for (const char* const need : {"margin = \"10%\"\nguard = [\"cotenant_slowdown<=0.10\"]\n",
                                 "metric = \"cotenant_slowdown_ratio\"\nmargin = \"0.1\"\n"}) {
    LoadBench loads(PlanWith("") +
                    "[[condition]]\nname = \"b\"\nbase = \"warm\"\nidle = \"1s\"\n"
                    "[[hypothesis]]\nname = \"h\"\ntreatment = \"b\"\ncontrol = \"warm\"\nexpect = "
                    "\"equal\"\n" +
                    need);
    EXPECT_TRUE(loads.Run().counters.contains("cotenant_slowdown_ratio")) << need;
  }
}

TEST(CotenantSentinel, DoesNotRunUnasked) {
  LoadBench loads(PlanWith(""));
  EXPECT_FALSE(loads.Run().counters.contains("cotenant_slowdown_ratio"));
  EXPECT_THAT(loads.bench.log, Not(Contains("start sentinel")));
}

TEST(CotenantSentinel, OfATooShortRequestIsNullWithTheReason) {
  LoadBench loads(PlanWith("", "sentinel = true\n"));
  loads.maker.too_short = true;
  const Attempt attempt = loads.Run();
  EXPECT_EQ(attempt.counters.at("cotenant_slowdown_ratio"), std::nullopt);
  EXPECT_THAT(attempt.null_reasons.at("cotenant_slowdown_ratio"), HasSubstr("2"));
}

}  // namespace
}  // namespace rouse::lab
