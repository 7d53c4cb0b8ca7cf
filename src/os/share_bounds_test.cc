#include "os/share_bounds.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rouse::os {
namespace {

TEST(ShareBounds, OfNoneAndOfAllAreClosedFormulas) {
  // (1 - p)^n = 0.025
  EXPECT_NEAR(BoundsOfShare(0, 512).high, 1 - std::pow(0.025, 1.0 / 512), 1e-9);
  EXPECT_EQ(BoundsOfShare(0, 512).low, 0);
  EXPECT_NEAR(BoundsOfShare(512, 512).low, std::pow(0.025, 1.0 / 512), 1e-9);
  EXPECT_EQ(BoundsOfShare(512, 512).high, 1);
}

// What the contract calls cold and warm can be shown by 512 pages, and by 512 only when all agree.
TEST(ShareBounds, FiveHundredAndTwelvePagesShowColdAndWarm) {
  EXPECT_LE(BoundsOfShare(0, 512).high, 0.01);
  EXPECT_GT(BoundsOfShare(1, 512).high, 0.01);
  EXPECT_GE(BoundsOfShare(512, 512).low, 0.99);
  EXPECT_LT(BoundsOfShare(511, 512).low, 0.99);
  EXPECT_GT(BoundsOfShare(256, 512).high - 0.5, 0.02);  // no fraction within 0.02
}

// scipy.stats.beta.ppf([0.025, 0.975], [k, k + 1], [n - k + 1, n - k])
TEST(ShareBounds, AgreeWithTheBetaQuantiles) {
  const ShareBounds few = BoundsOfShare(3, 20);
  EXPECT_NEAR(few.low, 0.0320709, 1e-6);
  EXPECT_NEAR(few.high, 0.3789268, 1e-6);
  const ShareBounds half = BoundsOfShare(256, 512);
  EXPECT_NEAR(half.low, 0.4558217, 1e-6);
  EXPECT_NEAR(half.high, 0.5441783, 1e-6);
}

TEST(ShareBounds, OfNoSampleAreEverything) {
  EXPECT_EQ(BoundsOfShare(0, 0).low, 0);
  EXPECT_EQ(BoundsOfShare(0, 0).high, 1);
}

}  // namespace
}  // namespace rouse::os
