// Rows of the store <-> structs: the SQL of runs and attempts. No opening, no transactions (that is
// store.cc). For this folder only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "results/attempt.h"
#include "results/run.h"
#include "results/sqlite.h"
#include "results/store.h"

namespace rouse::results {

// The run's row; returns its new number.
Result<int64_t> InsertRunRow(Database& database, const Run& run);
Status UpdateRunRow(Database& database, int64_t id, const Run& run);
// Environment, conditions, hypotheses, calibration: replaces what is there.
Status ReplaceRunParts(Database& database, int64_t id, const Run& run);
Result<Run> ReadRun(Database& database, int64_t id);

// Replaces the run's one row.
Status WriteProgress(Database& database, int64_t id, const RunProgress& progress);
Result<std::optional<RunProgress>> ReadProgress(Database& database, int64_t id);

// The attempt's row with `*attempt.run` and `*attempt.id`, and its child rows.
Status InsertAttempt(Database& database, const Attempt& attempt);
Result<std::vector<Attempt>> ReadAttempts(Database& database, int64_t run, Detail detail);
Result<std::vector<Attempt>> ReadLastAttempts(Database& database, int64_t run, int64_t count);

}  // namespace rouse::results
