// The metric catalogue: one row per metric that an attempt can have. docs/metrics.md has one
// section per row (a test holds the two equal). To add a metric: one row in metrics.cc, one section
// there, and its reader.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/attempt.h"

namespace rouse::results {

enum class MetricKind { kInteger, kRatio };

// Where in an attempt a metric's value lives.
enum class MetricHome { kAttempt, kMark, kStage, kTokens, kStream, kCounter, kState };
std::string_view MetricHomeName(MetricHome home);

struct Metric {
  std::string_view name;  // subject_unit
  std::string_view unit;  // "ns", "us", "bytes", "count", "tokens", "ratio", "hz", ...
  MetricKind kind;
  MetricHome home;
  std::string_view summary;  // one line; the whole definition is the section of docs/metrics.md
};

std::span<const Metric> Metrics();

// By its name, or by the name without its unit ("ttft" -> ttft_ns); nullptr when unknown.
const Metric* FindMetric(std::string_view name);

// Every name that FindMetric takes, for "did you mean".
std::vector<std::string_view> MetricNames();

// The attempt's value, empty when it was not measured. Times are in ns as doubles: exact up to
// 104 days. A counter needs attempts that were loaded with Detail::kAll.
std::optional<double> MetricOf(const Attempt& attempt, const Metric& metric);

// The longest that this attempt is known to have taken or waited: its end mark, else the TTFT.
std::optional<double> LongestWait(const Attempt& attempt);

}  // namespace rouse::results
