// An attempt as JSON text in the shape `rouse.attempt/1` (docs/results_format.md), and back.
// A value that was not measured is null, never 0. Text in, text out: no JSON library type shows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "results/attempt.h"

namespace rouse::results {

// One line, without a newline at its end. All fields of the schema are there, also when null.
// Bytes that are not UTF-8 (a server may send any) come out as U+FFFD.
std::string AttemptJson(const Attempt& attempt);

enum class ParseFor {
  kReading,  // our own output: negative values are kept (they are bugs to be seen, not to be lost)
  kImport,   // foreign: `condition`, `outcome` and, when that is ok, `ttft_ns` are required;
             // negative numbers are refused
};

// The attempt that one JSON object describes. Everything that is absent is "not measured". Refused
// (kUsage, naming the field): what is not one JSON object, a wrong type, a fraction where whole
// numbers are asked for, an unknown outcome, stage, source or channel, a number that is not
// finite, nesting deeper than 64. A top-level field that the schema lacks is kept verbatim in
// `extra_json` and comes out again; unknown members of inner objects are dropped.
Result<Attempt> ParseAttempt(std::string_view json, ParseFor purpose);

// The names of the fields in `extra_json`, for a remark to the user.
std::vector<std::string> ExtraFields(const Attempt& attempt);

}  // namespace rouse::results
