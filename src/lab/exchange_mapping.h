// From what the wire client saw (wire/exchange.h) to the facts of an attempt (results/attempt.h):
// outcome, marks relative to the intended send time, tokens, stream, connection, warnings. Stages,
// states and all counters but the client's own are the lab's.
#pragma once

#include "results/attempt.h"
#include "wire/exchange.h"

namespace rouse::lab {

// Overwrites those fields of `attempt`; warnings and null reasons are added to those it has.
void StoreExchange(const wire::Exchange& exchange, results::Attempt& attempt);

}  // namespace rouse::lab
