// Single requests out of the files of other load tools: vLLM's benchmark result, AIPerf's and
// GuideLLM's records, llama-bench's JSON, the lines of `ollama run --verbose`. Text in, attempts
// out; nothing is guessed: a time that a tool does not have stays empty, with the reason, and a
// file that holds only means is refused. docs/import.md says what each can support.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "results/attempt.h"

namespace rouse::results {

enum class ForeignFormat { kVllm, kAiperf, kGuidellm, kLlamaBench, kOllamaVerbose };

std::string_view ForeignFormatName(ForeignFormat format);  // "vllm", "aiperf", ...
std::optional<ForeignFormat> ForeignFormatFromName(std::string_view name);
std::vector<std::string_view> ForeignFormatNames();

// By what stands in the text; empty for everything else, our own attempts included.
std::optional<ForeignFormat> DetectForeignFormat(std::string_view text);

struct ForeignAttempts {
  std::vector<Attempt> attempts;     // in the order of the file; blocks are not set: unpaired
  std::vector<std::string> remarks;  // what the format cannot support, and what was left out
};

// kUsage: not that format, or no single request in it (only means), with the flag of that tool that
// would store them. `condition` names all attempts, or "" for names from the file itself.
Result<ForeignAttempts> ParseForeign(ForeignFormat format, std::string_view text,
                                     const std::string& condition);

}  // namespace rouse::results
