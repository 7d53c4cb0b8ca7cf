// Attempts as a trace for a timeline viewer (the JSON of Chrome's trace events, which Perfetto and
// about:tracing open): a process per attempt, with rows for the client's waits, the request's
// segments and each background lane. All intended sends are at one time, late enough that nothing
// has a negative one ("otherData" says when).
#pragma once

#include <span>
#include <string>

#include "results/attempt.h"

namespace rouse::report {

std::string TraceJson(std::span<const results::Attempt> attempts);

}  // namespace rouse::report
