#include "lab/plan_adapt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"
#include "lab/plan_internal.h"

namespace rouse::lab {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

AdaptedPlan Adapted(std::string_view preset, const std::string& target,
                    const std::string& model_file = "") {
  PlanOverrides overrides;
  if (!target.empty()) overrides.target = target;
  if (!model_file.empty()) overrides.model_file = model_file;
  const Result<Preset> found = FindPreset(preset);
  CHECK(found.ok());
  Result<AdaptedPlan> adapted = PlanFromPreset(*found, overrides);
  EXPECT_TRUE(adapted.ok()) << (adapted.ok() ? "" : adapted.error().message());
  CHECK(adapted.ok());
  return *std::move(adapted);
}

std::vector<std::string> NamesOf(const Plan& plan) {
  std::vector<std::string> names;
  for (const Condition& condition : plan.conditions) names.push_back(condition.name);
  return names;
}

const Condition& Named(const Plan& plan, std::string_view name) {
  for (const Condition& each : plan.conditions) {
    if (each.name == name) return each;
  }
  CHECK(false);
}

TEST(PlanFromPreset, IsThePresetItselfWhereEverythingCanBeSet) {
  const AdaptedPlan adapted = Adapted("quick", "");
  EXPECT_TRUE(adapted.left_out.empty());
  EXPECT_EQ(adapted.plan.toml, FindPreset("quick")->toml);
}

TEST(PlanFromPreset, PrintsTheTablesThatAreLeftOutAsComments) {
  const AdaptedPlan adapted = Adapted("layers", "");
  EXPECT_THAT(adapted.plan.toml, HasSubstr("# left out condition \"compile cache empty\": "));
  EXPECT_THAT(adapted.plan.toml, HasSubstr("\n# name = \"compile cache empty\"\n"));
  EXPECT_THAT(adapted.plan.toml, HasSubstr("# Classic contrast 3: only the host's memory"));
  EXPECT_EQ(PlanHash(*ParsePlan(adapted.plan.toml, "again")), PlanHash(adapted.plan));
}

TEST(PlanFromPreset, PutsANewProcessOnTheWarmOneWhereNoUnloadCallIsKnown) {
  const AdaptedPlan adapted = Adapted("quick", "cmd:server --port {port} --model {model}");
  EXPECT_THAT(NamesOf(adapted.plan),
              ElementsAre("warm", "prefix hit", "process new", "page cache cold"));
  ASSERT_EQ(adapted.left_out.size(), 1U);
  EXPECT_EQ(adapted.left_out[0].name, "model unloaded");
  EXPECT_THAT(adapted.left_out[0].reason, HasSubstr("needs process = \"new\""));
  const Condition& fresh = Named(adapted.plan, "process new");
  EXPECT_EQ(fresh.base, "warm");
  EXPECT_EQ(fresh.changed, "model, process");
  EXPECT_TRUE(fresh.compound);
  const Condition& cold = Named(adapted.plan, "page cache cold");
  EXPECT_EQ(cold.base, "process new");
  EXPECT_FALSE(cold.compound);
}

TEST(PlanFromPreset, LeavesABareUrlWhatCanBeSetFromOutside) {
  const AdaptedPlan adapted = Adapted("quick", "http://127.0.0.1:8080");
  EXPECT_THAT(NamesOf(adapted.plan), ElementsAre("warm", "prefix hit"));
  EXPECT_EQ(adapted.left_out.size(), 3U);
  EXPECT_THAT(adapted.plan.toml, HasSubstr("# left out condition \"process new\": "));
  const Result<Plan> again = ParsePlan(adapted.plan.toml, "again");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(PlanHash(*again), PlanHash(adapted.plan));
}

TEST(PlanFromPreset, MakesAConditionsOwnChangeOnTheBaseThatIsLeft) {
  const AdaptedPlan adapted =
      Adapted("quick", "ollama:http://127.0.0.1:11434", "/nonexistent/model.gguf");
  // Ollama can unload, but its process is not ours: the cold file is met by an unloaded model.
  EXPECT_THAT(NamesOf(adapted.plan),
              ElementsAre("warm", "prefix hit", "model unloaded", "page cache cold"));
  const Condition& cold = Named(adapted.plan, "page cache cold");
  EXPECT_EQ(cold.base, "model unloaded");
  EXPECT_EQ(cold.changed, "page_cache");
  EXPECT_EQ(cold.Value(Layer::kProcess), "running");
  EXPECT_FALSE(cold.compound);
}

TEST(PlanFromPreset, LeavesOutHypothesesOfWhatIsLeftOut) {
  const AdaptedPlan adapted = Adapted("layers", "http://127.0.0.1:8080");
  const auto is_hypothesis = [](const LeftOut& each) { return each.hypothesis; };
  EXPECT_GE(std::ranges::count_if(adapted.left_out, is_hypothesis), 3);
  for (const results::HypothesisRow& row : adapted.plan.hypotheses) {
    EXPECT_THAT(NamesOf(adapted.plan), Contains(row.treatment));
    EXPECT_THAT(NamesOf(adapted.plan), Contains(row.control));
  }
}

TEST(PlanFromPreset, SaysWhyAnAskedForConditionIsLeftOut) {
  PlanOverrides overrides;
  overrides.target = "http://127.0.0.1:8080";
  overrides.only = {"process new"};
  const Result<AdaptedPlan> adapted = PlanFromPreset(*FindPreset("quick"), overrides);
  ASSERT_FALSE(adapted.ok());
  EXPECT_THAT(adapted.error().message(),
              HasSubstr("condition \"process new\" is left out on this target: "));
}

TEST(PlanFromPreset, RefusesAPresetOfWhichNothingIsLeft) {
  PlanOverrides overrides;
  overrides.target = "cmd:other-server --port {port} --model {model}";
  const Result<AdaptedPlan> adapted = PlanFromPreset(*FindPreset("kv"), overrides);
  ASSERT_FALSE(adapted.ok());
  EXPECT_EQ(adapted.error().code(), ErrorCode::kUsage);
  EXPECT_THAT(adapted.error().message(),
              HasSubstr("the arguments of other-server for it are not known"));
}

TEST(PlanFromPreset, GivesTheKvPresetToLlamaServerWhichSharesItsArguments) {
  const AdaptedPlan adapted =
      Adapted("kv", "cmd:/opt/llama-server --port {port} -m {model} -c 2048");
  EXPECT_EQ(adapted.plan.conditions.size(), 4U);
}

TEST(PlanFromPreset, LeavesOutLengthsThatDoNotFitTheContext) {
  const AdaptedPlan builtin = Adapted("prompt", "");
  EXPECT_THAT(NamesOf(builtin.plan), Contains("2048 tokens"));
  EXPECT_THAT(NamesOf(builtin.plan), testing::Not(Contains("4096 tokens")));
  // Nor does its hit become one of a shorter prompt.
  EXPECT_THAT(NamesOf(builtin.plan), testing::Not(Contains("4096 tokens, hit")));
  EXPECT_THAT(LeftOutText(builtin.left_out), HasSubstr("are more than context = 2080"));
  const AdaptedPlan command = Adapted("prompt", "cmd:server {port} {model}");
  EXPECT_THAT(NamesOf(command.plan), Contains("2048 tokens"));
  EXPECT_THAT(LeftOutText(command.left_out), HasSubstr("context is not known"));
}

// Every preset on every kind of target: what is kept can be carried out, one change a step unless
// it is declared, and what is not has a reason.
TEST(PlanFromPreset, KeepsOrExplainsEveryConditionOnEveryKindOfTarget) {
  for (const Preset& preset : Presets()) {
    const Result<Plan> whole = ParsePlanForAnyTarget(preset.toml, "preset");
    ASSERT_TRUE(whole.ok());
    for (const char* const target :
         {"builtin", "cmd:llama-server --port {port} -m {model}", "http://127.0.0.1:1",
          "llama-server:http://127.0.0.1:1", "ollama:http://127.0.0.1:1",
          "llama-swap:http://127.0.0.1:1", "vllm:http://127.0.0.1:1"}) {
      PlanOverrides overrides;
      overrides.target = target;
      const Result<AdaptedPlan> adapted = PlanFromPreset(preset, overrides);
      if (!adapted.ok()) {
        EXPECT_THAT(adapted.error().message(), HasSubstr("left out condition"));
        continue;
      }
      const auto gone = std::ranges::count_if(adapted->left_out,
                                              [](const LeftOut& each) { return !each.hypothesis; });
      EXPECT_EQ(adapted->plan.conditions.size() + static_cast<size_t>(gone),
                whole->conditions.size())
          << preset.name << " on " << target;
      EXPECT_TRUE(CheckFeasible(adapted->plan, "").ok());
      for (const LeftOut& each : adapted->left_out) EXPECT_FALSE(each.reason.empty());
      for (const Condition& each : adapted->plan.conditions) {
        if (each.base.empty()) continue;
        const size_t changes = ChangesFrom(each, Named(adapted->plan, each.base)).size();
        EXPECT_EQ(changes > 1, each.compound) << preset.name << ", " << each.name;
        EXPECT_GE(changes, 1U);
      }
    }
  }
}

}  // namespace
}  // namespace rouse::lab
