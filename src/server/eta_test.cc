#include "server/eta.h"

#include <gtest/gtest.h>

namespace rouse::server {
namespace {

EtaHistory Served() {
  EtaHistory history;
  for (const int64_t ns : {90, 100, 500}) history.AddRequest(ns, ns * 10);
  return history;
}

TEST(EtaHistory, SaysNothingWithoutAMeasurement) {
  const auto estimate = EtaHistory().FirstToken({.loaded = true});
  EXPECT_FALSE(estimate.ns.has_value());
  EXPECT_EQ(estimate.reason, "no request was answered here yet");
}

TEST(EtaHistory, TakesTheMedianOfPastRequests) {
  EXPECT_EQ(Served().FirstToken({.loaded = true}).ns, 100);
}

TEST(EtaHistory, AddsThoseWhoAreBefore) {
  const EtaHistory history = Served();
  EXPECT_EQ(history.FirstToken({.loaded = true, .waiting = 2}).ns, 100 + 2 * 1000);
  EXPECT_EQ(history.FirstToken({.loaded = true, .running_for_ns = 400}).ns, 100 + 600);
  // One that runs longer than usual could end at any moment.
  EXPECT_EQ(history.FirstToken({.loaded = true, .running_for_ns = 5000}).ns, 100);
}

TEST(EtaHistory, AddsALoadOfTheSameKind) {
  EtaHistory history = Served();
  history.AddLoad(2000, 1.0, false);
  history.AddLoad(9000, 0.0, false);
  history.AddLoad(700, 1.0, true);
  EXPECT_EQ(history.FirstToken({.resident_ratio = 0.95}).ns, 2100);
  EXPECT_EQ(history.FirstToken({.resident_ratio = 0.02}).ns, 9100);
  EXPECT_EQ(history.FirstToken({.resident_ratio = 1.0, .tokenizer_kept = true}).ns, 800);
  EXPECT_EQ(history.FirstToken({.loading_for_ns = 500, .resident_ratio = 1.0}).ns, 1600);
  EXPECT_EQ(history.FirstToken({.loading_for_ns = 50'000, .resident_ratio = 1.0}).ns, 100);
}

TEST(EtaHistory, InterpolatesBetweenSharesButNeverBeyond) {
  EtaHistory history = Served();
  history.AddLoad(2000, 1.0, false);
  EXPECT_FALSE(history.FirstToken({.resident_ratio = 0.5}).ns.has_value());
  history.AddLoad(4000, 0.2, false);
  EXPECT_EQ(history.FirstToken({.resident_ratio = 0.6}).ns, 100 + 3000);
  EXPECT_FALSE(history.FirstToken({.resident_ratio = 0.05}).ns.has_value());
  EXPECT_EQ(history.FirstToken({.resident_ratio = 0.05}).reason,
            "no load from a state like this one was measured here yet");
}

TEST(EtaHistory, ComparesLoadsOfUnknownResidencyOnlyWithEachOther) {
  EtaHistory history = Served();
  history.AddLoad(2000, 1.0, false);
  EXPECT_FALSE(history.FirstToken({}).ns.has_value());
  history.AddLoad(3000, std::nullopt, false);
  EXPECT_EQ(history.FirstToken({}).ns, 3100);
}

TEST(EtaHistory, ForgetsTheOldest) {
  EtaHistory history;
  for (int count = 0; count < 100; ++count) history.AddRequest(1'000'000, 1'000'000);
  for (int count = 0; count < 16; ++count) history.AddRequest(10, 10);
  EXPECT_EQ(history.FirstToken({.loaded = true}).ns, 10);
}

}  // namespace
}  // namespace rouse::server
