// Each seeded cause of docs/explain.md as synthetic data: it must be named first, and what is not
// there must be ruled out.
#include "explain/causes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "explain/explain.h"
#include "explain/test_attempts.h"

namespace rouse::explain {
namespace {

using results::Attempt;
using results::Stage;
using testing::HasSubstr;

results::Run RunOfOne() {
  results::Run run;
  run.id = 1;
  run.target = "builtin";
  run.environment["model_bytes"] = std::to_string(kFileBytes);
  run.conditions.push_back(Condition("usual"));
  return run;
}

AttemptExplanation Explain(std::vector<Attempt> usual, Attempt odd) {
  odd.id = 99;
  usual.push_back(std::move(odd));
  Result<AttemptExplanation> explanation = ExplainAttempt(RunOfOne(), usual, 99, "");
  EXPECT_TRUE(explanation.ok());
  return *std::move(explanation);
}

// The first claim is `cause`, nothing is called proved, and the claims add up to the excess.
void ExpectFirst(const AttemptExplanation& explanation, CauseId cause) {
  ASSERT_TRUE(explanation.attribution.has_value());
  const Attribution& attribution = *explanation.attribution;
  ASSERT_FALSE(attribution.claims.empty()) << ExplanationText(explanation);
  EXPECT_EQ(RowOf(attribution.claims.front().cause).name, RowOf(cause).name)
      << ExplanationText(explanation);
  EXPECT_EQ(explanation.proved_by, "");
  double sum = attribution.unattributed_ns;
  for (const Claim& claim : attribution.claims) sum += claim.claimed_ns;
  EXPECT_NEAR(sum, attribution.excess_ns, 1);
}

TEST(Causes, AnEvictedFileIsNamedWhereTheReferenceHasItCached) {
  const AttemptExplanation found = Explain(SixOf(Loading), ColdLoading(0));
  ExpectFirst(found, CauseId::kPageCacheCold);
  EXPECT_EQ(found.attribution->holder, Stage::kWeights);
  EXPECT_THAT(found.attribution->claims.front().sentence, HasSubstr("0 % of the file"));
}

TEST(Causes, AHalfEvictedFileIsNamedWithTheBytesThatWereMissing) {
  Attempt odd = Loading(0);
  odd.state_at_send["page_cache"] = Reading(0.5, "", "cachestat");
  AddStage(odd, Stage::kWeights, 90);
  odd.counters["target_read_bytes"] = kFileBytes / 2;
  odd.lanes = {{"weights", 0, 110 * kMs, kFileBytes}};
  ExpectFirst(Explain(SixOf(Loading), odd), CauseId::kPageCacheCold);
}

TEST(Causes, AKilledProcessIsNamedAndNotTheModelThatWentWithIt) {
  Attempt odd = Loading(0);
  odd.state_at_send["process"] = Reading("none", "", "pid and start time");
  odd.state_before["process"] = odd.state_at_send["process"];
  AddStage(odd, Stage::kProcessStart, 30);
  AddStage(odd, Stage::kTokenize, 80);
  const AttemptExplanation found = Explain(SixOf(Healthy), odd);
  ExpectFirst(found, CauseId::kNewProcess);
  EXPECT_EQ(found.attribution->claims.size(), 1U);
}

TEST(Causes, AnUnloadedModelIsNamedWhileItsFileStayedCached) {
  ExpectFirst(Explain(SixOf(Healthy), Loading(0)), CauseId::kModelUnloaded);
}

TEST(Causes, AnEmptiedPrefixIsNamedByItsTokens) {
  const auto hit = [](int64_t id, const std::string& condition) {
    Attempt attempt = Healthy(id, condition);
    attempt.tokens.cached = 44;
    AddStage(attempt, Stage::kPrefill, -80);
    return attempt;
  };
  ExpectFirst(Explain(SixOf(hit), Healthy(0)), CauseId::kPrefixLost);
}

TEST(Causes, ALongPromptIsNamedByItsTokens) {
  Attempt odd = Healthy(0);
  odd.tokens.prompt = 450;
  AddStage(odd, Stage::kPrefill, 800);
  const AttemptExplanation found = Explain(SixOf(Healthy), odd);
  ExpectFirst(found, CauseId::kLongPrompt);
  EXPECT_GT(found.attribution->claims.front().claimed_ns, 700e6);
}

TEST(Causes, ReclaimUnderAMemoryLimitIsNamedBeforeThePagesThatItTook) {
  Attempt odd = Healthy(0);
  odd.state_at_send["page_cache"] = Reading(0.6, "", "cachestat");
  odd.counters["machine_reclaimed_bytes"] = int64_t{90'000'000};
  odd.counters["psi_memory_some_us"] = int64_t{150'000};
  odd.counters["target_read_bytes"] = int64_t{95'000'000};
  odd.counters["machine_disk_read_bytes"] = int64_t{95'000'000};
  AddStage(odd, Stage::kPrefill, 400);
  ExpectFirst(Explain(SixOf(Healthy), odd), CauseId::kMemoryReclaim);
}

TEST(Causes, ReclaimInsideAControlGroupIsNamedThoughTheMachineCountedNone) {
  Attempt odd = Healthy(0);
  odd.state_at_send["page_cache"] = Reading(0.4, "", "cachestat");
  odd.counters["psi_memory_some_us"] = int64_t{300'000};
  odd.counters["target_read_bytes"] = int64_t{900'000'000};
  AddStage(odd, Stage::kPrefill, 170);
  ExpectFirst(Explain(SixOf(Healthy), odd), CauseId::kMemoryReclaim);
}

TEST(Causes, ReclaimThatAReadOfAColdFileBringsWithItIsNotBlamed) {
  Attempt odd = ColdLoading(0);
  odd.counters["machine_reclaimed_bytes"] = kFileBytes;  // a full page cache gives way to the file
  ExpectFirst(Explain(SixOf(Loading), odd), CauseId::kPageCacheCold);
}

TEST(Causes, ACpuHogIsNamedByTheRunQueue) {
  Attempt odd = Healthy(0);
  odd.counters["target_run_queue_wait_ns"] = 250 * kMs;
  AddStage(odd, Stage::kPrefill, 200);
  ExpectFirst(Explain(SixOf(Healthy), odd), CauseId::kCpuBusy);
}

TEST(Causes, ADiskReaderIsNamedWhereTheFileIsAlwaysCold) {
  Attempt odd = ColdLoading(0);
  AddStage(odd, Stage::kWeights, 300);
  odd.lanes = {{"weights", 0, 500 * kMs, kFileBytes}};
  odd.counters["machine_disk_read_bytes"] = 4 * kFileBytes;
  ExpectFirst(Explain(SixOf(ColdLoading), odd), CauseId::kDiskBusy);
}

TEST(Causes, ASlowDiskIsNamedWhereNobodyElseReads) {
  Attempt odd = ColdLoading(0);
  AddStage(odd, Stage::kWeights, 800);
  odd.lanes = {{"weights", 0, 1000 * kMs, kFileBytes}};
  const AttemptExplanation found = Explain(SixOf(ColdLoading), odd);
  ExpectFirst(found, CauseId::kDiskSlow);
  EXPECT_NEAR(found.attribution->claims.front().claimed_ns, 800e6, 10e6);
}

TEST(Causes, ABusyQueueIsNamedByItsStage) {
  Attempt odd = Healthy(0);
  AddStage(odd, Stage::kQueue, 500);
  ExpectFirst(Explain(SixOf(Healthy), odd), CauseId::kBusyQueue);
}

TEST(Causes, ABufferingProxyIsNamedByItsBurst) {
  Attempt odd = Healthy(0);
  AddStage(odd, Stage::kTransport, 100);
  odd.marks.first_token = 200 * kMs;
  odd.marks.last_token = 200 * kMs + 100'000;
  ExpectFirst(Explain(SixOf(Healthy), odd), CauseId::kBuffered);
}

TEST(Causes, WithoutAnyEvidenceNoneIsNamed) {
  Attempt odd = Healthy(0);
  AddStage(odd, Stage::kPrefill, 300);
  const AttemptExplanation found = Explain(SixOf(Healthy), odd);
  EXPECT_TRUE(found.attribution->claims.empty()) << ExplanationText(found);
  EXPECT_DOUBLE_EQ(found.attribution->unattributed_ns, found.attribution->excess_ns);
  EXPECT_THAT(ExplanationText(found), HasSubstr("No evidence of a cause was found"));
}

TEST(Causes, AnAttemptAsSlowAsItsPeersNeedsNone) {
  Attempt odd = Healthy(0);
  odd.counters["target_run_queue_wait_ns"] = 50 * kMs;
  AddStage(odd, Stage::kPrefill, 2);
  const AttemptExplanation found = Explain(SixOf(Healthy), odd);
  EXPECT_TRUE(found.within_reference);
  EXPECT_TRUE(!found.attribution || found.attribution->claims.empty());
}

TEST(Causes, ALayerThatWasReadBackAsLostIsNamedAmongNoisyPeersToo) {
  std::vector<Attempt> usual = SixOf(Loading);
  AddStage(usual.front(), Stage::kPrefill, 500);  // one peer was slower for another reason
  const AttemptExplanation found = Explain(usual, ColdLoading(0));
  EXPECT_FALSE(found.within_reference);
  ExpectFirst(found, CauseId::kPageCacheCold);
}

TEST(Causes, ACounterThatWasNotMeasuredIsNeverRuledOut) {
  Attempt odd = Healthy(0);
  odd.counters["machine_swap_in_bytes"].reset();
  odd.null_reasons["machine_swap_in_bytes"] = "no permission";
  AddStage(odd, Stage::kPrefill, 300);
  const AttemptExplanation found = Explain(SixOf(Healthy), odd);
  const auto in = [](const std::vector<Claim>& claims) {
    return std::any_of(claims.begin(), claims.end(),
                       [](const Claim& claim) { return claim.cause == CauseId::kSwapIn; });
  };
  EXPECT_FALSE(in(found.attribution->ruled_out));
  EXPECT_TRUE(in(found.attribution->unknown));
}

TEST(Causes, TwoCausesAtOnceShareTheExcessAndNoTimeIsClaimedTwice) {
  Attempt odd = ColdLoading(0);
  AddStage(odd, Stage::kQueue, 90);
  const AttemptExplanation found = Explain(SixOf(Loading), odd);
  ASSERT_EQ(found.attribution->claims.size(), 2U);
  EXPECT_EQ(found.attribution->claims[0].cause, CauseId::kPageCacheCold);
  EXPECT_EQ(found.attribution->claims[1].cause, CauseId::kBusyQueue);
  EXPECT_NEAR(found.attribution->claims[1].claimed_ns, 90e6, 1);
}

TEST(Causes, AWrongRateDoesNotMakeAColdFileASlowDisk) {
  // Six cold attempts at 500 MB/s stand beside; the odd one reads at that rate as well.
  std::vector<Attempt> usual = SixOf(Loading);
  for (const Attempt& cold : SixOf(ColdLoading, "cold")) {
    usual.push_back(cold);
    usual.back().id = 100 + *cold.id;
  }
  const AttemptExplanation found = Explain(usual, ColdLoading(0));
  ExpectFirst(found, CauseId::kPageCacheCold);
  EXPECT_EQ(found.attribution->claims.size(), 1U);
  EXPECT_THAT(found.reading, HasSubstr("the read accounts for it"));
}

TEST(CauseTable, EveryRowStandsAtItsIdAndSaysWhatItReadsAndWhy) {
  for (const CauseRow& row : CauseRows()) {
    EXPECT_EQ(&RowOf(row.id), &row) << row.name;
    EXPECT_FALSE(row.reads.empty() || row.threshold.empty() || row.title.empty()) << row.name;
    EXPECT_NE(row.stages, 0U) << row.name;
  }
}

TEST(CauseTable, ThePageHasARowForEachCauseAndNoOther) {
  std::ifstream file(ROUSE_SOURCE_DIR "/docs/explain.md");
  std::vector<std::string> in_page;
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.find("` |", 3);
    if (line.starts_with("| `") && end != std::string::npos) {
      in_page.push_back(line.substr(3, end - 3));
    }
  }
  std::vector<std::string> in_table;
  for (const CauseRow& row : CauseRows()) in_table.emplace_back(row.name);
  EXPECT_THAT(in_page, testing::UnorderedElementsAreArray(in_table));
}

TEST(CauseTable, ClocksNeverClaimMoreThanTheirBound) {
  Attempt odd = Healthy(0);
  odd.counters["cpu_clock_hz"] = int64_t{1'000'000'000};
  AddStage(odd, Stage::kPrefill, 150);
  const AttemptExplanation found = Explain(SixOf(Healthy), odd);
  ExpectFirst(found, CauseId::kClocks);
  EXPECT_LE(found.attribution->claims.front().claimed_ns, kClockRampNs);
  EXPECT_THAT(found.clocks, HasSubstr("at most 20.0 ms"));
}

}  // namespace
}  // namespace rouse::explain
