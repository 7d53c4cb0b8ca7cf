// Signs that a number does not mean what it seems to mean: each has a code, a sentence that says
// what was seen, and advice. Pure; looks at the finished exchange only.
#pragma once

#include "wire/exchange.h"

namespace rouse::wire {

// Appends a warning for each fault and each suspicious pattern of `exchange`. Called once, by the
// builder, when the outcome stands.
void AddWarnings(Exchange& exchange);

}  // namespace rouse::wire
