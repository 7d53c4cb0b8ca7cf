// The one-layer contrast that would settle what is left, as a command to paste. For this folder.
#pragma once

#include <span>
#include <string>

#include "explain/explain.h"

namespace rouse::explain {

// The contrast that isolates `layer` on the run's target; `idle_ns` for the layer "idle".
NextStep IsolateLayer(const results::Run& run, const std::string& layer, double idle_ns,
                      const std::string& why);

// For an attempt: what its first claim names; without one, more attempts of the same.
NextStep NextAfterAttempt(const results::Run& run, const AttemptExplanation& explanation,
                          std::span<const Contrast> contrasts);

// For a run: a contrast that is undecided, else a layer that no contrast changed, else idle times.
NextStep NextAfterRun(const results::Run& run, std::span<const Contrast> contrasts);

}  // namespace rouse::explain
