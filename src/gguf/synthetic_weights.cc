#include "gguf/synthetic_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "gguf/random.h"
#include "gguf/tensor_type.h"

namespace rouse::gguf {
namespace {

// Standard deviations of evenly spread integers: of 0..15 (a q4_0 weight is that less 8, times the
// scale) and of -128..127.
constexpr double kNibbleDeviation = 4.6098;
constexpr double kByteDeviation = 73.90;

// Scaled blocks: a half-precision scale, then random bytes.
template <size_t kPayloadBytes>
void FillScaled(uint16_t scale, uint64_t seed, uint64_t first_block, std::span<std::byte> bytes) {
  static_assert(kPayloadBytes % 8 == 0);
  constexpr size_t kWords = kPayloadBytes / 8;
  constexpr size_t kBlockBytes = sizeof scale + kPayloadBytes;
  std::byte* out = bytes.data();
  uint64_t index = first_block * kWords;
  for (size_t left = bytes.size() / kBlockBytes; left > 0; --left) {
    std::memcpy(out, &scale, sizeof scale);
    out += sizeof scale;
    for (size_t i = 0; i < kWords; ++i) {
      const uint64_t word = RandomAt(seed, index++);
      std::memcpy(out, &word, sizeof word);
      out += sizeof word;
    }
  }
}

// Half-precision numbers with random sign, 10 random bits of fraction and 4 neighbouring exponents.
void FillHalf(double deviation, uint64_t seed, uint64_t first_element, std::span<std::byte> bytes) {
  // Over exponents e..e+3 the root mean square is 2^e * sqrt((1 + 4 + 16 + 64) / 4 * 7 / 3).
  const double lowest = std::round(std::log2(deviation / 7.04));
  const auto exponent = static_cast<uint64_t>(std::clamp(lowest + 15.0, 1.0, 26.0));
  const uint64_t base = (exponent << 10U) * 0x0001'0001'0001'0001U;
  CHECK(first_element % 4 == 0 && bytes.size() % 8 == 0);
  uint64_t index = first_element / 4;
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t random = RandomAt(seed, index++);
    const uint64_t word = (random & 0x8fff'8fff'8fff'8fffU) + base;
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

void FillFloat(double deviation, uint64_t seed, uint64_t first_element,
               std::span<std::byte> bytes) {
  // Evenly from +-deviation * sqrt(3).
  const double width = deviation * 2.0 * std::sqrt(3.0);
  for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
    const double fraction =
        static_cast<double>(RandomAt(seed, first_element + i) >> 11U) * 0x1p-53 - 0.5;
    const auto value = static_cast<float>(fraction * width);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace

bool CanFill(uint32_t type) {
  return type == kTypeF32 || type == kTypeF16 || type == kTypeQ4_0 || type == kTypeQ8_0;
}

uint16_t HalfFromFloat(float value) {
  const bool negative = std::signbit(value);
  const float magnitude = std::fabs(value);
  // The spacing of half-precision numbers around `magnitude`, at least that of the subnormals.
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = fraction * 2^exponent, fraction in [0.5, 1)
  exponent = magnitude == 0.0F ? -13 : std::max(exponent, -13);
  const float steps = std::nearbyint(std::ldexp(magnitude, 11 - exponent));
  // `steps` counts in units of 2^(exponent - 11): 1024 to 2048 for normal numbers, fewer below; a
  // carry into the next exponent comes out right by itself.
  const auto bits = static_cast<uint32_t>(exponent + 13) * 1024U + static_cast<uint32_t>(steps);
  return static_cast<uint16_t>(bits | (negative ? 0x8000U : 0U));
}

void FillRandom(uint32_t type, double deviation, uint64_t seed, int64_t first_block,
                std::span<std::byte> bytes) {
  CHECK(CanFill(type));
  const auto first = static_cast<uint64_t>(first_block);
  switch (type) {
    case kTypeQ4_0:
      return FillScaled<16>(HalfFromFloat(static_cast<float>(deviation / kNibbleDeviation)), seed,
                            first, bytes);
    case kTypeQ8_0:
      return FillScaled<32>(HalfFromFloat(static_cast<float>(deviation / kByteDeviation)), seed,
                            first, bytes);
    case kTypeF16:
      return FillHalf(deviation, seed, first, bytes);
    default:
      return FillFloat(deviation, seed, first, bytes);
  }
}

}  // namespace rouse::gguf
