// [[hypothesis]]: what is refused before anything is measured, since it could not be judged after.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lab/plan.h"

namespace rouse::lab {
namespace {

// Four lines; what follows begins in the fifth.
std::string Warm(const std::string& rest) {
  return "[experiment]\nname = \"x\"\n[[condition]]\nname = \"warm\"\n" + rest;
}

// A hypothesis about two conditions; what follows begins in the tenth line of the plan.
std::string Judged(const std::string& rest) {
  return "[experiment]\nname = \"x\"\n[[condition]]\nname = \"a\"\n"
         "[[hypothesis]]\nname = \"h\"\ntreatment = \"b\"\ncontrol = \"a\"\nexpect = "
         "\"increase\"\n" +
         rest + "[[condition]]\nname = \"b\"\nbase = \"a\"\nidle = \"1s\"\n";
}

std::string ErrorOf(const std::string& toml) {
  const Result<Plan> plan = ParsePlan(toml, "plan.toml");
  if (plan.ok()) return "(accepted)";
  EXPECT_EQ(plan.error().code(), ErrorCode::kUsage);
  return plan.error().message();
}

struct BadPlan {
  std::string toml;
  std::string message;
};

const std::vector<BadPlan> kBadHypotheses = {
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"cold\"\ncontrol = \"warm\"\n"
          "expect = \"increase\"\nmargin = \"10%\"\n"),
     "plan.toml:7: treatment \"cold\" of hypothesis \"h\" is no condition of this plan"},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"warm\"\ncontrol = \"warm\"\n"
          "expect = \"increase\"\nmargin = \"10%\"\n"),
     "plan.toml:8: hypothesis \"h\" compares \"warm\" with itself"},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"warm\"\n"),
     "plan.toml:5: hypothesis \"h\" needs \"control\": the name of a condition"},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"a\"\ncontrol = \"b\"\n"
          "expect = \"increase\"\n"),
     "plan.toml:5: hypothesis \"h\" needs \"margin\": the smallest change worth having, "
     "\"100ms\" or \"10%\""},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"a\"\ncontrol = \"b\"\n"
          "expect = \"increse\"\nmargin = \"10%\"\n"),
     "plan.toml:9: \"expect\" in hypothesis \"h\" has no value \"increse\" (did you mean "
     "\"increase\"?); expected one of decrease, increase, equal"},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"a\"\ncontrol = \"b\"\n"
          "expect = \"increase\"\nmargin = \"0%\"\n"),
     "plan.toml:10: \"margin\" in hypothesis \"h\": \"0%\" is not a share above 0, such as "
     "\"10%\""},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"a\"\ncontrol = \"b\"\n"
          "expect = \"increase\"\nmargin = \"10\"\n"),
     "plan.toml:10: \"margin\" in hypothesis \"h\": \"10\" has no unit (write for example 500ms, "
     "10s, 1.5m or 8h), or \"10%\""},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"a\"\ncontrol = \"b\"\n"
          "expect = \"increase\"\nmargin = \"10%\"\nconfidence = 95\n"),
     "plan.toml:11: \"confidence\" in hypothesis \"h\" must be above 0.5 and below 1"},
    {Warm("[[hypothesis]]\nname = \"h\"\nstatistic = \"average\"\n"),
     "plan.toml:7: \"statistic\" in hypothesis \"h\" has no value \"average\"; expected one of "
     "median, p90, p95, mean"},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"a\"\ncontrol = \"b\"\n"
          "expect = \"increase\"\nmargin = \"10%\"\nguard = [\"failure_rate\"]\n"),
     "plan.toml:11: \"guard\" in hypothesis \"h\": \"failure_rate\" needs NAME<=NUMBER (or <, >=, "
     ">); expected for example \"failure_rate<=0.05\""},
    {Warm("[[hypothesis]]\nname = \"h\"\ntreatment = \"a\"\ncontrol = \"b\"\n"
          "expect = \"increase\"\nmargin = \"10%\"\nguard = [\"failure_rat<=0.05\"]\n"),
     "plan.toml:11: \"guard\" in hypothesis \"h\": \"failure_rat<=0.05\": there is no metric "
     "\"failure_rat\"; did you mean failure_rate?; expected for example \"failure_rate<=0.05\""},
    // What would fail only after the whole run, when it is judged.
    {Judged("margin = \"10%\"\nguard = [\"ttft_ns<=500000000\"]\n"),
     "plan.toml:11: \"guard\" in hypothesis \"h\": \"ttft_ns<=500000000\": \"500000000\" has no "
     "unit "
     "(write for example 500ms, 10s, 1.5m or 8h); expected for example \"failure_rate<=0.05\""},
    {Judged("margin = \"10%\"\nguard = [\"failure_rate<=1s\"]\n"),
     "plan.toml:11: \"guard\" in hypothesis \"h\": \"1s\" is not a number of at least 0; expected "
     "for "
     "example \"failure_rate<=0.05\""},
    {Judged("margin = \"10%\"\nguard = [\"p42(ttft)<=1s\"]\n"),
     "plan.toml:11: \"guard\" in hypothesis \"h\": \"p42(ttft)<=1s\": the statistic must be "
     "median, "
     "max, min, mean, p90 or p95; expected for example \"failure_rate<=0.05\""},
    {Judged("metric = \"target_read_bytes\"\nmargin = \"5ms\"\n"),
     "plan.toml:11: \"margin\" in hypothesis \"h\": \"5ms\" has an unknown unit (write for example "
     "65536, 512MiB or 4GB), or "
     "\"10%\": "
     "target_read_bytes is in bytes"},
    {Judged("metric = \"cotenant_slowdown_ratio\"\nmargin = \"5ms\"\n"),
     "plan.toml:11: \"margin\" in hypothesis \"h\": \"5ms\" is not a number of at least 0, or "
     "\"10%\": "
     "cotenant_slowdown_ratio is a ratio"},
    {Judged("margin = \"0s\"\n"),
     "plan.toml:10: \"margin\" in hypothesis \"h\": must be above 0: the smallest change worth "
     "having"},
    {Judged("margin = \"10%\"\nconfidence = 0.5\n"),
     "plan.toml:11: \"confidence\" in hypothesis \"h\" must be above 0.5 and below 1"},
};

TEST(Hypothesis, IsRefusedWithFileLineAndKeyWhereItCouldNotBeJudged) {
  for (const BadPlan& bad : kBadHypotheses) EXPECT_EQ(ErrorOf(bad.toml), bad.message) << bad.toml;
}

TEST(Hypothesis, TakesStatisticsInGuardsAndMarginsInTheUnitOfItsMetric) {
  for (const char* const good :
       {"margin = \"10%\"\nguard = [\"p95(ttft)<=2s\", \"failure_rate<=0.05\"]\n",
        "margin = \"10%\"\nguard = [\"target_rss_bytes<=150MB\", \"psi_memory_full_us<1ms\"]\n",
        "metric = \"target_read_bytes\"\nmargin = \"10MB\"\n",
        "metric = \"target_major_faults\"\nmargin = \"5\"\n",
        "metric = \"cotenant_slowdown_ratio\"\nmargin = \"0.05\"\n", "margin = \"1.5ms\"\n",
        "margin = \"10%\"\nconfidence = 0.51\n"}) {
    EXPECT_EQ(ErrorOf(Judged(good)), "(accepted)") << good;
  }
}

}  // namespace
}  // namespace rouse::lab
