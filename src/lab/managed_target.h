// Targets that run already and are given by their address: a bare URL, and servers whose control
// endpoints are documented (llama-server, Ollama, llama-swap, vLLM). rouse neither starts nor ends
// them; it sends them control requests only where a state needs one, and none between the idle time
// and the request. Their processes, when they run on this machine and may be seen, are found by the
// port that they listen on.
#pragma once

#include <memory>

#include "base/result.h"
#include "lab/target.h"

namespace rouse::lab {

// kUsage for a URL that cannot be parsed. Sends nothing.
Result<std::unique_ptr<Target>> MakeManagedTarget(const TargetSpec& spec);

}  // namespace rouse::lab
