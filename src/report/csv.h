// Attempts as CSV (RFC 4180, with a header line). An empty cell is "not measured". Tidy tables: one
// row per attempt, or in long form one per attempt and stage, counter or state.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "results/attempt.h"

namespace rouse::report {

enum class CsvTable { kAttempts, kStages, kCounters, kStates };
std::optional<CsvTable> CsvTableFromName(std::string_view name);  // "attempts", "stages", ...

// Primes are included and marked. kAttempts: what identifies the attempt, every metric of the
// catalogue in its order, then counters that only an import knows, by name. The long ones begin
// with run, id, condition, block, prime, outcome and ttft_ns; an attempt has all nine stages, the
// counters and states that were stored.
std::string AttemptsCsv(std::span<const results::Attempt> attempts,
                        CsvTable table = CsvTable::kAttempts);

}  // namespace rouse::report
