// Numbers and verdicts as sentences, shared by the JSON and the terminal. For this folder only.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/comparison.h"
#include "report/sample.h"
#include "stats/contrast.h"

namespace rouse::report {

// "24.1 ms", "98.4 MB", "17", with a minus where it is negative, "infinite" where it is that.
std::string MetricWords(double value, const results::Metric& metric);
// The same with a plus in front of what is above 0.
std::string SignedWords(double value, const results::Metric& metric);
// "-6.2 %" for a ratio of 0.938.
std::string PercentChange(double ratio);
// Shortest decimal that reads back.
std::string PlainNumber(double value);

// "9 ok, 1 timeout"
std::string OutcomeWords(const ConditionAttempts& condition);
std::string OutcomeWords(const std::map<results::Outcome, int64_t>& outcomes);

// Why the verdict is what it is, without guards. Needs a margin.
std::string ReasonOf(const Comparison& comparison, const std::optional<stats::Interval>& interval);
// How many attempts, or which margin, would make it another one.
std::string WouldChange(const Comparison& comparison,
                        const std::optional<stats::Interval>& interval);

// Commands to paste, one a line, never cut or broken; what each is for stands behind it where
// `columns` allow.
std::string StepLines(const std::vector<std::pair<std::string, std::string>>& steps, int columns);

}  // namespace rouse::report
