// What the client itself adds: the real wire client against a scripted null server inside the tool,
// whose stamps are on the same clock. The results are an error bar, and never subtracted.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "results/run.h"

namespace rouse::lab {

// One row for 1 stream and one for 64 concurrent streams: the time from the null server's stamp
// right before it writes a token to the client's mark of that token. Takes less than a second.
// Listens on a loopback port of its own; threads end before it returns.
Result<std::vector<results::CalibrationRow>> Calibrate();

// "Client overhead 31 us (p99 88 us); at 64 streams 45 us (p99 210 us)."
std::string CalibrationLine(const std::vector<results::CalibrationRow>& rows);

// A sentence when the client's own p99 at one stream exceeds the smallest margin that a hypothesis
// gives as a time (one given in percent is known only afterwards); else "".
std::string JitterWarning(const std::vector<results::CalibrationRow>& rows,
                          const std::vector<results::HypothesisRow>& hypotheses);

}  // namespace rouse::lab
