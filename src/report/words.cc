#include "report/words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/terminal_text.h"
#include "base/units.h"

namespace rouse::report {
namespace {

using stats::Expect;
using stats::Interval;
using stats::Verdict;

std::string Decimal(double value, int digits) {
  char buffer[64];
  const int length = std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return {buffer, static_cast<size_t>(length)};
}

std::string Range(const Interval& interval, const results::Metric& metric) {
  return SignedWords(interval.low, metric) + " ... " + SignedWords(interval.high, metric);
}

std::string CountWords(int64_t count, bool paired) {
  return std::to_string(count) + (paired ? " pairs" : " attempts on each side");
}

// The bounds at which the verdict depends on the interval: -m, +m or both.
std::vector<double> Boundaries(Expect expect, double margin) {
  if (expect == Expect::kDecrease) return {-margin};
  if (expect == Expect::kIncrease) return {margin};
  return {-margin, margin};
}

// The fewest attempts for which every bound that the interval straddles would be left behind.
std::optional<int64_t> NeededAttempts(const Comparison& comparison, const Interval& interval) {
  const stats::Shift& shift = comparison.shift;
  const int64_t n = std::min(shift.n_treatment, shift.n_control);
  int64_t needed = 0;
  for (const double boundary : Boundaries(*comparison.spec.expect, *comparison.margin)) {
    if (boundary < interval.low || boundary > interval.high) continue;
    const double bound = boundary < *shift.value ? interval.low : interval.high;
    const auto one = stats::NeededN(n, *shift.value, bound, boundary);
    if (!one) return std::nullopt;
    needed = std::max(needed, *one);
  }
  return needed == 0 ? std::nullopt : std::optional<int64_t>(needed);
}

struct Flip {
  std::optional<double> adopt_up_to;   // adopted at margins up to this
  std::optional<double> adopt_from;    // adopted at margins from this on
  std::optional<double> reject_above;  // rejected at margins above this
  std::optional<double> reject_below;  // rejected at margins below this
};

Flip FlipsOf(Expect expect, const Interval& interval) {
  const auto positive = [](double value) {
    return value > 0 && std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
  };
  Flip flip;
  switch (expect) {
    case Expect::kDecrease:
      flip.adopt_up_to = positive(-interval.high);
      flip.reject_above = positive(-interval.low);
      break;
    case Expect::kIncrease:
      flip.adopt_up_to = positive(interval.low);
      flip.reject_above = positive(interval.high);
      break;
    case Expect::kEqual:
      flip.adopt_from = positive(std::max(std::abs(interval.low), std::abs(interval.high)));
      flip.reject_below = positive(std::max(interval.low, -interval.high));
      break;
  }
  return flip;
}

std::string FlipWords(const Comparison& comparison, const Interval& interval) {
  const Flip flip = FlipsOf(*comparison.spec.expect, interval);
  const Verdict verdict = *comparison.verdict;
  const auto words = [&](double margin) { return MetricWords(margin, *comparison.metric); };
  std::string text;
  const auto add = [&text](const std::string& sentence) {
    text += (text.empty() ? "" : " ") + sentence;
  };
  if (verdict != Verdict::kAdopt) {
    if (flip.adopt_up_to) {
      add("At a margin of " + words(*flip.adopt_up_to) + " or less it would be an adopt.");
    }
    if (flip.adopt_from) {
      add("At a margin of " + words(*flip.adopt_from) + " or more it would be an adopt.");
    }
  } else if (flip.adopt_up_to || flip.adopt_from) {
    add("At a margin " + std::string(flip.adopt_up_to ? "above " : "below ") +
        words(flip.adopt_up_to ? *flip.adopt_up_to : *flip.adopt_from) +
        " it would no longer be an adopt.");
  }
  if (verdict != Verdict::kReject) {
    if (flip.reject_above) {
      add("At a margin above " + words(*flip.reject_above) + " it would be a reject.");
    }
    if (flip.reject_below) {
      add("At a margin below " + words(*flip.reject_below) + " it would be a reject.");
    }
  } else if (flip.reject_above || flip.reject_below) {
    add("At a margin of " + words(flip.reject_above ? *flip.reject_above : *flip.reject_below) +
        (flip.reject_above ? " or less" : " or more") + " it would no longer be a reject.");
  }
  return text;
}

}  // namespace

std::string PlainNumber(double value) {
  char buffer[64];
  const auto [end, code] = std::to_chars(buffer, buffer + sizeof buffer, value);
  CHECK(code == std::errc());
  return {buffer, end};
}

std::string MetricWords(double value, const results::Metric& metric) {
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  if (value < 0) return "-" + MetricWords(-value, metric);
  if (metric.unit == "ns") return FormatDuration(std::llround(value));
  if (metric.unit == "us") return FormatDuration(std::llround(value * 1000));
  if (metric.unit == "bytes") return FormatBytes(std::llround(value));
  if (metric.kind == results::MetricKind::kRatio) return Decimal(value, 3);
  return PlainNumber(value) + (metric.unit == "count" ? "" : " " + std::string(metric.unit));
}

std::string SignedWords(double value, const results::Metric& metric) {
  return (value > 0 ? "+" : "") + MetricWords(value, metric);
}

std::string PercentChange(double ratio) {
  if (std::isinf(ratio)) return "+infinite";
  const double percent = 100 * (ratio - 1);
  return (percent > 0 ? "+" : "") + Decimal(percent, std::abs(percent) < 100 ? 1 : 0) + " %";
}

std::string StepLines(const std::vector<std::pair<std::string, std::string>>& steps, int columns) {
  int width = 0;
  for (const auto& [command, why] : steps) width = std::max(width, DisplayColumns(command));
  std::string out;
  for (const auto& [command, why] : steps) {
    const bool fits = 2 + width + 3 + DisplayColumns(why) <= columns;
    out += "  " + (fits ? PadRight(command, width + 3) + why : command) + "\n";
  }
  return out;
}

std::string OutcomeWords(const std::map<results::Outcome, int64_t>& outcomes) {
  std::string text;
  for (const auto& [outcome, count] : outcomes) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " +
            std::string(results::OutcomeName(outcome));
  }
  return text;
}

std::string OutcomeWords(const ConditionAttempts& condition) {
  return OutcomeWords(CountOutcomes(condition));
}

std::string ReasonOf(const Comparison& comparison, const std::optional<Interval>& interval) {
  if (!interval) return "no interval: " + comparison.shift.reason;
  const std::string range = "the interval " + Range(*interval, *comparison.metric);
  const std::string margin = MetricWords(*comparison.margin, *comparison.metric);
  const bool equal = *comparison.spec.expect == Expect::kEqual;
  const std::string bound =
      *comparison.spec.expect == Expect::kDecrease ? "-" + margin : "+" + margin;
  if (equal) {
    const std::string within = "-" + margin + " ... +" + margin;
    switch (*comparison.verdict) {
      case Verdict::kAdopt:
        return range + " lies wholly within " + within;
      case Verdict::kReject:
        return range + " lies wholly outside " + within;
      case Verdict::kUndecided:
        return range + " lies partly within " + within;
    }
  }
  const bool decrease = *comparison.spec.expect == Expect::kDecrease;
  switch (*comparison.verdict) {
    case Verdict::kAdopt:
      return range + " lies wholly at or " + (decrease ? "below " : "above ") + bound;
    case Verdict::kReject:
      return range + " lies wholly " + (decrease ? "above " : "below ") + bound;
    case Verdict::kUndecided:
      return range + " straddles " + bound;
  }
  return {};
}

std::string WouldChange(const Comparison& comparison, const std::optional<Interval>& interval) {
  if (!interval) return "More attempts: " + comparison.shift.reason + ".";
  std::string text;
  if (*comparison.verdict == Verdict::kUndecided) {
    const auto needed = NeededAttempts(comparison, *interval);
    text = needed ? "About " + CountWords(*needed, comparison.shift.paired) +
                        " would decide if the effect is what it looks like."
                  : "More attempts alone would hardly decide: the estimate lies too near to the "
                    "margin, or failures leave the interval open.";
  }
  const std::string flips = FlipWords(comparison, *interval);
  if (!flips.empty()) text += (text.empty() ? "" : " ") + flips;
  if (text.empty()) text = "No margin would: the interval lies wholly on the other side of 0.";
  return text;
}

}  // namespace rouse::report
