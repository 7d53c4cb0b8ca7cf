// What cuts an attempt or takes its state away: an interrupt while the state is set, another
// program on the port, a server that ends after its answer, an idle time that costs the prefix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/fakes.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kPlan =
    "[experiment]\nname = \"x\"\n"
    "[[condition]]\nname = \"warm\"\n"
    "[[condition]]\nname = \"hit\"\nbase = \"warm\"\nstate = { prefix_cache = \"hit\" }\n"
    "[[condition]]\nname = \"hit later\"\nbase = \"hit\"\nidle = \"8h\"\n"
    "[[condition]]\nname = \"kept\"\nbase = \"warm\"\nstate = { connection = \"reused\" }\n"
    "[[condition]]\nname = \"kept later\"\nbase = \"kept\"\nidle = \"8h\"\n"
    "[[condition]]\nname = \"empty later\"\nbase = \"warm\"\nidle = \"8h\"\n"
    "[[condition]]\nname = \"unloaded\"\nbase = \"warm\"\nstate = { model = \"unloaded\" }\n"
    "[[condition]]\nname = \"new\"\nbase = \"unloaded\"\nstate = { process = \"new\" }\n";

auto HasWarning(const std::string& code) { return Contains(Field(&results::Warning::code, code)); }

// Ctrl-C while `step` is under way: the step fails in whatever words, and the attempt is no
// finding but one that is begun again.
TEST(AttemptCut, AnInterruptInAPrimerIsNoStateThatWasNotReached) {
  for (const char* const condition : {"warm", "hit", "unloaded"}) {
    Bench bench(kPlan);
    AttemptContext context = bench.Context();
    context.states.send_primer = [&](const SendSetup&) -> Result<PrimerReport> {
      bench.interrupt = true;
      return Error(ErrorCode::kState, "interrupted: the user asked to stop");
    };
    ScheduledAttempt scheduled;
    while (bench.plan.conditions.at(scheduled.condition).name != condition) ++scheduled.condition;
    if (std::string(condition) == "unloaded") {
      bench.target.unload_hangs = true;
      bench.target.on_unload = [&bench] { bench.interrupt = true; };
    }
    const Attempt attempt = RunAttempt(context, scheduled);
    EXPECT_EQ(attempt.outcome, Outcome::kInterrupted) << condition << attempt.outcome_detail;
    EXPECT_THAT(bench.log, Not(Contains("send")));
  }
}

TEST(AttemptCut, AServerThatCrashesIsNotTriedAgainWhateverItsLastWords) {
  Bench bench(kPlan);
  bench.target.log_tail = "CUDA out of memory: 22.1 GiB memory in use";
  bench.target.dies_with = "exited with status 1";
  EXPECT_EQ(bench.Run("warm").outcome, Outcome::kTargetExited);
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "spawn"), 1);
  bench.sender.scripts.push_back([&](wire::Exchange exchange) {
    exchange.outcome = wire::Outcome::kTruncated;
    bench.target.Die("was ended by SIGABRT");
    return exchange;
  });
  EXPECT_EQ(bench.Run("new").outcome, Outcome::kTargetExited);
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "send"), 1);
}

TEST(AttemptCut, AnAnswerOfAnotherProgramOnThePortIsNotOurs) {
  Bench bench(kPlan);
  bench.sender.scripts.push_back([&](wire::Exchange exchange) {
    wire::Exchange answer = bench.sender.Answer(exchange.marks.send_start);
    bench.target.Die("exited with status 3");
    bench.target.port_taken = true;
    return answer;
  });
  const Attempt attempt = bench.Run("new");
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_THAT(attempt.warnings, HasWarning("port_taken"));
  EXPECT_THAT(attempt.warnings, Not(HasWarning("target_exited_after_answer")));
  EXPECT_EQ(std::count(bench.log.begin(), bench.log.end(), "send"), 2);
}

TEST(AttemptCut, AServerThatEndsAfterItsWholeAnswerLeavesASampleAndAWarning) {
  for (const char* const condition : {"warm", "new"}) {
    Bench bench(kPlan);
    bench.sender.scripts.push_back([&](wire::Exchange exchange) {
      wire::Exchange answer = bench.sender.Answer(exchange.marks.send_start);
      bench.target.Die("was ended by SIGSEGV");
      return answer;
    });
    const Attempt attempt = bench.Run(condition);
    EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
    ASSERT_THAT(attempt.warnings, HasWarning("target_exited_after_answer"));
    EXPECT_EQ(attempt.ttft_ns, 70'000'000);
  }
}

TEST(AttemptCut, APrefixOrConnectionLostToIdlingIsTheFinding) {
  for (const char* const condition : {"hit later", "kept later"}) {
    Bench bench(kPlan);
    bench.sender.scripts.push_back([&](wire::Exchange exchange) {
      bench.sender.KeepConnection(false);
      bench.sender.forced_cached = 0;
      return bench.sender.Answer(exchange.marks.send_start);
    });
    const Attempt attempt = bench.Run(condition);
    EXPECT_EQ(attempt.outcome, Outcome::kOk) << condition << attempt.outcome_detail;
    EXPECT_THAT(attempt.warnings, HasWarning("lost_while_idle"));
  }
}

TEST(AttemptCut, WhatIdlingCannotTakeIsJudgedAfterItAsWell) {
  Bench bench(kPlan);
  bench.sender.scripts.push_back([&](wire::Exchange exchange) {
    bench.sender.forced_cached = 12;
    return bench.sender.Answer(exchange.marks.send_start);
  });
  EXPECT_EQ(bench.Run("empty later").outcome, Outcome::kStateNotReached);
}

TEST(AttemptCut, ThePrimeDoesNotIdle) {
  Bench bench(kPlan);
  AttemptContext context = bench.Context();
  context.states.send_primer = [&](const SendSetup& setup) { return SendPrimer(context, setup); };
  ScheduledAttempt scheduled;
  scheduled.prime = true;
  while (bench.plan.conditions[scheduled.condition].name != "hit later") ++scheduled.condition;
  const MonoTime from = bench.clock.Now();
  const Attempt attempt = RunAttempt(context, scheduled);
  EXPECT_EQ(attempt.outcome, Outcome::kOk) << attempt.outcome_detail;
  EXPECT_LT(bench.clock.Now() - from, 60 * kNsPerSecond);
  EXPECT_EQ(attempt.idle_ns, 0);
  EXPECT_EQ(IdleNs(bench.plan, scheduled), 0);
  scheduled.prime = false;
  EXPECT_EQ(IdleNs(bench.plan, scheduled), 8 * 3600 * kNsPerSecond);
}

// The proof names only what was looked at.
TEST(AttemptCut, AnUnloadedModelIsProvedByMappingsOnlyWhereTheyAreSeen) {
  const auto reading = [](Bench& bench) { return bench.Run("unloaded").state_before.at("model"); };
  Bench hidden(kPlan);
  EXPECT_EQ(reading(hidden).proof, "the server's state");
  EXPECT_THAT(reading(hidden).detail, HasSubstr("another user's"));
  Bench unreadable(kPlan);
  unreadable.target.tree = {11};
  unreadable.page_cache.may_know = false;
  EXPECT_EQ(reading(unreadable).proof, "the server's state");
  EXPECT_THAT(reading(unreadable).detail, HasSubstr("may not be read"));
  Bench unnamed(kPlan);
  unnamed.target.file = "";
  EXPECT_THAT(reading(unnamed).detail, HasSubstr("--model-file"));
  Bench seen(kPlan);
  seen.target.tree = {11};
  EXPECT_EQ(reading(seen).proof, "the server's state and no mapping of the file");
  EXPECT_EQ(reading(seen).reached, true);
  seen.page_cache.mappers = {11};
  EXPECT_EQ(reading(seen).reached, false);
}

}  // namespace
}  // namespace rouse::lab
