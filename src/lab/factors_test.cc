// Conditions that vary a factor: brought about, proved, and refuted.
#include "lab/factors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lab/companions.h"
#include "lab/factor_proofs.h"
#include "lab/fakes.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string Plans(const std::string& rest, const std::string& target = "") {
  return "[experiment]\nname = \"x\"\n" + target + "[[condition]]\nname = \"warm\"\n" +
         "[[condition]]\nname = \"treated\"\nbase = \"warm\"\n" + rest;
}

TEST(Factors, ArgumentsAreProvedByTheCommandLine) {
  Bench bench(Plans("target_args = [\"--threads\", \"1\"]\n"));
  const Attempt attempt = bench.Run("treated");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  const results::LayerReading& reading = attempt.state_at_send.at("target_args");
  EXPECT_EQ(reading.reached, true);
  EXPECT_EQ(reading.proof, "/proc/PID/cmdline");
  EXPECT_EQ(reading.wanted, "[\"--threads\", \"1\"]");
  EXPECT_EQ(bench.Run("warm").state_at_send.at("target_args").wanted, "[]");
}

// A wrapper that drops what it is given.
TEST(Factors, ArgumentsThatDoNotArriveAreNotReached) {
  Bench bench(Plans("target_args = [\"--threads\", \"1\"]\n"));
  bench.target.drops_args = true;
  const Attempt attempt = bench.Run("treated");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("no process of the server was started with them"));
  EXPECT_THAT(bench.log, Not(Contains("send")));
}

TEST(Factors, ArgumentsThatTheServersStateDeniesAreNotReached) {
  const Plan plan =
      Bench::ParseOrDie(Plans("target_args = [\"--threads\", \"3\", \"--flash-attn\", \"off\"]\n"));
  results::LayerReadings readings;
  readings["target_args"].reached = true;
  readings["target_args"].proof = "/proc/PID/cmdline";
  const auto state = [](const std::string& context) {
    return R"({"schema": "rouse.server_state/1", "models": [{"layer_details": {"context": )" +
           context + "}}]}";
  };
  AddToldArguments(plan.conditions[1], state(R"({"threads": 3, "flash_attention": "off"})"),
                   readings);
  EXPECT_EQ(readings["target_args"].reached, true);
  EXPECT_EQ(readings["target_args"].proof, "/proc/PID/cmdline and GET /state");
  AddToldArguments(plan.conditions[1], "{}", readings);
  AddToldArguments(plan.conditions[1], state("{}"), readings);
  EXPECT_EQ(readings["target_args"].reached, true);
  AddToldArguments(plan.conditions[1], state(R"({"threads": 2})"), readings);
  EXPECT_EQ(readings["target_args"].reached, false);
  EXPECT_EQ(readings["target_args"].detail, "the server's state says threads = 2");
}

// Any server may answer GET /state, with anything.
TEST(Factors, AStateOfAnotherKindTellsNoArguments) {
  const Plan plan = Bench::ParseOrDie(Plans("target_args = [\"--threads\", \"3\"]\n"));
  for (const char* const told : {R"({"schema": 1})", R"({"schema": ["rouse.server_state/1"]})",
                                 "[]", R"({"schema": "rouse.server_state/1", "models": [7]})"}) {
    results::LayerReadings readings;
    AddToldArguments(plan.conditions[1], told, readings);
    EXPECT_FALSE(readings["target_args"].reached.value_or(false)) << told;
  }
}

TEST(Factors, APathIsACopyThatTheServerIsStartedWith) {
  const std::string root = testing::TempDir() + "factors-path";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "/ram");
  std::ofstream(root + "/m.gguf") << "weights";
  {
    Bench bench(Plans("path = \"ram\"\n", "[target]\npaths = { ram = \"" + root + "/ram\" }\n"));
    bench.target.file = root + "/m.gguf";
    const Attempt before = bench.Run("warm");
    const Attempt attempt = bench.Run("treated");
    EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
    EXPECT_EQ(attempt.state_at_send.at("path").reached, true);
    EXPECT_THAT(attempt.state_at_send.at("path").detail, HasSubstr("/ram/rouse-copy-m.gguf"));
    EXPECT_EQ(before.state_at_send.at("path").reached, true);
    EXPECT_THAT(before.state_at_send.at("path").detail, Not(HasSubstr("rouse-copy")));
    EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "spawn"), 2);
  }
  {
    Bench bench(Plans("path = \"ram\"\n", "[target]\npaths = { ram = \"" + root + "/no\" }\n"));
    bench.target.file = root + "/m.gguf";
    const Attempt attempt = bench.Run("treated");
    EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
    EXPECT_THAT(attempt.outcome_detail, HasSubstr("path ram: there is no directory"));
  }
  std::filesystem::remove_all(root);
}

TEST(Factors, APromptIsMadeUntilTheServerCountsTheWantedTokens) {
  Bench bench(Plans("prompt_tokens = 512\n"));
  bench.sender.counts_words = true;
  const Attempt attempt = bench.Run("treated");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(attempt.state_after.at("prompt_tokens").reached, true);
  EXPECT_NEAR(static_cast<double>(attempt.tokens.prompt.value_or(0)), 512, 5);
  // Found before: no further question.
  AttemptContext context = bench.Context();
  EXPECT_FALSE(bench.Run("warm").state_after.contains("prompt_tokens"));
}

TEST(Factors, APromptThatTheServerCountsOtherwiseIsNotReached) {
  Bench bench(Plans("prompt_tokens = 512\n"));  // the fake says 30 whatever it gets
  const Attempt attempt = bench.Run("treated");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("prompt_tokens: wanted 512, read 30"));
}

TEST(Factors, APromptBelowTheQuestionsLengthIsNotReached) {
  Bench bench(Plans("prompt_tokens = 16\n"));
  const Attempt attempt = bench.Run("treated");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("even the question alone has 30 tokens"));
}

TEST(Factors, LockedPagesAreHeldAndLetGoForTheNextCondition) {
  Bench bench(Plans("state = { page_cache = \"locked\" }\n"));
  const Attempt attempt = bench.Run("treated");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_THAT(bench.log, Contains("lock"));
  EXPECT_THAT(attempt.state_at_send.at("page_cache").proof, HasSubstr("VmLck"));
  bench.page_cache.locked_bytes = 50'000'000;  // half of the file
  EXPECT_THAT(bench.Run("treated").outcome_detail, HasSubstr("50.0 MB locked"));
  bench.page_cache.lock_error = "may lock 8 MiB (RLIMIT_MEMLOCK)";
  EXPECT_THAT(bench.Run("treated").outcome_detail, HasSubstr("RLIMIT_MEMLOCK"));
}

TEST(Factors, ABlocksConditionsShareOneSaltWhenThePlanSaysSo) {
  const std::string head = "[experiment]\nname = \"x\"\nsalt = \"block\"\nkeep_answer = true\n";
  Bench bench(head + "[[condition]]\nname = \"a\"\n[[condition]]\nname = \"b\"\nbase = \"a\"\n" +
              "target_args = [\"-x\"]\n");
  const Attempt first = bench.Run("a");
  const std::string salt = bench.sender.last_system_message;
  const Attempt second = bench.Run("b");
  EXPECT_EQ(bench.sender.last_system_message, salt);
  const auto extra = nlohmann::json::parse(second.extra_json);
  EXPECT_EQ(extra["answer"], "blue");
  EXPECT_EQ(extra["answer_sha256"], Sha256Hex("blue"));
  Bench other(Plans("target_args = [\"-x\"]\n"));
  other.Run("warm");
  const std::string one = other.sender.last_system_message;
  const Attempt kept = other.Run("treated");
  EXPECT_NE(other.sender.last_system_message, one);
  EXPECT_THAT(kept.extra_json, Not(HasSubstr("\"answer\"")));
}

// Answers at once with fixed marks after its intended send.
class CompanionSender : public Sender {
 public:
  CompanionSender(int64_t ttft_ns, int64_t end_ns, wire::Outcome outcome)
      : ttft_ns_(ttft_ns), end_ns_(end_ns), outcome_(outcome) {}
  Status Prepare(const wire::RequestSpec&) override { return {}; }
  void KeepConnection(bool) override {}
  wire::Exchange Perform(std::optional<MonoTime> intended, const std::atomic<bool>*) override {
    wire::Exchange exchange;
    exchange.outcome = outcome_;
    exchange.marks.send_start = *intended;
    exchange.marks.request_sent = *intended + 1'000;
    if (outcome_ == wire::Outcome::kOk) exchange.marks.first_token = *intended + ttft_ns_;
    exchange.marks.end = *intended + end_ns_;
    return exchange;
  }

 private:
  int64_t ttft_ns_;
  int64_t end_ns_;
  wire::Outcome outcome_;
};

Attempt RunBurst(const std::vector<wire::Outcome>& outcomes) {
  Bench bench(Plans("concurrency = " + std::to_string(outcomes.size() + 1) + "\n"));
  size_t made = 0;
  bench.make_sender = [&]() -> std::unique_ptr<Sender> {
    const auto number = static_cast<int64_t>(made);
    return std::make_unique<CompanionSender>((number + 1) * 10'000'000, 90'000'000,
                                             outcomes.at(made++));
  };
  return bench.Run("treated");
}

TEST(Factors, CompanionsAreStoredWithTheMeasuredRequest) {
  const Attempt attempt =
      RunBurst({wire::Outcome::kOk, wire::Outcome::kOk, wire::Outcome::kHttpError});
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(attempt.ttft_ns, 70'000'000);
  EXPECT_EQ(attempt.counters.at("companions_ttft_median_ns"), results::MetricValue(15'000'000));
  EXPECT_EQ(attempt.counters.at("companions_ttft_max_ns"), results::MetricValue(20'000'000));
  EXPECT_EQ(attempt.counters.at("companions_failed_count"), results::MetricValue(1));
  const results::LayerReading& reading = attempt.state_after.at("concurrency");
  EXPECT_EQ(reading.reached, true);
  EXPECT_EQ(std::get<std::string>(reading.value), "4");
  const auto burst = nlohmann::json::parse(attempt.extra_json)["burst"];
  std::vector<int64_t> places = {burst["place"].get<int64_t>()};
  for (const auto& each : burst["companions"]) places.push_back(each["place"].get<int64_t>());
  std::sort(places.begin(), places.end());
  EXPECT_EQ(places, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(Factors, ACompanionThatWasNeverSentMakesTheBurstNotReached) {
  class Lost : public CompanionSender {
   public:
    Lost() : CompanionSender(0, 0, wire::Outcome::kConnectError) {}
    wire::Exchange Perform(std::optional<MonoTime> intended, const std::atomic<bool>*) override {
      wire::Exchange exchange;
      exchange.outcome = wire::Outcome::kConnectError;
      exchange.marks.send_start = *intended;
      exchange.marks.end = *intended;
      return exchange;
    }
  };
  Bench bench(Plans("concurrency = 2\n"));
  bench.make_sender = [] { return std::make_unique<Lost>(); };
  const Attempt attempt = bench.Run("treated");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("concurrency: wanted 2, read 1"));
}

TEST(HasRun, FindsNeighboursInOrder) {
  const std::vector<std::string> words = {"a", "b", "c"};
  EXPECT_TRUE(HasRun(words, {"b", "c"}));
  EXPECT_TRUE(HasRun(words, {}));
  EXPECT_FALSE(HasRun(words, {"a", "c"}));
  EXPECT_FALSE(HasRun(words, {"c", "b"}));
}

}  // namespace
}  // namespace rouse::lab
