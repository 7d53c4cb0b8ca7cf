#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace rouse::engine {
namespace {

const std::vector<float> kLogits = {0.0F, 3.0F, 1.0F, 2.5F, -4.0F};

SamplingParams Everything(double temperature) {
  return {.temperature = temperature, .top_p = 1, .top_k = 0, .min_p = 0, .seed = 7};
}

std::vector<Token> Draw(const SamplingParams& params, int count, std::vector<Token> banned = {}) {
  Result<Sampler> sampler = Sampler::Make(params, std::move(banned));
  EXPECT_TRUE(sampler.ok());
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(sampler->Sample(kLogits).value());
  return tokens;
}

TEST(Sampler, TakesTheHighestAtTemperatureZero) {
  EXPECT_EQ(Draw(Everything(0), 2), (std::vector<Token>{1, 1}));
}

TEST(Sampler, TakesTheFirstOfEqualOnes) {
  Sampler sampler = Sampler::Make(Everything(0), {}).value();
  const std::vector<float> equal = {1.0F, 5.0F, 5.0F};
  EXPECT_EQ(sampler.Sample(equal).value(), 1);
}

TEST(Sampler, NeverTakesABannedToken) {
  EXPECT_EQ(Draw(Everything(0), 1, {1}).front(), 3);
  for (const Token token : Draw(Everything(2), 500, {1, 3})) {
    EXPECT_NE(token, 1);
    EXPECT_NE(token, 3);
  }
}

TEST(Sampler, DrawsByTheSoftmaxOfTheLogits) {
  const int count = 20000;
  std::vector<int> seen(kLogits.size());
  for (const Token token : Draw(Everything(1), count)) ++seen[static_cast<size_t>(token)];
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit);
  for (size_t i = 0; i < kLogits.size(); ++i) {
    const double p = std::exp(kLogits[i]) / sum;
    // Five standard deviations of a binomial count; the seed is fixed.
    EXPECT_NEAR(seen[i], count * p, 5 * std::sqrt(count * p * (1 - p)) + 1) << i;
  }
}

TEST(Sampler, RepeatsItselfWithTheSameSeedOnly) {
  SamplingParams params = Everything(2);
  const std::vector<Token> first = Draw(params, 50);
  EXPECT_EQ(Draw(params, 50), first);
  params.seed = 8;
  EXPECT_NE(Draw(params, 50), first);
}

TEST(Sampler, TellsTheSeedThatItChose) {
  SamplingParams params = Everything(2);
  params.seed.reset();
  Sampler sampler = Sampler::Make(params, {}).value();
  std::vector<Token> drawn;
  for (int i = 0; i < 50; ++i) drawn.push_back(sampler.Sample(kLogits).value());
  params.seed = sampler.seed();
  EXPECT_EQ(Draw(params, 50), drawn);
}

TEST(Sampler, KeepsTheTopKOnly) {
  SamplingParams params = Everything(5);
  params.top_k = 2;
  const std::vector<Token> drawn = Draw(params, 300);
  EXPECT_EQ(std::set<Token>(drawn.begin(), drawn.end()), (std::set<Token>{1, 3}));
}

TEST(Sampler, KeepsTheSmallestSetThatReachesTopP) {
  // Softmax: 0.53 for token 1, 0.32 for 3, 0.07 for 2.
  SamplingParams params = Everything(1);
  params.top_p = 0.6;
  const std::vector<Token> drawn = Draw(params, 300);
  EXPECT_EQ(std::set<Token>(drawn.begin(), drawn.end()), (std::set<Token>{1, 3}));
}

TEST(Sampler, DropsWhatIsBelowMinPOfTheLikeliest) {
  // Relative to token 1: 3 has 0.61, 2 has 0.14.
  SamplingParams params = Everything(1);
  params.min_p = 0.2;
  const std::vector<Token> drawn = Draw(params, 300);
  EXPECT_EQ(std::set<Token>(drawn.begin(), drawn.end()), (std::set<Token>{1, 3}));
}

TEST(Sampler, RefusesValuesOutOfRangeAndNamesTheField) {
  const auto message = [](SamplingParams params) {
    const Result<Sampler> sampler = Sampler::Make(params, {});
    return sampler.ok() ? "" : sampler.error().message();
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message({.temperature = -1}).find("temperature"), std::string::npos);
  EXPECT_NE(message({.temperature = nan}).find("temperature"), std::string::npos);
  EXPECT_NE(message({.top_p = 1.5}).find("top_p"), std::string::npos);
  EXPECT_NE(message({.top_k = -1}).find("top_k"), std::string::npos);
  EXPECT_NE(message({.min_p = -0.1}).find("min_p"), std::string::npos);
}

TEST(Sampler, ReportsLogitsThatAreNoNumbers) {
  Sampler sampler = Sampler::Make(Everything(0), {}).value();
  const std::vector<float> broken(4, std::numeric_limits<float>::quiet_NaN());
  const Result<Token> token = sampler.Sample(broken);
  ASSERT_FALSE(token.ok());
  EXPECT_EQ(token.error().code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace rouse::engine
