// What lab/states.h says in words: why a state was not reached, and the line that salts a prompt.
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <variant>

#include "lab/states.h"

namespace rouse::lab {

using results::LayerReadings;

namespace {

std::string Percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", ratio * 100);
  return text.data();
}

}  // namespace

std::string WhyNotReached(const LayerReadings& readings) {
  for (const auto& [layer, reading] : readings) {
    if (reading.reached.value_or(true)) continue;
    std::string why = layer + ": wanted " + reading.wanted;
    if (const auto* const share = std::get_if<double>(&reading.value)) {
      why += ", read " + Percent(*share);
    } else if (const auto* const word = std::get_if<std::string>(&reading.value)) {
      why += ", read " + *word;
    }
    if (!reading.proof.empty()) why += " (" + reading.proof + ")";
    if (!reading.detail.empty()) why += ": " + reading.detail;
    return why;
  }
  return "";
}

std::string SaltText(uint64_t salt) {
  // The digits come first, so that as little as possible precedes them. Tokenizers split digits one
  // by one or in threes, so every salt costs the same number of tokens.
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%012llu is the number of this session.",
                static_cast<unsigned long long>(salt % kSalts));
  return text.data();
}

std::string StripJson(const std::vector<double>& parts) {
  std::string out;
  for (const double share : parts) {
    std::array<char, 16> digits{};
    std::snprintf(digits.data(), digits.size(), "%.3g", std::round(share * 1000) / 1000);
    out += (out.empty() ? "[" : ",") + std::string(digits.data());
  }
  return out.empty() ? out : out + "]";
}

}  // namespace rouse::lab
