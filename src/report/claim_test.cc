#include "report/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rouse::report {
namespace {

using results::Attempt;
using testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

results::Run RunOf(const std::string& status) {
  results::Run run;
  run.status = status;
  run.require_ttft_ns = 500 * kMs;
  for (const int64_t seconds : {0, 60}) {
    results::ConditionRow row;
    row.name = "idle " + std::to_string(seconds) + " s";
    row.idle_ns = seconds * 1000 * kMs;
    run.conditions.push_back(row);
  }
  results::ConditionRow cold;  // without an idle time: not in the claim
  cold.name = "cold";
  run.conditions.push_back(cold);
  return run;
}

Attempt AttemptOf(const std::string& condition, int64_t ttft_ms, double resident) {
  Attempt attempt;
  attempt.condition = condition;
  attempt.outcome = results::Outcome::kOk;
  attempt.idle_ns = condition == "idle 60 s" ? 60'000 * kMs : 0;
  attempt.ttft_ns = ttft_ms * kMs;
  attempt.marks.end = attempt.ttft_ns;
  for (const char* const name : {"idle_swap_in_bytes", "machine_swap_in_bytes",
                                 "idle_psi_memory_full_us", "psi_memory_full_us"}) {
    attempt.counters[name] = int64_t{0};
  }
  attempt.counters["cotenant_slowdown_ratio"] = 0.05;
  attempt.state_at_send["page_cache"].value = resident;
  attempt.state_at_send["process"].value = std::string("running");
  return attempt;
}

std::vector<Attempt> Four() {
  return {AttemptOf("idle 0 s", 100, 1), AttemptOf("idle 0 s", 110, 1),
          AttemptOf("idle 60 s", 120, 1), AttemptOf("idle 60 s", 130, 0.25),
          AttemptOf("cold", 9000, 0)};
}

std::string Word(const results::Run& run, const std::vector<Attempt>& attempts) {
  return nlohmann::json::parse(ClaimJson(run, attempts))["word"];
}

TEST(RunClaim, CountsTheConditionsWithAnIdleTimeOnly) {
  EXPECT_EQ(Word(RunOf("complete"), Four()), "warm");
  results::Run none = RunOf("complete");
  none.require_ttft_ns.reset();
  EXPECT_EQ(ClaimJson(none, Four()), "null");
  EXPECT_EQ(RenderClaim(none, Four(), 80), "");
}

TEST(RunClaim, ShowsTheLayersAfterEachIdleTimeBesideTheWord) {
  std::vector<Attempt> attempts = Four();
  attempts[3].ttft_ns = 700 * kMs;
  const std::string text = RenderClaim(RunOf("complete"), attempts, 80);
  EXPECT_THAT(text, HasSubstr("bounded cold start: the worst first token came after 700 ms"));
  EXPECT_THAT(text, HasSubstr("idle 60 s: worst 700 ms of 2; page_cache 25.0 % to 100 %"));
  EXPECT_THAT(text, HasSubstr("process running"));
  const nlohmann::json json = nlohmann::json::parse(ClaimJson(RunOf("complete"), attempts));
  EXPECT_EQ(json["bound"]["condition"], "idle 60 s");
  EXPECT_EQ(json["bound"]["ttft_ns"], 700 * kMs);
  EXPECT_NEAR(json["bound"]["share_ci"][0].get<double>(), 0.2236, 1e-4);
  EXPECT_EQ(json["conditions"][1]["layers"]["page_cache"], nlohmann::json({1.0, 0.25}));
  EXPECT_EQ(json["conditions"][0]["held"], true);
}

TEST(RunClaim, IsNotHeldInARunThatIsCutOrWithAFailure) {
  EXPECT_EQ(Word(RunOf("paused"), Four()), "not held");
  std::vector<Attempt> attempts = Four();
  attempts[0].outcome = results::Outcome::kTimeout;
  attempts[0].ttft_ns.reset();
  EXPECT_EQ(Word(RunOf("complete"), attempts), "not held");
  attempts[0].outcome = results::Outcome::kInterrupted;  // does not count: too few remain
  EXPECT_EQ(Word(RunOf("complete"), attempts), "not held");
}

TEST(RunClaim, RefusesWarmthThatOthersPaidFor) {
  std::vector<Attempt> attempts = Four();
  attempts[2].counters["idle_swap_in_bytes"] = int64_t{2} << 20U;
  EXPECT_EQ(Word(RunOf("complete"), attempts), "bounded cold start");
  attempts = Four();
  // 0.7 s of 60 s without any task that could go on.
  attempts[2].counters["idle_psi_memory_full_us"] = int64_t{700'000};
  EXPECT_EQ(Word(RunOf("complete"), attempts), "bounded cold start");
  attempts = Four();
  for (Attempt& attempt : attempts) attempt.counters["cotenant_slowdown_ratio"] = 0.3;
  EXPECT_EQ(Word(RunOf("complete"), attempts), "bounded cold start");
  attempts = Four();
  attempts[1].counters.erase("machine_swap_in_bytes");
  EXPECT_EQ(Word(RunOf("complete"), attempts), "bounded cold start") << "not measured";
}

}  // namespace
}  // namespace rouse::report
