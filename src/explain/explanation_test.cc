#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "explain/explain.h"
#include "explain/next_step.h"
#include "explain/test_attempts.h"

namespace rouse::explain {
namespace {

using results::Attempt;
using testing::HasSubstr;
using testing::Not;

results::Run MeasuredRun() {
  results::Run run;
  run.id = 7;
  run.name = "quick";
  run.kind = "measure";
  run.target = "builtin";
  run.model = "smollm2-135m";
  run.environment["model_bytes"] = std::to_string(kFileBytes);
  run.conditions.push_back(Condition("warm", "", "model", "loaded"));
  run.conditions.push_back(Condition("model unloaded", "warm", "model", "unloaded"));
  run.conditions.push_back(Condition("page cache cold", "model unloaded", "page_cache", "cold"));
  return run;
}

std::vector<Attempt> MeasuredAttempts() {
  std::vector<Attempt> attempts = SixOf(Healthy, "warm");
  for (Attempt& attempt : SixOf(Loading, "model unloaded")) attempts.push_back(std::move(attempt));
  for (Attempt& attempt : SixOf(ColdLoading, "page cache cold")) {
    attempts.push_back(std::move(attempt));
  }
  int64_t id = 0;
  for (Attempt& attempt : attempts) attempt.id = ++id;
  return attempts;
}

void ExpectAtMost80Columns(const std::string& text) {
  for (const std::string_view line : SplitAt(text, '\n')) {
    if (line.find("rouse measure") != std::string_view::npos) continue;  // to be pasted whole
    EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(ExplanationText, OfARunIsAsItWas) {
  const Result<RunExplanation> explanation = ExplainRun(MeasuredRun(), MeasuredAttempts());
  ASSERT_TRUE(explanation.ok());
  const std::string text = ExplanationText(*explanation);
  EXPECT_EQ(text, R"(Run 7, quick on builtin, 18 attempts.

Causes, proved by contrast (one layer changed)
  +180 ms the model's file was not in the page cache (95 % interval +180 ms ...
    +180 ms; 6 against 6)
    of it: weights +180 ms
    0 % of the file were in the page cache at the send (cachestat; usually
    100 %); 100 MB were read, which at 500 MB/s (measured in this run) take
    200 ms, and weights and prefill took 180 ms more.
  +30.0 ms the model was not loaded (95 % interval +30.0 ms ... +30.0 ms; 6
    against 6)
    of it: weights +20.0 ms, runtime init +10.0 ms
    the model was not loaded (the server's state); its weights were mapped and
    its context made for this request.

Each interval is a 95 % one by itself. Clocks could explain at most 20.0 ms of
any difference.

"warm" takes 101 ms with every layer of the server warm, 90 % of it prefill.
Keeping more warm cannot save that; a shorter prompt, one whose beginning is
cached, or faster computing can.

No contrast of this run changes process; this one does:
  rouse measure --preset quick --model smollm2-135m --repeat 10 --only )"
                  R"('model unloaded' --only 'process new'
)");
  ExpectAtMost80Columns(text);
}

TEST(ExplanationText, OfAnAttemptIsAsItWas) {
  const Result<AttemptExplanation> explanation =
      ExplainAttempt(MeasuredRun(), MeasuredAttempts(), 13, "");
  ASSERT_TRUE(explanation.ok());
  const std::string text = ExplanationText(*explanation);
  EXPECT_EQ(text, R"(Attempt 7#13, "page cache cold": first token after 311 ms, usually 131 ms (its
  base, "model unloaded", median of 6): +180 ms.

Where the difference is
  weights               +180 ms   200 ms, usually 20.0 ms (source: server)

Cause, proved by the contrast page cache cold against model unloaded
  1. the model's file was not in the page cache, +180 ms
    0 % of the file were in the page cache at the send (cachestat; usually
    100 %); 100 MB were read, which at 500 MB/s (measured in this run) take
    200 ms, and weights and prefill took 180 ms more.
  Unattributed: 0 s of 180 ms.
Ruled out
  busy queue         the request waited 0 s in the server's queue (usually 0 s)
  process new        the server's process was running before the request
  memory reclaim     the kernel took back 0 B of memory meanwhile (usually 0 B),
                     and some task waited for memory for 0 s more than usually
  swap in            0 B came back from swap
  model unloaded     the model was not loaded, but it is so in the reference as
                     well
  prompt longer      the prompt has 45 tokens (usually 45)
  prefix lost        0 tokens of the prompt came from the prefix cache (usually
                     0)
  cpu quota          the target's control group was kept off the CPUs by its
                     quota for 0 s
  disk busy          others read 0 B from the same disk while the server read
                     100 MB
  disk slow          100 MB were read at 500 MB/s (usually 500 MB/s)
  stream buffered    8 token events came within 100 ms of the first (usually
                     100 ms)
  cpu busy           the target's threads were runnable but without a CPU for
                     0 s, summed over threads (usually 0 s)
  connection new     a new connection, as in the reference
  clocks             the CPU's clock was as fast as usually; a clock that had to
                     rise first costs at most 20.0 ms

Layers that were cold, by proof
  model              cold, before unloaded; usually unloaded (the server's
                     state)
  page cache         cold, before 100 %, at the send 0 %; usually 100 %
                     (cachestat)
  prefix cache       cold, after empty; usually empty (cached tokens of the
                     answer)
The server read 100 MB from the disk, which at 500 MB/s (this run's attempts
that met a cold file) takes 200 ms; weights took 200 ms, weights and prefill
together 291 ms: the read accounts for it.
Clocks could explain at most 20.0 ms of the excess: the kernel raises a
frequency in steps of at most 10 ms.

That layer's cost is proved in this run; what idling loses is the next question:
  rouse measure --model smollm2-135m --idle 0s,1m,10m
)");
  ExpectAtMost80Columns(text);
}

TEST(Explanation, OfAnAttemptIsProvedOnlyByTheContrastThatItIsAPartOf) {
  const auto proved_by = [](const std::string& against) {
    return ExplainAttempt(MeasuredRun(), MeasuredAttempts(), 13, against)->proved_by;
  };
  EXPECT_EQ(proved_by(""), "page cache cold against model unloaded");
  EXPECT_EQ(proved_by("warm"), "");  // differs from it in two layers
}

TEST(Explanation, SaysWhenTheBoundaryIsReached) {
  const Result<AttemptExplanation> warm = ExplainAttempt(MeasuredRun(), MeasuredAttempts(), 1, "");
  ASSERT_TRUE(warm.ok());
  EXPECT_THAT(warm->boundary, HasSubstr("Keeping more warm cannot save that; "));
  EXPECT_THAT(warm->boundary, HasSubstr("prefill"));
  const Result<AttemptExplanation> cold = ExplainAttempt(MeasuredRun(), MeasuredAttempts(), 13, "");
  EXPECT_EQ(cold->boundary, "");
}

TEST(Explanation, SaysNoBoundaryWhereNobodyReadWhetherAnythingWasWarm) {
  std::vector<Attempt> attempts = MeasuredAttempts();
  for (Attempt& attempt : attempts) {
    attempt.state_before.clear();
    attempt.state_at_send.clear();
    attempt.state_after.clear();
  }
  const Result<AttemptExplanation> unread = ExplainAttempt(MeasuredRun(), attempts, 1, "");
  ASSERT_TRUE(unread.ok()) << unread.error().message();
  EXPECT_EQ(unread->boundary, "");
}

TEST(Explanation, OfAFailedAttemptTellsItsOutcomeAndItsLayers) {
  std::vector<Attempt> attempts = MeasuredAttempts();
  attempts[12].outcome = results::Outcome::kTimeout;
  attempts[12].outcome_detail = "no token within 2 min";
  attempts[12].ttft_ns.reset();
  attempts[12].stages = {};
  const Result<AttemptExplanation> explanation = ExplainAttempt(MeasuredRun(), attempts, 13, "");
  ASSERT_TRUE(explanation.ok());
  const std::string text = ExplanationText(*explanation);
  EXPECT_THAT(text, HasSubstr("no first token (timeout: no token within"));
  EXPECT_THAT(text, HasSubstr("page cache"));
  EXPECT_EQ(nlohmann::json::parse(ExplanationJson(*explanation))["excess_ns"], nullptr);
}

TEST(Explanation, OfWhatIsNotThereIsAnError) {
  EXPECT_FALSE(ExplainAttempt(MeasuredRun(), MeasuredAttempts(), 999, "").ok());
  EXPECT_FALSE(ExplainAttempt(MeasuredRun(), MeasuredAttempts(), 1, "no such").ok());
  EXPECT_FALSE(ExplainRun(MeasuredRun(), {}).ok());
}

TEST(Explanation, OfTheOnlyAttemptHasNothingToCompare) {
  const std::vector<Attempt> attempts = {Healthy(1, "alone")};
  const Result<AttemptExplanation> explanation = ExplainAttempt(MeasuredRun(), attempts, 1, "");
  ASSERT_TRUE(explanation.ok());
  EXPECT_EQ(explanation->excess_ns, std::nullopt);
  EXPECT_THAT(ExplanationText(*explanation), HasSubstr("There is no other attempt to"));
}

TEST(ExplanationJson, HoldsWhatThePageOfItsFormatNames) {
  const Result<AttemptExplanation> explanation =
      ExplainAttempt(MeasuredRun(), MeasuredAttempts(), 13, "");
  ASSERT_TRUE(explanation.ok());
  const nlohmann::json json = nlohmann::json::parse(ExplanationJson(*explanation));
  EXPECT_EQ(json["schema"], "rouse.explanation/1");
  EXPECT_EQ(json["of"], "attempt");
  EXPECT_EQ(json["causes"][0]["cause"], "page_cache_cold");
  EXPECT_EQ(json["holder"], "weights");
  EXPECT_EQ(json["proved_by"], "page cache cold against model unloaded");
  EXPECT_EQ(json["stages"]["weights"]["source"], "server");
  const nlohmann::json run =
      nlohmann::json::parse(ExplanationJson(*ExplainRun(MeasuredRun(), MeasuredAttempts())));
  EXPECT_EQ(run["of"], "run");
  EXPECT_EQ(run["contrasts"][0]["grade"], "proved");
  EXPECT_EQ(run["contrasts"][0]["layer"], "page_cache");
}

TEST(NextStep, IsAContrastThatTheRunLacks) {
  const NextStep next = ExplainRun(MeasuredRun(), MeasuredAttempts())->next;
  EXPECT_EQ(next.command,
            "rouse measure --preset quick --model smollm2-135m --repeat 10 --only "
            "'model unloaded' --only 'process new'");
}

TEST(NextStep, OfACommandIsThePresetWithThatCommand) {
  results::Run run;
  run.target = "cmd:my-server --port {port} -m {model}";
  run.model = "m.gguf";
  run.environment["model_file"] = "/models/m.gguf";
  const std::string flags =
      "rouse measure --preset quick --target 'cmd:my-server --port {port} -m {model}' --model "
      "m.gguf --model-file /models/m.gguf --repeat 10 --only ";
  EXPECT_EQ(IsolateLayer(run, "page_cache", 0, "why").command,
            flags + "'process new' --only 'page cache cold'");
  EXPECT_EQ(IsolateLayer(run, "process", 0, "why").command, flags + "warm --only 'process new'");
  EXPECT_EQ(IsolateLayer(run, "model", 0, "why").command, flags + "warm --only 'process new'");
  const std::string plan = IsolateLayer(run, "background", 0, "why").command;
  EXPECT_THAT(plan, HasSubstr("command = \"my-server --port {port} -m {model}\"\n"));
  EXPECT_THAT(plan, HasSubstr("state = { background = \"cpu\" }"));
}

TEST(NextStep, OfAServerBehindAUrlSetsOnlyWhatItCan) {
  results::Run run;
  run.target = "http://127.0.0.1:8080";
  for (const char* const layer : {"model", "process"}) {
    EXPECT_EQ(IsolateLayer(run, layer, 0, "why").command,
              "rouse measure --target http://127.0.0.1:8080 --repeat 10 --only warm");
  }
  EXPECT_THAT(IsolateLayer(run, "page_cache", 0, "why").command,
              HasSubstr("kind = \"url\"\nurl = \"http://127.0.0.1:8080\"\n"));
}

TEST(NextStep, PlanSurvivesQuotesAndCannotSteerATerminal) {
  results::Run run;
  run.target = "my-server -p '{port}' \"{model}\" \\ \x1b[2J \u202e \xff";
  const NextStep next = IsolateLayer(run, "background", 0, "why");
  EXPECT_THAT(next.command, HasSubstr("command = \"my-server -p '{port}' \\\"{model}\\\" \\\\ "
                                      "\\U0000001B[2J \\U0000202E \\U0000FFFD\"\n"));
}

TEST(ServerExplanation, NamesWhatIsColdFirstAndWhatCannotBeTold) {
  ServerFacts facts;
  facts.url = "http://127.0.0.1:8080";
  facts.tells_state = true;
  facts.layers = {{"process", "running"}, {"weights", "absent"}, {"prefix", "empty"}};
  facts.resident_ratio = 0.5;
  facts.model_bytes = 2e9;
  facts.eta_first_token_ns = 9e8;
  const ServerExplanation explanation = ExplainServer(facts);
  EXPECT_EQ(explanation.headline,
            "The next request meets 2 cold layers. The server expects its first token after "
            "900 ms.");
  ASSERT_GE(explanation.findings.size(), 4U);
  EXPECT_TRUE(explanation.findings[0].cold);
  EXPECT_TRUE(explanation.findings[1].cold);
  EXPECT_FALSE(explanation.findings[2].cold);
  ExpectAtMost80Columns(ExplanationText(explanation));
  EXPECT_THAT(ExplanationText(explanation), HasSubstr("1.00 GB would come"));
}

TEST(ServerExplanation, OfAForeignServerSaysThatOnlyARequestWouldTell) {
  ServerFacts facts;
  facts.url = "http://127.0.0.1:11434";
  facts.why_not = "it is no rouse server";
  const ServerExplanation explanation = ExplainServer(facts);
  EXPECT_THAT(explanation.headline, HasSubstr("does not tell its state"));
  EXPECT_EQ(explanation.cannot_tell.size(), 2U);
}

}  // namespace
}  // namespace rouse::explain
