#include "gguf/synthetic_weights.h"

#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "gguf/random.h"
#include "gguf/tensor_type.h"

namespace rouse::gguf {
namespace {

TEST(RandomAt, GivesTheNumbersOfSplitMix64) {
  // The reference generator's first outputs from state 1234567.
  EXPECT_EQ(RandomAt(1234567, 0), 6457827717110365317U);
  EXPECT_EQ(RandomAt(1234567, 1), 3203168211198807973U);
  EXPECT_EQ(RandomAt(1234567, 2), 9817491932198370423U);
}

TEST(HalfFromFloat, AgreesWithTheEngineFromSubnormalsToTheLargest) {
  for (const float value : {0.0F, 1.0F, -2.0F, 65504.0F, 0.1F, 6.1e-5F, 6.0e-5F, 5.96e-8F, 1e-6F,
                            0.00030517578125F, 2047.5F, 2048.5F, 0.333333F}) {
    EXPECT_EQ(HalfFromFloat(value), ggml_fp32_to_fp16(value)) << value;
  }
  for (int i = 1; i < 20'000; ++i) {
    const float value = std::ldexp(1.0F + static_cast<float>(i % 997) / 997.0F, i % 28 - 14);
    ASSERT_EQ(HalfFromFloat(value), ggml_fp32_to_fp16(value)) << value;
  }
}

// The weights as the engine reads them.
std::vector<float> AsFloats(uint32_t type, const std::vector<std::byte>& bytes) {
  const TensorType& traits = *FindTensorType(type);
  const int64_t count =
      static_cast<int64_t>(bytes.size()) / traits.block_bytes * traits.block_elements;
  std::vector<float> floats(static_cast<size_t>(count));
  if (type == kTypeF32) {
    std::memcpy(floats.data(), bytes.data(), bytes.size());
  } else {
    ggml_get_type_traits(static_cast<ggml_type>(type))
        ->to_float(bytes.data(), floats.data(), count);
  }
  return floats;
}

class FillRandomTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(FillRandomTest, GivesFiniteWeightsOfAboutTheDeviationAskedFor) {
  const TensorType& type = *FindTensorType(GetParam());
  for (const double deviation : {0.011, 0.022, 0.06}) {
    std::vector<std::byte> bytes(static_cast<size_t>(type.block_bytes * 100'000));
    FillRandom(type.id, deviation, 3, 0, bytes);
    double sum = 0.0;
    double squares = 0.0;
    const std::vector<float> weights = AsFloats(type.id, bytes);
    for (const float weight : weights) {
      ASSERT_TRUE(std::isfinite(weight));
      sum += static_cast<double>(weight);
      squares += static_cast<double>(weight) * static_cast<double>(weight);
    }
    const auto count = static_cast<double>(weights.size());
    // f16 knows only powers of two for it; q4_0 is not quite symmetric about 0.
    EXPECT_GT(std::sqrt(squares / count), deviation * 0.69) << type.name;
    EXPECT_LT(std::sqrt(squares / count), deviation * 1.45) << type.name;
    EXPECT_LT(std::fabs(sum / count), deviation * 0.12) << type.name;
  }
}

TEST_P(FillRandomTest, GivesTheSameBytesHoweverTheWorkIsCut) {
  const TensorType& type = *FindTensorType(GetParam());
  const auto block = static_cast<size_t>(type.block_bytes);
  std::vector<std::byte> whole(block * 64);
  FillRandom(type.id, 0.02, 9, 0, whole);
  std::vector<std::byte> parts(block * 64);
  FillRandom(type.id, 0.02, 9, 0, std::span(parts).first(block * 24));
  FillRandom(type.id, 0.02, 9, 24, std::span(parts).subspan(block * 24));
  EXPECT_EQ(parts, whole);
  std::vector<std::byte> other_seed(block * 64);
  FillRandom(type.id, 0.02, 10, 0, other_seed);
  EXPECT_NE(other_seed, whole);
}

INSTANTIATE_TEST_SUITE_P(Types, FillRandomTest,
                         ::testing::Values(kTypeF32, kTypeF16, kTypeQ4_0, kTypeQ8_0),
                         [](const auto& type) {
                           return std::string(FindTensorType(type.param)->name);
                         });

TEST(CanFill, RefusesTypesThatItDoesNotKnow) { EXPECT_FALSE(CanFill(kTypeQ6_K)); }

}  // namespace
}  // namespace rouse::gguf
