#include "server/eta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::server {
namespace {

using engine::Tier;
using ::testing::HasSubstr;

EtaHistory Served() {
  EtaHistory history;
  for (const int64_t ns : {90, 100, 500}) history.AddRequest(ns, ns * 10);
  return history;
}

LoadStart From(std::optional<double> ratio, bool tokenizer_kept = false,
               Tier tier = Tier::kUnloaded) {
  return {tier, tokenizer_kept, ratio};
}

EtaHistory::Now Loaded() { return {.loaded = true, .from = From(1.0)}; }

TEST(EtaHistory, SaysNothingWithoutAMeasurement) {
  const auto estimate = EtaHistory().FirstToken(Loaded());
  EXPECT_FALSE(estimate.ns.has_value());
  EXPECT_EQ(estimate.reason, "no request was answered by the loaded model yet");
}

TEST(EtaHistory, TakesTheMedianOfPastRequests) {
  EXPECT_EQ(Served().FirstToken(Loaded()).ns, 100);
  EXPECT_EQ(Served().FirstToken({.loaded = true}).ns, 100);
}

TEST(EtaHistory, AddsThoseWhoAreBefore) {
  const EtaHistory history = Served();
  EtaHistory::Now now = Loaded();
  now.waiting = 2;
  EXPECT_EQ(history.FirstToken(now).ns, 100 + 2 * 1000);
  now.waiting = 0;
  now.running_for_ns = 400;
  EXPECT_EQ(history.FirstToken(now).ns, 100 + 600);
  // One that runs longer than usual could end at any moment.
  now.running_for_ns = 5000;
  EXPECT_EQ(history.FirstToken(now).ns, 100);
}

TEST(EtaHistory, TakesAWholeStartFromTheSameTierAndResidency) {
  EtaHistory history;
  history.AddStart(From(1.0), 2000);
  history.AddStart(From(0.0), 9000);
  history.AddStart(From(1.0, true), 700);
  history.AddStart(From(1.0, true, Tier::kAsleep), 300);
  history.AddStart(From(0.0, true, Tier::kAsleep), 5000);
  EXPECT_EQ(history.FirstToken({.from = From(0.95)}).ns, 2000);
  EXPECT_EQ(history.FirstToken({.from = From(0.02)}).ns, 9000);
  EXPECT_EQ(history.FirstToken({.from = From(1.0, true)}).ns, 700);
  EXPECT_EQ(history.FirstToken({.from = From(1.0, true, Tier::kAsleep)}).ns, 300);
  EXPECT_EQ(history.FirstToken({.from = From(0.5, true, Tier::kAsleep)}).ns, 2650);
  EXPECT_EQ(history.StartNs(Tier::kAsleep), 300);
  EXPECT_EQ(history.StartNs(Tier::kReady), std::nullopt);
}

TEST(EtaHistory, TheTimeThatALoadHasTakenIsTakenOff) {
  EtaHistory history = Served();
  history.AddStart(From(1.0), 2000);
  EXPECT_EQ(history.FirstToken({.loading_for_ns = 500, .from = From(1.0)}).ns, 1500);
  // One that takes longer than usual is at best as near as a loaded model.
  EXPECT_EQ(history.FirstToken({.loading_for_ns = 50'000, .from = From(1.0)}).ns, 100);
}

TEST(EtaHistory, JoinsALoadThatNobodyWaitedForWithALoadedModelsFirstToken) {
  EtaHistory history = Served();
  history.AddLoad(From(1.0), 2000);
  EXPECT_EQ(history.FirstToken({.from = From(1.0)}).ns, 2100);
  EXPECT_EQ(history.FirstToken({.loading_for_ns = 500, .from = From(1.0)}).ns, 1600);
}

TEST(EtaHistory, InterpolatesBetweenSharesButNeverBeyond) {
  EtaHistory history = Served();
  history.AddStart(From(1.0), 2000);
  EXPECT_FALSE(history.FirstToken({.from = From(0.5)}).ns.has_value());
  history.AddStart(From(0.2), 4000);
  EXPECT_EQ(history.FirstToken({.from = From(0.6)}).ns, 3000);
  EXPECT_FALSE(history.FirstToken({.from = From(0.05)}).ns.has_value());
  EXPECT_EQ(history.FirstToken({.from = From(0.05)}).reason,
            "no load from a state like this one was measured here yet");
}

TEST(EtaHistory, AddsTheReadingOfWhatALoadedModelLost) {
  const EtaHistory history = Served();
  EtaHistory::Now now = Loaded();
  now.from.resident_ratio = 0.25;
  EXPECT_THAT(history.FirstToken(now).reason, HasSubstr("how fast"));
  now.file_bytes = 4'000;
  now.read_bytes_per_s = 1'000'000'000;
  EXPECT_EQ(history.FirstToken(now).ns, 100 + 3'000);
}

TEST(EtaHistory, ComparesLoadsOfUnknownResidencyOnlyWithEachOther) {
  EtaHistory history = Served();
  history.AddStart(From(1.0), 2000);
  EXPECT_FALSE(history.FirstToken({}).ns.has_value());
  history.AddStart(From(std::nullopt), 3000);
  EXPECT_EQ(history.FirstToken({}).ns, 3000);
}

TEST(EtaHistory, ForgetsTheOldest) {
  EtaHistory history;
  for (int count = 0; count < 100; ++count) history.AddRequest(1'000'000, 1'000'000);
  for (int count = 0; count < 16; ++count) history.AddRequest(10, 10);
  EXPECT_EQ(history.FirstToken(Loaded()).ns, 10);
}

}  // namespace
}  // namespace rouse::server
