// A run as Go benchmark lines, the input of `benchstat` (golang.org/x/perf/cmd/benchstat): one line
// per success, so that benchstat makes its own medians and intervals over them.
#pragma once

#include <span>
#include <string>

#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

// "BenchmarkTTFT/condition=page_cache_cold 1 263000000 ns/op 97000000 weights-ns/op ...". The
// format has no failures: a comment line says how many were left out, per condition. Names keep
// letters, digits and dots; two that become the same are told apart by a number.
std::string BenchstatText(const results::Run& run, std::span<const results::Attempt> attempts);

}  // namespace rouse::report
