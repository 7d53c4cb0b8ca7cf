// Impossible values are bugs, not data (docs/method.md section 6): each gets a code and a sentence
// in the attempt's warnings; no value is changed or removed. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "lab/plan.h"
#include "results/attempt.h"

namespace rouse::lab {

// `file_bytes`: size of the model file, where it is known; `tells_timeline`: the built-in server,
// whose timeline has to explain all but 2 % or 1 ms of the TTFT.
void FlagImpossibleValues(const Condition& condition, std::optional<int64_t> file_bytes,
                          bool tells_timeline, results::Attempt& attempt);

}  // namespace rouse::lab
