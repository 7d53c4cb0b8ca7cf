// The layer compile_cache as it is read back: bytes below the server's directory, before the
// request and after it. Setting it is in lab/states.cc.
#pragma once

#include "lab/states.h"
#include "results/attempt.h"

namespace rouse::lab {

// Adds the layer's reading, of a target that has such a directory. `before` the request it is
// judged; afterwards it is what the request has left there.
void AddCompileCache(StateContext& context, const Condition& condition, bool before,
                     results::LayerReadings& readings);

// After the request: a "kept" cache that was empty, and is filled now, was no kept one, for the
// request has compiled. The unmeasured first attempt is there to do that, and is not judged.
void JudgeKeptCompileCache(const Preparation& preparation, const results::Attempt& attempt,
                           results::LayerReadings& readings);

}  // namespace rouse::lab
