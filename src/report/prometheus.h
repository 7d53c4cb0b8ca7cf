// A run as a Prometheus text file (exposition format 0.0.4), for node_exporter's textfile collector
// or for a push: medians, percentiles and outcomes per condition. Not a history: one run, the one
// that was asked for.
#pragma once

#include <span>
#include <string>

#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

// Times are in seconds, as is the custom there. What the sample does not support is absent; a value
// that falls among failures is absent as well, and rouse_attempts{outcome=...} tells of them.
std::string PrometheusText(const results::Run& run, std::span<const results::Attempt> attempts);

}  // namespace rouse::report
