#include "explain/profile.h"

#include <gtest/gtest.h>

#include "explain/test_attempts.h"

namespace rouse::explain {
namespace {

using results::Attempt;

Profile Of(const std::vector<Attempt>& attempts) {
  std::vector<const Attempt*> pointers;
  for (const Attempt& attempt : attempts) pointers.push_back(&attempt);
  return ProfileOf(pointers);
}

TEST(Profile, OfNothingKnowsNothing) {
  const Profile profile = Of({});
  EXPECT_EQ(profile.n, 0);
  EXPECT_EQ(profile.ttft_ns, std::nullopt);
  EXPECT_EQ(profile.Layer("page_cache"), nullptr);
  EXPECT_EQ(profile.Counter("target_read_bytes"), std::nullopt);
}

TEST(Profile, TakesMediansOfWhatWasMeasuredAndLeavesTheRestEmpty) {
  std::vector<Attempt> attempts = {Healthy(1), Healthy(2), Healthy(3)};
  attempts[0].ttft_ns = 1 * kMs;
  attempts[2].ttft_ns = 900 * kMs;
  attempts[1].counters["target_read_bytes"].reset();
  attempts[2].counters["target_read_bytes"] = int64_t{10};
  const Profile profile = Of(attempts);
  EXPECT_EQ(profile.ttft_ns, 100e6);
  EXPECT_EQ(profile.ttft_max_ns, 900e6);
  EXPECT_EQ(profile.Counter("target_read_bytes"), 5);
  EXPECT_EQ(profile.Counter("gpu_clock_hz"), std::nullopt);
}

TEST(Profile, TakesALayerAsItWasAtTheSendAndNotBefore) {
  Attempt attempt = Healthy(1);
  attempt.state_at_send["page_cache"] = Reading(0.25, "warm", "cachestat");
  const Profile profile = Of({attempt});
  EXPECT_EQ(profile.Layer("page_cache")->share, 0.25);
  EXPECT_EQ(profile.Layer("model")->word, "loaded");  // only read before
  EXPECT_EQ(profile.Layer("prefix_cache")->word, "empty");
}

TEST(Profile, CountsOverlappingLanesOnce) {
  Attempt attempt = Healthy(1);
  attempt.lanes = {
      {"a", 0, 100, 10}, {"b", 50, 120, 10}, {"context", 0, 9999, 10}, {"try", 0, 50, {}}};
  const Profile profile = Of({attempt});
  EXPECT_EQ(profile.lane_bytes, 20);
  EXPECT_EQ(profile.lane_ns, 120);
}

TEST(Profile, APrimeOrAFailureStandsForNothing) {
  Attempt attempt = Healthy(1);
  EXPECT_TRUE(CanBeReference(attempt));
  attempt.prime = true;
  EXPECT_FALSE(CanBeReference(attempt));
  attempt.prime = false;
  attempt.outcome = results::Outcome::kTimeout;
  EXPECT_FALSE(CanBeReference(attempt));
}

}  // namespace
}  // namespace rouse::explain
