// The summaries of prompt length, KV cache and load, on attempts whose answers are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "base/terminal_text.h"
#include "report/json.h"
#include "report/kv_summary.h"
#include "report/load_summary.h"
#include "report/prompt_summary.h"

namespace rouse::report {
namespace {

using nlohmann::json;
using results::Attempt;
using results::ConditionRow;
using results::MetricValue;
using testing::HasSubstr;

ConditionRow Row(const std::string& name, const std::map<std::string, std::string>& state,
                 const std::string& base = "") {
  ConditionRow row;
  row.name = name;
  row.base = base;
  row.state = {{"prefix_cache", "empty"}, {"model", "loaded"}, {"background", "none"}};
  for (const auto& [layer, value] : state) row.state[layer] = value;
  return row;
}

Attempt Of(const std::string& condition, int64_t block, int64_t ttft_ns, int64_t tokens = 30) {
  Attempt attempt;
  attempt.condition = condition;
  attempt.block = block;
  attempt.ttft_ns = ttft_ns;
  attempt.tokens.prompt = tokens;
  return attempt;
}

// 2 ms a token and 50 ms beside them; a hit 0.01 ms a token and 40 ms; a new process 400 ms more.
struct PromptRun {
  PromptRun() {
    run.conditions = {
        Row("100", {{"prompt_tokens", "100"}}),
        Row("200", {{"prompt_tokens", "200"}}),
        Row("400", {{"prompt_tokens", "400"}}),
        Row("100 hit", {{"prompt_tokens", "100"}, {"prefix_cache", "hit"}}),
        Row("400 hit", {{"prompt_tokens", "400"}, {"prefix_cache", "hit"}}),
        Row("100 new", {{"prompt_tokens", "100"}, {"model", "unloaded"}, {"process", "new"}})};
    for (int64_t block = 0; block < 6; ++block) {
      const int64_t shift = block * 1'000;  // the same for all of a block: no slope has it
      for (const int64_t tokens : {100, 200, 400}) {
        Add(std::to_string(tokens), block, 50'000'000 + tokens * 2'000'000 + shift, tokens);
      }
      for (const int64_t tokens : {100, 400}) {
        Add(std::to_string(tokens) + " hit", block, 40'000'000 + tokens * 10'000, tokens);
      }
      Add("100 new", block, 650'000'000 + shift, 100);
    }
  }
  void Add(const std::string& condition, int64_t block, int64_t ttft_ns, int64_t tokens) {
    attempts.push_back(Of(condition, block, ttft_ns, tokens));
  }
  results::Run run;
  std::vector<Attempt> attempts;
};

TEST(PromptSummary, FitsALineThroughEachBlock) {
  PromptRun given;
  const auto summary = SummarizePrompts(given.run, given.attempts);
  ASSERT_TRUE(summary.has_value());
  ASSERT_EQ(summary->lines.size(), 2U);
  const PromptLine& anew = summary->lines[0];
  EXPECT_EQ(anew.prefix, "empty");
  EXPECT_EQ(anew.blocks, 6);
  EXPECT_DOUBLE_EQ(anew.slope_ns.value.value, 2'000'000);
  EXPECT_NEAR(anew.intercept_ns.value.value, 50'002'500, 1);
  ASSERT_EQ(anew.points.size(), 3U);
  EXPECT_EQ(anew.points[2].tokens, 400);
  EXPECT_EQ(summary->lines[1].prefix, "hit");
  EXPECT_DOUBLE_EQ(summary->lines[1].slope_ns.value.value, 10'000);
}

TEST(PromptSummary, SaysWhereComputingOvertakesStarting) {
  PromptRun given;
  const auto summary = SummarizePrompts(given.run, given.attempts);
  ASSERT_TRUE(summary && summary->cold_ns && summary->overtakes_tokens);
  EXPECT_EQ(summary->cold_condition, "100 new");
  EXPECT_DOUBLE_EQ(summary->cold_ns->value.value, 400'000'000);
  EXPECT_DOUBLE_EQ(*summary->overtakes_tokens, 200);
  const std::string text = PromptText(*summary, {.columns = 80});
  EXPECT_THAT(text, HasSubstr("500 tokens/s"));
  EXPECT_THAT(text, HasSubstr("\"100 new\" costs 400 ms more than the same prompt warm: from"));
  EXPECT_THAT(text, HasSubstr("200"));
  const json told = json::parse(PromptJson(*summary));
  EXPECT_EQ(told["lines"][0]["tokens_per_second"], 500);
  EXPECT_EQ(told["cold_start"]["overtaken_at_tokens"], 200);
}

TEST(PromptSummary, SaysThatPointsBendRatherThanGiveATimeBelowZero) {
  PromptRun given;
  for (Attempt& each : given.attempts) {
    if (each.condition == "400") each.ttft_ns = *each.ttft_ns * 3;
  }
  const auto summary = SummarizePrompts(given.run, given.attempts);
  ASSERT_TRUE(summary.has_value());
  EXPECT_LT(summary->lines[0].intercept_ns.value.value, 0);
  EXPECT_THAT(PromptText(*summary, {.columns = 80}), HasSubstr("bend upwards"));
}

TEST(PromptSummary, HasNoRateWhereTheLengthDoesNotMatter) {
  PromptRun given;
  for (Attempt& each : given.attempts) {
    if (each.condition.ends_with("hit")) each.ttft_ns = 40'000'000 + *each.tokens.prompt;
  }
  const auto summary = SummarizePrompts(given.run, given.attempts);
  ASSERT_TRUE(summary.has_value());
  EXPECT_THAT(PromptText(*summary, {.columns = 100}),
              HasSubstr("Found in the prefix cache: no measurable time a token, and 40"));
  EXPECT_TRUE(json::parse(PromptJson(*summary))["lines"][1]["tokens_per_second"].is_null());
}

TEST(PromptSummary, IsRobustAgainstOneWildAttemptAndLeavesFailuresOut) {
  PromptRun given;
  given.attempts[0].ttft_ns = 9'000'000'000;
  given.attempts[1].outcome = results::Outcome::kTimeout;
  const auto summary = SummarizePrompts(given.run, given.attempts);
  ASSERT_TRUE(summary.has_value());
  EXPECT_DOUBLE_EQ(summary->lines[0].slope_ns.value.value, 2'000'000);
}

TEST(PromptSummary, IsNotThereForRunsOfOneLength) {
  PromptRun given;
  given.run.conditions = {Row("100", {{"prompt_tokens", "100"}}), Row("200", {})};
  EXPECT_FALSE(SummarizePrompts(given.run, given.attempts).has_value());
}

struct KvRun {
  KvRun() {
    run.plan_toml = "[experiment]\nname = \"kv\"\nsalt = 'block'  # as text\n";
    run.conditions = {Row("f16", {{"target_args", R"(["--flash-attn", "off"])"}}),
                      Row("q4", {{"target_args", R"(["--cache-type-k", "q4_0"])"}}, "f16"),
                      Row("other", {{"target_args", R"(["--threads", "1"])"}}, "f16")};
    for (int64_t block = 0; block < 3; ++block) {
      Add("f16", block, "The sky is blue.", 47'000'000);
      Add("q4", block, block == 1 ? "The sky is blue." : "The sky was red.", 13'000'000);
      Add("other", block, "x", 1);
    }
  }
  void Add(const std::string& condition, int64_t block, const std::string& answer, int64_t kv) {
    Attempt attempt = Of(condition, block, 100'000'000);
    attempt.counters["target_rss_bytes"] = MetricValue(int64_t{200'000'000});
    attempt.counters["target_kv_bytes"] = MetricValue(kv);
    attempt.counters["target_prefix_bytes"] = MetricValue(kv / 4);
    attempt.counters["target_prefix_tokens"] = MetricValue(int64_t{512});
    attempt.extra_json = json{{"answer_sha256", "hash of " + answer}, {"answer", answer}}.dump();
    attempts.push_back(attempt);
  }
  results::Run run;
  std::vector<Attempt> attempts;
};

TEST(KvSummary, ComparesAnswersWithinABlock) {
  KvRun given;
  const auto summary = SummarizeKv(given.run, given.attempts);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->reference, "f16");
  ASSERT_EQ(summary->rows.size(), 2U);  // threads are no matter of the cache
  EXPECT_EQ(summary->rows[1].compared, 3);
  EXPECT_EQ(summary->rows[1].changed, 2);
  EXPECT_EQ(summary->rows[1].first_difference_bytes, 8);  // "The sky " is common
  EXPECT_EQ(summary->rows[1].kv_bytes, 13'000'000);
  const std::string text = KvText(*summary, {.columns = 80});
  EXPECT_THAT(text, HasSubstr("2 of 3 changed"));
  EXPECT_THAT(text, HasSubstr("first difference after 8 bytes"));
  const json told = json::parse(KvJson(*summary));
  EXPECT_EQ(told["rows"][1]["answers_changed"], 2);
  EXPECT_EQ(told["rows"][0]["target_kv_bytes"], 47'000'000);
  EXPECT_EQ(told["rows"][1]["target_prefix_bytes"], 3'250'000);
  EXPECT_THAT(text, HasSubstr("3.25 MB"));
  EXPECT_THAT(text, HasSubstr("(512 tokens)"));
}

TEST(KvSummary, SaysThatAnswersToDifferentSaltsCannotBeCompared) {
  KvRun given;
  given.run.plan_toml = "[experiment]\nname = \"kv\"\n";
  const auto summary = SummarizeKv(given.run, given.attempts);
  ASSERT_TRUE(summary.has_value());
  EXPECT_THAT(KvText(*summary, {.columns = 80}), HasSubstr("not comparable"));
  EXPECT_TRUE(json::parse(KvJson(*summary))["rows"][1]["answers_changed"].is_null());
}

TEST(KvSummary, IsNotThereForOtherArguments) {
  KvRun given;
  given.run.conditions.erase(given.run.conditions.begin() + 1);
  EXPECT_FALSE(SummarizeKv(given.run, given.attempts).has_value());
}

TEST(LoadSummary, TellsTailsQueueAndTheLastOfABurst) {
  results::Run run;
  run.conditions = {Row("alone", {}), Row("4 at once", {{"concurrency", "4"}}, "alone"),
                    Row("disk", {{"background", "disk"}}, "alone"), Row("kept", {}, "disk")};
  std::vector<Attempt> attempts;
  for (int64_t block = 0; block < 3; ++block) {
    attempts.push_back(Of("alone", block, 100'000'000));
    Attempt burst = Of("4 at once", block, 200'000'000 + block * 100'000'000);
    burst.stages.at(static_cast<size_t>(results::Stage::kQueue)).ns = *burst.ttft_ns / 4;
    burst.counters["companions_ttft_max_ns"] = MetricValue(int64_t{350'000'000});
    burst.counters["companions_failed_count"] = MetricValue(int64_t{1});
    burst.counters["cotenant_slowdown_ratio"] = MetricValue(0.5);
    attempts.push_back(burst);
    attempts.push_back(Of("disk", block, 100'000'000));
    attempts.push_back(Of("kept", block, 1));
  }
  const auto summary = SummarizeLoads(run, attempts);
  ASSERT_TRUE(summary.has_value());
  ASSERT_EQ(summary->rows.size(), 3U);
  const LoadRow& burst = summary->rows[1];
  EXPECT_EQ(burst.load, "4 at once");
  EXPECT_EQ(burst.to_base, 3);
  EXPECT_EQ(burst.queue_share, 0.25);
  EXPECT_EQ(burst.burst_last_ns, 350'000'000);
  EXPECT_EQ(burst.companions_failed, 3);
  EXPECT_EQ(burst.cotenant_slowdown, 0.5);
  EXPECT_FALSE(summary->rows[0].to_base.has_value());
  EXPECT_EQ(summary->rows[2].load, "background disk");
  const std::string text = LoadText(*summary, {.columns = 80});
  EXPECT_THAT(text, HasSubstr("  p90"));
  EXPECT_THAT(text, HasSubstr("3.00"));
  EXPECT_THAT(text, HasSubstr("more attempts. 3\n  requests of bursts failed"));
  const json told = json::parse(LoadJson(*summary));
  EXPECT_EQ(told["rows"][1]["max_ns"], 400'000'000);
  EXPECT_TRUE(told["rows"][0]["queue_share"].is_null());
}

TEST(LoadSummary, IsNeverWiderThanTheTerminal) {
  LoadSummary summary;
  LoadRow row;
  row.condition = "4 at once, with a background of requests";
  stats::Sample sample;
  for (int i = 0; i < 40; ++i) sample.values.push_back(123'456'789'000.0 + i);
  row.ttft = stats::Summarize(sample);
  row.to_base = 123.45;
  row.queue_share = 1.0;
  row.burst_last_ns = 123'456'789'000;
  row.cotenant_slowdown = 12.34;
  row.companions_failed = 1234;
  summary.rows = {row, LoadRow()};
  for (int columns = 60; columns <= 120; ++columns) {
    const std::string text = LoadText(summary, {.columns = columns});
    for (const std::string_view line : SplitAt(text, '\n')) {
      EXPECT_LE(DisplayColumns(line), columns) << line;
    }
    EXPECT_THAT(text, HasSubstr("  4 at o"));
    EXPECT_THAT(text, HasSubstr("neighbour"));
  }
}

TEST(LoadSummary, IsNotThereWithoutALoad) {
  results::Run run;
  run.conditions = {Row("alone", {})};
  EXPECT_FALSE(SummarizeLoads(run, {}).has_value());
}

// Each of its layers is read back under its own name.
TEST(RenderRun, DoesNotDoubtACompoundChangeThatWasReadBack) {
  results::Run run;
  run.status = "complete";
  run.conditions = {Row("warm", {}), Row("process new", {{"model", "unloaded"}}, "warm")};
  run.conditions[1].changed = "model, process";
  run.conditions[1].compound = true;
  std::vector<Attempt> attempts;
  for (int64_t block = 0; block < 3; ++block) {
    attempts.push_back(Of("warm", block, 100'000'000 + block));
    Attempt fresh = Of("process new", block, 500'000'000 + block);
    fresh.state_before["model"].reached = true;
    fresh.state_after["process"].reached = true;
    attempts.push_back(fresh);
  }
  EXPECT_THAT(RenderRun(run, attempts, {.columns = 100}),
              testing::Not(HasSubstr("read back in only")));
  for (Attempt& each : attempts) each.state_after["process"].reached = false;
  const std::string text = RenderRun(run, attempts, {.columns = 100});
  EXPECT_THAT(text, HasSubstr("several layers together"));
  EXPECT_THAT(text, HasSubstr("read back in only"));
}

TEST(ReportJson, HasTheSummariesOfWhatARunVaries) {
  PromptRun given;
  const json told = json::parse(ReportJson(given.run, given.attempts, false));
  EXPECT_EQ(told["prompt_summary"]["lines"].size(), 2U);
  EXPECT_FALSE(told.contains("kv_summary"));
  EXPECT_FALSE(told.contains("load_summary"));
}

}  // namespace
}  // namespace rouse::report
