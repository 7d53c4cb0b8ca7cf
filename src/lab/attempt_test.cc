#include "lab/attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>

#include "lab/fakes.h"
#include "lab/timeline.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Quick() { return std::string(FindPreset("quick")->toml); }

// The quick ladder with an idle and a kept connection.
std::string Ladder() {
  return Quick() +
         "[[condition]]\nname = \"idle\"\nbase = \"warm\"\nidle = \"8h\"\n"
         "[[condition]]\nname = \"kept\"\nbase = \"warm\"\nstate = { connection = \"reused\" }\n"
         "[[condition]]\nname = \"half\"\nbase = \"model unloaded\"\nstate = { page_cache = 0.5 }\n"
         "[[condition]]\nname = \"slow\"\nbase = \"warm\"\ntarget_args = [\"--threads\", \"1\"]\n";
}

const results::LayerReading& Reading(const results::LayerReadings& readings,
                                     const std::string& layer) {
  return readings.at(layer);
}

FakeSender::Script Refused() {
  return [](wire::Exchange exchange) {
    exchange.outcome = wire::Outcome::kConnectError;
    exchange.connection.connect_errno = ECONNREFUSED;
    return exchange;
  };
}

TEST(Attempt, StartsTheServerProvesTheStateAndSendsOnce) {
  Bench bench(Ladder());
  const Attempt attempt = bench.Run("warm");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(attempt.ttft_ns, 70'000'000);
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "send"), 1);
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "primer"), 1);
  for (const char* const layer : {"page_cache", "process", "model"}) {
    EXPECT_EQ(Reading(attempt.state_before, layer).reached, true) << layer;
  }
  EXPECT_EQ(Reading(attempt.state_after, "prefix_cache").reached, true);
  EXPECT_EQ(StageSum(attempt.stages), attempt.ttft_ns);
  EXPECT_EQ(attempt.condition, "warm");
  EXPECT_TRUE(attempt.started_wall_ns.has_value());
  EXPECT_TRUE(attempt.suspended_ns.has_value());
}

TEST(Attempt, PrimesAHitTwiceAndProvesItByTheSecond) {
  Bench bench(Ladder());
  const Attempt attempt = bench.Run("prefix hit");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "primer"), 2);
  EXPECT_EQ(Reading(attempt.state_before, "prefix_cache").reached, true);
  EXPECT_EQ(attempt.tokens.cached, 29);
}

TEST(Attempt, SendsNothingWhenTheHitIsNotThere) {
  Bench bench(Ladder());
  bench.sender.forced_cached = 3;
  const Attempt attempt = bench.Run("prefix hit");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("prefix_cache: wanted hit, read empty"));
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("3 of 30 tokens were cached"));
  EXPECT_THAT(bench.log, Not(Contains("send")));
  EXPECT_FALSE(attempt.ttft_ns.has_value());
}

TEST(Attempt, IsNoSampleOfAnEmptyPrefixWhenTheAnswerReportsCachedTokens) {
  Bench bench(Ladder());
  bench.sender.forced_cached = 12;
  const Attempt attempt = bench.Run("warm");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("told by the answer: prefix_cache"));
  ASSERT_FALSE(attempt.warnings.empty());
  EXPECT_EQ(attempt.warnings.back().code, "cached_tokens_with_empty_prefix");
}

TEST(Attempt, LearnsFromTwoSaltsWhatAForeignTemplatePutsBeforeThem) {
  Bench bench(
      "[experiment]\nname = \"x\"\n[target]\nkind = \"url\"\nurl = \"http://127.0.0.1:1\"\n"
      "[[condition]]\nname = \"warm\"\n");
  bench.target.kind_ = TargetKind::kUrl;
  bench.target.alive = bench.target.loaded = true;
  bench.sender.template_tokens = 4;
  const Attempt attempt = bench.Run("warm");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "primer"), 2);
  bench.sender.scripts.push_back([&](wire::Exchange exchange) {
    wire::Exchange answer = bench.sender.Answer(exchange.marks.send_start);
    answer.usage.cached_tokens = 7;  // 4 are forced, 2 may agree by chance
    return answer;
  });
  EXPECT_EQ(bench.Run("warm").outcome, Outcome::kStateNotReached);
}

TEST(Attempt, UnloadsTheModelAndProvesIt) {
  Bench bench(Ladder());
  const Attempt attempt = bench.Run("model unloaded");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_THAT(bench.log, Contains("unload"));
  EXPECT_THAT(bench.log, Not(Contains("primer")));
  const results::LayerReading& model = Reading(attempt.state_before, "model");
  EXPECT_EQ(std::get<std::string>(model.value), "unloaded");
  EXPECT_EQ(Reading(attempt.state_at_send, "page_cache").reached, true);
}

TEST(Attempt, PutsAModelThatHasAnsweredToSleepAndProvesIt) {
  Bench bench(
      Ladder() +
      "[[condition]]\nname = \"asleep\"\nbase = \"warm\"\nstate = { model = \"asleep\" }\n");
  const Attempt attempt = bench.Run("asleep");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  const auto primer = std::find(bench.log.begin(), bench.log.end(), "primer");
  const auto sleep = std::find(bench.log.begin(), bench.log.end(), "sleep");
  const auto send = std::find(bench.log.begin(), bench.log.end(), "send");
  EXPECT_TRUE(primer < sleep && sleep < send && send != bench.log.end());
  EXPECT_EQ(std::get<std::string>(Reading(attempt.state_before, "model").value), "asleep");
  EXPECT_EQ(Reading(attempt.state_before, "model").reached, true);
  EXPECT_EQ(std::get<std::string>(Reading(attempt.state_after, "model").value), "loaded");
}

TEST(Attempt, GivesUpWhenUnloadingHangsAndSaysSo) {
  Bench bench(Ladder());
  bench.target.unload_hangs = true;
  const MonoTime from = bench.clock.Now();
  const Attempt attempt = bench.Run("model unloaded");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("did not take effect"));
  EXPECT_LE(bench.clock.Now() - from, 31 * kNsPerSecond);
  EXPECT_THAT(bench.log, Not(Contains("send")));
}

TEST(Attempt, StartsTheProcessAtTheIntendedSendAndTriesUntilItAccepts) {
  Bench bench(Ladder());
  ASSERT_EQ(bench.Run("warm").outcome, Outcome::kOk);
  const int old_pid = bench.target.pid;
  bench.log.clear();
  for (int i = 0; i < 40; ++i) bench.sender.scripts.push_back(Refused());
  const Attempt attempt = bench.Run("process new");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_NE(bench.target.pid, old_pid);
  // Spawned once, after the old one had ended, and right before the first try.
  const auto spawn = std::find(bench.log.begin(), bench.log.end(), "spawn");
  ASSERT_NE(spawn, bench.log.end());
  EXPECT_EQ(*(spawn + 1), "send");
  EXPECT_LT(std::find(bench.log.begin(), bench.log.end(), "stop"), spawn);
  EXPECT_EQ(attempt.tries, 41);
  EXPECT_EQ(attempt.uncertainty_ns, 2'000'000);
  // 40 refused tries, 2 ms apart, then 50 us to connect.
  const auto stage = [&](results::Stage which) {
    return attempt.stages[static_cast<size_t>(which)].ns;
  };
  EXPECT_EQ(stage(results::Stage::kProcessStart), 80'050'000);
  EXPECT_EQ(attempt.ttft_ns, 150'000'000);
  EXPECT_EQ(StageSum(attempt.stages), attempt.ttft_ns);
  EXPECT_EQ(std::count_if(attempt.lanes.begin(), attempt.lanes.end(),
                          [](const auto& lane) { return lane.name == "try: refused"; }),
            40);
  EXPECT_EQ(Reading(attempt.state_after, "process").reached, true);
  EXPECT_EQ(std::get<std::string>(Reading(attempt.state_before, "process").value), "none");
}

TEST(Attempt, SlowsItsTriesDownAfterTheFirstSecond) {
  Bench bench(Ladder());
  for (int i = 0; i < 600; ++i) bench.sender.scripts.push_back(Refused());
  const Attempt attempt = bench.Run("process new");
  // 500 tries in the first second, then every 10 ms.
  EXPECT_EQ(attempt.tries, 601);
  EXPECT_EQ(attempt.uncertainty_ns, 10'000'000);
  EXPECT_EQ(attempt.ttft_ns, 1'000'000'000 + 100 * 10'000'000 + 70'000'000);
}

TEST(Attempt, KeepsTryingThroughA503AndEndsProcessStartAtTheFirstAcceptedConnection) {
  Bench bench(Ladder());
  bench.sender.scripts.push_back(Refused());
  bench.sender.scripts.push_back([&](wire::Exchange exchange) {
    exchange.outcome = wire::Outcome::kHttpError;
    exchange.http_status = 503;
    exchange.marks.connected = bench.clock.Now();
    return exchange;
  });
  const Attempt attempt = bench.Run("process new");
  EXPECT_EQ(attempt.outcome, Outcome::kOk);
  EXPECT_EQ(attempt.tries, 3);
  EXPECT_EQ(attempt.stages[static_cast<size_t>(results::Stage::kProcessStart)].ns, 2'000'000);
}

TEST(Attempt, DoesNotRepeatAnyOtherErrorOfAStartingServer) {
  Bench bench(Ladder());
  bench.sender.scripts.push_back([](wire::Exchange exchange) {
    exchange.outcome = wire::Outcome::kHttpError;
    exchange.http_status = 500;
    return exchange;
  });
  const Attempt attempt = bench.Run("process new");
  EXPECT_EQ(attempt.outcome, Outcome::kHttpError);
  EXPECT_EQ(attempt.http_status, 500);
  EXPECT_EQ(attempt.tries, 1);
}

TEST(Attempt, EvictsAfterTheProcessHasEndedAndBeforeTheNewOneStarts) {
  Bench bench(Ladder());
  ASSERT_EQ(bench.Run("warm").outcome, Outcome::kOk);
  bench.log.clear();
  const Attempt attempt = bench.Run("page cache cold");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_THAT(bench.log, ElementsAre("stop", "pick port", "evict", "spawn", "send", "state"));
  const results::LayerReading& before = Reading(attempt.state_before, "page_cache");
  EXPECT_EQ(std::get<double>(before.value), 0.0);
  EXPECT_EQ(before.reached, true);
  EXPECT_EQ(std::get<double>(Reading(attempt.state_after, "page_cache").value), 1.0);
}

TEST(Attempt, SendsNothingWhenPagesStayInThePageCache) {
  Bench bench(Ladder());
  bench.page_cache.why_stays = "40 MB of 98 MB stayed, mapped by llama-server (pid 4121)";
  const Attempt attempt = bench.Run("page cache cold");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("mapped by llama-server (pid 4121)"));
  EXPECT_THAT(bench.log, Not(Contains("send")));
  EXPECT_THAT(bench.log, Not(Contains("spawn")));
}

TEST(Attempt, DoesNotClaimAColdPageCacheThatItCannotProve) {
  Bench bench(Ladder());
  bench.page_cache.read_error = "the kernel tells residency to the owner only";
  const Attempt attempt = bench.Run("page cache cold");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("to the owner only"));
}

TEST(Attempt, BringsAFractionOfTheFileIntoThePageCache) {
  Bench bench(Ladder());
  const Attempt attempt = bench.Run("half");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(std::get<double>(Reading(attempt.state_at_send, "page_cache").value), 0.5);
}

TEST(Attempt, TouchesNothingWhileIdling) {
  Bench bench(Ladder());
  std::set<size_t> touched;  // things done before each long sleep
  int64_t slept_ns = 0;
  MonoTime before = bench.clock.Now();
  bench.clock.on_sleep = [&] {
    const int64_t sleep_ns = bench.clock.Now() - before;
    before = bench.clock.Now();
    if (sleep_ns < 30 * kNsPerSecond) return;
    slept_ns += sleep_ns;
    touched.insert(bench.log.size());
  };
  const Attempt attempt = bench.Run("idle");
  EXPECT_EQ(attempt.outcome, Outcome::kOk);
  EXPECT_EQ(attempt.idle_ns, 8 * 3600 * kNsPerSecond);
  EXPECT_GE(slept_ns, 8 * 3600 * kNsPerSecond - 60 * kNsPerSecond);
  // Nothing between the first of the sleeps and the last, and the next thing is the request.
  ASSERT_EQ(touched.size(), 1U);
  ASSERT_LT(*touched.begin(), bench.log.size());
  EXPECT_EQ(bench.log[*touched.begin()], "send");
}

int64_t TimesSetAgain(const Attempt& attempt) {
  const auto is_again = [](const auto& each) { return each.code == "state_set_again"; };
  return std::count_if(attempt.warnings.begin(), attempt.warnings.end(), is_again);
}

TEST(Attempt, SetsAStateAgainBeforeAnIdleTimeWhenSomebodyDisturbedIt) {
  Bench idle(Ladder());
  idle.target.never_ready = true;
  int sleeps = 0;
  idle.clock.on_sleep = [&] { idle.target.never_ready = ++sleeps < 2; };
  const Attempt attempt = idle.Run("idle");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(TimesSetAgain(attempt), 1);
}

// `arrive` runs between the proof of the cold state and the next reading of its pages.
Attempt RunDisturbed(Bench& bench, const std::function<void()>& arrive) {
  AttemptContext context = bench.Context();
  context.states.send_primer = [&](const SendSetup& setup) { return SendPrimer(context, setup); };
  context.on_request = arrive;
  ScheduledAttempt scheduled{.block = 0, .position = 0, .condition = 0, .prime = false};
  while (bench.plan.conditions.at(scheduled.condition).name != "page cache cold") {
    ++scheduled.condition;
  }
  return RunAttempt(context, scheduled);
}

TEST(Attempt, SetsAStateAgainWhenPagesArriveAfterItWasProved) {
  Bench bench(Ladder());
  const Attempt attempt = RunDisturbed(bench, [&] { bench.page_cache.ratio = 0.02; });
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(TimesSetAgain(attempt), 1);
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "evict"), 2);
  Bench undisturbed(Ladder());
  EXPECT_EQ(TimesSetAgain(RunDisturbed(undisturbed, [] {})), 0);
  EXPECT_EQ(std::count(undisturbed.log.begin(), undisturbed.log.end(), "evict"), 1);
}

TEST(Attempt, SetsAStateAgainOnceWithoutAnIdleTimeAndSaysSo) {
  Bench never(Ladder());
  never.page_cache.read_error = "busy";
  const Attempt lost = never.Run("page cache cold");
  EXPECT_EQ(lost.outcome, Outcome::kStateNotReached);
  EXPECT_EQ(TimesSetAgain(lost), 1);
  Bench once(Ladder());
  once.page_cache.read_error = "busy";
  once.clock.on_sleep = [&] { once.page_cache.read_error = ""; };
  const Attempt attempt = once.Run("page cache cold");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(TimesSetAgain(attempt), 1);
}

TEST(Attempt, EndsAnIdleTimeThatASuspendHasSpoiltWithinAMinute) {
  Bench bench(Ladder());
  AttemptContext context = bench.Context();
  context.states.send_primer = [&](const SendSetup& setup) { return SendPrimer(context, setup); };
  const MonoTime suspend_at = bench.clock.Now() + 600 * kNsPerSecond;
  context.clocks = [&] {
    MachineClocks clocks{.boot_id = "boot a"};
    if (bench.clock.Now() >= suspend_at) clocks.suspended_ns = 3600 * kNsPerSecond;
    return clocks;
  };
  ScheduledAttempt scheduled{.block = 0, .position = 0, .condition = 0, .prime = false};
  while (bench.plan.conditions.at(scheduled.condition).name != "idle") ++scheduled.condition;
  const Attempt attempt = RunAttempt(context, scheduled);
  EXPECT_EQ(attempt.outcome, Outcome::kInterrupted);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("the machine was suspended for 1 h"));
  EXPECT_LT(bench.clock.Now() - suspend_at, 61 * kNsPerSecond);
  EXPECT_NE(bench.log.back(), "send") << "what a suspend has spoilt needs no request";
}

TEST(Attempt, KeepsAnAnswerDuringWhichTheMachineWasSuspendedAsInterrupted) {
  Bench bench(Ladder());
  AttemptContext context = bench.Context();
  context.states.send_primer = [&](const SendSetup& setup) { return SendPrimer(context, setup); };
  context.clocks = [&] {
    const bool sent = !bench.log.empty() && bench.log.back() != "primer" && bench.log.size() > 3 &&
                      std::find(bench.log.begin(), bench.log.end(), "send") != bench.log.end();
    return MachineClocks{.boot_id = "boot a", .suspended_ns = sent ? 5 * kNsPerSecond : 0};
  };
  const ScheduledAttempt scheduled{.block = 0, .position = 0, .condition = 0, .prime = false};
  const Attempt attempt = RunAttempt(context, scheduled);
  EXPECT_EQ(attempt.outcome, Outcome::kInterrupted);
  EXPECT_TRUE(attempt.ttft_ns.has_value()) << "what was seen of it stays";
}

TEST(Attempt, StoresHowLongTheServerTookToListenAndToAnswerThePrimer) {
  Bench bench(Ladder());
  bench.target.ready_after_ns = 312 * kNsPerMs;
  const Attempt started = bench.Run("warm");
  EXPECT_EQ(started.outcome, Outcome::kOk) << started.outcome_detail;
  EXPECT_THAT(
      Reading(started.state_before, "model").detail,
      AllOf(HasSubstr("listened 312 ms after its start"), HasSubstr("answered the primer in ")));
  const Attempt running = bench.Run("warm");
  EXPECT_THAT(Reading(running.state_before, "model").detail,
              AllOf(Not(HasSubstr("listened")), HasSubstr("answered the primer in ")));
}

TEST(Attempt, TakesALayerLostWhileIdlingAsAFinding) {
  Bench bench(Ladder());
  bench.clock.on_sleep = [&] {
    if (bench.clock.Now().ns > 3600 * kNsPerSecond) bench.page_cache.ratio = 0.12;
  };
  const Attempt attempt = bench.Run("idle");
  EXPECT_EQ(attempt.outcome, Outcome::kOk);
  EXPECT_EQ(Reading(attempt.state_before, "page_cache").reached, true);
  EXPECT_EQ(Reading(attempt.state_at_send, "page_cache").reached, false);
}

TEST(Attempt, EndsItsIdleTimeWhenInterrupted) {
  Bench bench(Ladder());
  bench.clock.on_sleep = [&] { bench.interrupt = true; };
  const Attempt attempt = bench.Run("idle");
  EXPECT_EQ(attempt.outcome, Outcome::kInterrupted);
  EXPECT_THAT(bench.log, Not(Contains("send")));
}

TEST(Attempt, ReusesThePrimersConnectionAndSeesWhenTheServerHadClosedIt) {
  Bench bench(Ladder());
  EXPECT_EQ(bench.Run("kept").outcome, Outcome::kOk);
  bench.sender.scripts.push_back([&](wire::Exchange) {
    bench.sender.KeepConnection(false);
    return bench.sender.Answer(bench.clock.Now());
  });
  const Attempt attempt = bench.Run("kept");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("connection: wanted reused, read fresh"));
}

TEST(Attempt, RestartsTheServerForOtherArguments) {
  Bench bench(Ladder());
  ASSERT_EQ(bench.Run("slow").outcome, Outcome::kOk);
  EXPECT_THAT(bench.target.last_args, ElementsAre("--threads", "1"));
}

TEST(Attempt, ShowsTheLastWordsOfAServerThatDiesInTheMiddleOfAnAnswer) {
  Bench bench(Ladder());
  bench.target.log_tail = "GGML_ASSERT failed";
  bench.sender.scripts.push_back([&](wire::Exchange exchange) {
    exchange.outcome = wire::Outcome::kTruncated;
    exchange.outcome_detail = "the connection closed";
    exchange.marks.first_token = exchange.marks.send_start + 5'000'000;
    bench.target.Die("was ended by SIGABRT");
    return exchange;
  });
  const Attempt attempt = bench.Run("warm");
  EXPECT_EQ(attempt.outcome, Outcome::kTargetExited);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("was ended by SIGABRT (the connection closed)"));
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("GGML_ASSERT failed"));
  // The next attempt starts it again.
  EXPECT_EQ(bench.Run("warm").outcome, Outcome::kOk);
}

TEST(Attempt, SaysThatAServerStartedAndDied) {
  Bench bench(Ladder());
  bench.target.dies_with = "exited with status 1";
  bench.target.log_tail = "cannot load model";
  const Attempt attempt = bench.Run("warm");
  EXPECT_EQ(attempt.outcome, Outcome::kTargetExited);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("exited with status 1"));
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("cannot load model"));
}

TEST(Attempt, SaysThatAServerDiedWhileTheRequestWaitedForIt) {
  Bench bench(Ladder());
  bench.sender.scripts.push_back(Refused());
  bench.sender.scripts.push_back([&](wire::Exchange exchange) {
    bench.target.Die("was ended by SIGSEGV");
    exchange.outcome = wire::Outcome::kConnectError;
    exchange.connection.connect_errno = ECONNREFUSED;
    return exchange;
  });
  const Attempt attempt = bench.Run("process new");
  EXPECT_EQ(attempt.outcome, Outcome::kTargetExited);
  EXPECT_EQ(attempt.tries, 2);
}

TEST(Attempt, SaysThatAServerNeverBecameReady) {
  Bench bench(Ladder());
  bench.target.never_ready = true;
  const Attempt attempt = bench.Run("warm");
  EXPECT_EQ(attempt.outcome, Outcome::kStateNotReached);
  EXPECT_THAT(attempt.outcome_detail, HasSubstr("did not become ready in time"));
}

TEST(Attempt, SaysThatAServerCannotBeStarted) {
  Bench bench(Ladder());
  bench.target.spawn_error = "no program called my-server";
  EXPECT_THAT(bench.Run("warm").outcome_detail, HasSubstr("no program called my-server"));
  EXPECT_EQ(bench.Run("process new").outcome, Outcome::kTargetExited);
}

TEST(Attempt, TakesAnotherPortWhenTheChosenOneWasTaken) {
  Bench bench(Ladder());
  bench.target.dies_with = "exited with status 3";
  bench.target.port_taken = true;
  const Attempt attempt = bench.Run("warm");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "pick port"), 2);
}

TEST(Attempt, LeavesMeasuredFailuresAsTheyAre) {
  Bench bench(Ladder());
  bench.sender.scripts.push_back([](wire::Exchange exchange) {
    exchange.outcome = wire::Outcome::kTimeout;
    exchange.outcome_detail = "no first token within 2 min 0 s";
    return exchange;
  });
  const Attempt attempt = bench.Run("warm");
  EXPECT_EQ(attempt.outcome, Outcome::kTimeout);
  EXPECT_FALSE(attempt.ttft_ns.has_value());
  EXPECT_FALSE(StageSum(attempt.stages).has_value());
}

TEST(MakeRequest, SaltsTheFrontOfThePromptAndAsksTheBuiltInServerForItsTimeline) {
  Bench bench(Ladder());
  SendSetup setup{.salt_text = SaltText(42), .forbid_prefix = true};
  const wire::RequestSpec spec = MakeRequest(bench.plan, bench.target, setup);
  ASSERT_EQ(spec.messages.size(), 2U);
  EXPECT_EQ(spec.messages[0].content, "000000000042 is the number of this session.");
  EXPECT_EQ(spec.messages[1].content, bench.plan.prompt);
  const auto extra = nlohmann::json::parse(spec.extra_body_json);
  EXPECT_EQ(extra["rouse_timeline"], true);
  EXPECT_EQ(extra["cache_prompt"], false);
  bench.target.kind_ = TargetKind::kUrl;
  bench.plan.target.api = "ollama-generate";
  const wire::RequestSpec foreign = MakeRequest(bench.plan, bench.target, setup);
  EXPECT_EQ(foreign.extra_body_json, "");
  EXPECT_EQ(foreign.prompt, "000000000042 is the number of this session.\n" + bench.plan.prompt);
}

TEST(MakeRequest, PutsAShortSaltWhereThePromptWantsItAndNothingElse) {
  Bench bench(Ladder());
  bench.plan.prompt = "{salt} colours of the sky";
  const SendSetup setup{.salt_text = SaltText(123'456'789'012)};
  const wire::RequestSpec chat = MakeRequest(bench.plan, bench.target, setup);
  ASSERT_EQ(chat.messages.size(), 1U);
  EXPECT_EQ(chat.messages[0].role, "user");
  EXPECT_EQ(chat.messages[0].content, "123 colours of the sky");
  EXPECT_EQ(chat.prompt, "");
  bench.plan.target.api = "openai-completions";
  const wire::RequestSpec plain = MakeRequest(bench.plan, bench.target, setup);
  EXPECT_EQ(plain.prompt, "123 colours of the sky");
  EXPECT_TRUE(plain.messages.empty());
}

TEST(SaltText, IsAlwaysOfTheSameLengthAndNeverTwiceTheSame) {
  EXPECT_EQ(SaltText(0).size(), SaltText(~uint64_t{0}).size());
  EXPECT_NE(SaltText(1), SaltText(2));
}

}  // namespace
}  // namespace rouse::lab
