// Attempts as CSV (RFC 4180, with a header line), one row each, primes included and marked. An
// empty cell is "not measured".
#pragma once

#include <span>
#include <string>

#include "results/attempt.h"

namespace rouse::report {

// Columns: what identifies the attempt, every metric of the catalogue in its order, then counters
// that only an import knows, by name.
std::string AttemptsCsv(std::span<const results::Attempt> attempts);

}  // namespace rouse::report
