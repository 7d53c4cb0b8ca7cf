#include "base/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"

namespace rouse {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kDurationUnits[] = {{"ns", 1},   {"us", 1e3},   {"ms", 1e6},   {"s", 1e9},
                                   {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}};

constexpr Unit kByteUnits[] = {{"", 1},
                               {"B", 1},
                               {"KB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"KiB", 1024},
                               {"MiB", 1048576},
                               {"GiB", 1073741824},
                               {"TiB", 1099511627776},
                               {"k", 1024},
                               {"m", 1048576},
                               {"g", 1073741824},
                               {"K", 1024},
                               {"M", 1048576},
                               {"G", 1073741824}};

Result<int64_t> ParseQuantity(std::string_view text, std::span<const Unit> units,
                              std::string_view example) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const auto fail = [&](std::string_view why) {
    return Error(ErrorCode::kUsage, "\"" + std::string(text) + "\" " + std::string(why) + " (" +
                                        std::string(example) + ")");
  };
  if (status != std::errc()) return fail("does not start with a number");
  if (!std::isfinite(number) || number < 0) return fail("is negative or not finite");
  std::string_view unit(rest, static_cast<size_t>(end - rest));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& candidate : units) {
    if (candidate.name != unit) continue;
    const double scaled = std::round(number * candidate.factor);
    if (scaled >= static_cast<double>(std::numeric_limits<int64_t>::max())) {
      return fail("is too large");
    }
    return static_cast<int64_t>(scaled);
  }
  return fail(unit.empty() ? "has no unit" : "has an unknown unit");
}

std::string Print(const char* format, double value, const char* unit) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, format, value, unit);
  return {text, static_cast<size_t>(length)};
}

// Three significant digits, without an exponent.
std::string ThreeDigits(double value, const char* unit) {
  const double size = std::fabs(value);
  if (size >= 99.95) return Print("%.0f %s", value, unit);
  if (size >= 9.995) return Print("%.1f %s", value, unit);
  return Print("%.2f %s", value, unit);
}

struct WholeUnits {
  int64_t number;
  std::string_view unit;
};

// In the largest unit that leaves no fraction.
WholeUnits InWholeUnits(int64_t ns) {
  constexpr std::array<std::pair<int64_t, std::string_view>, 5> kUnits = {{{3'600'000'000'000, "h"},
                                                                           {60'000'000'000, "min"},
                                                                           {1'000'000'000, "s"},
                                                                           {1'000'000, "ms"},
                                                                           {1'000, "us"}}};
  for (const auto& [unit_ns, unit] : kUnits) {
    if (ns >= unit_ns && ns % unit_ns == 0) return {ns / unit_ns, unit};
  }
  return ns == 0 ? WholeUnits{0, "s"} : WholeUnits{ns, "ns"};
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

Result<int64_t> ParseDuration(std::string_view text) {
  return ParseQuantity(text, kDurationUnits, "write for example 500ms, 10s, 1.5m or 8h");
}

Result<int64_t> ParseBytes(std::string_view text) {
  return ParseQuantity(text, kByteUnits, "write for example 65536, 512MiB or 4GB");
}

std::string FormatDuration(int64_t ns) {
  const auto value = static_cast<double>(ns);
  const double size = std::fabs(value);
  if (ns == 0) return "0 s";
  if (size < 1e3) return Print("%.0f %s", value, "ns");
  if (size < 999.5e3) return ThreeDigits(value / 1e3, "us");
  if (size < 999.5e6) return ThreeDigits(value / 1e6, "ms");
  if (size < 120e9) return ThreeDigits(value / 1e9, "s");
  const int64_t seconds = std::llround(value / 1e9);
  if (size < 3600e9) {
    return std::to_string(seconds / 60) + " min " + std::to_string(std::abs(seconds % 60)) + " s";
  }
  const int64_t minutes = std::llround(value / 60e9);
  return std::to_string(minutes / 60) + " h " + std::to_string(std::abs(minutes % 60)) + " min";
}

std::string FormatWrittenDuration(int64_t ns) {
  const auto [number, unit] = InWholeUnits(ns);
  return std::to_string(number) + " " + std::string(unit);
}

std::string WriteDuration(int64_t ns) {
  const auto [number, unit] = InWholeUnits(ns);
  return std::to_string(number) + std::string(unit);
}

std::string FormatCount(int64_t count, std::string_view singular) {
  return std::to_string(count) + " " + std::string(singular) + (count == 1 ? "" : "s");
}

std::string FormatBytes(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  const double size = std::fabs(value);
  if (size < 1e3) return Print("%.0f %s", value, "B");
  if (size < 999.5e3) return ThreeDigits(value / 1e3, "kB");
  if (size < 999.5e6) return ThreeDigits(value / 1e6, "MB");
  if (size < 999.5e9) return ThreeDigits(value / 1e9, "GB");
  return ThreeDigits(value / 1e12, "TB");
}

std::string NearestName(std::string_view text, const std::string_view* choices, size_t count) {
  // A name is "meant" when fewer than half of its letters differ, and at most three.
  const size_t limit = std::min<size_t>(3, std::max<size_t>(1, text.size() / 2));
  std::string_view best;
  size_t best_distance = limit + 1;
  for (size_t i = 0; i < count; ++i) {
    const size_t distance = EditDistance(text, choices[i]);
    if (distance < best_distance) {
      best_distance = distance;
      best = choices[i];
    }
  }
  return std::string(best);
}

}  // namespace rouse
