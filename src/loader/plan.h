// What to read first: byte ranges of a model file in the order in which a first token needs them.
// Pure; looks at no disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/header.h"

namespace rouse::loader {

struct PlanStep {
  std::string group;  // "header", "embedding", "blk.0", ...
  std::vector<gguf::FileRange> ranges;
  int64_t bytes = 0;
};

// Header, then the groups in graph order; every byte of the file that holds something is in exactly
// one step.
std::vector<PlanStep> GraphOrderPlan(const gguf::Header& header);

// The ranges of a plan's leading part: whole and partial steps until `fraction` (0 to 1) of the
// plan's bytes are covered, merged and sorted by offset.
std::vector<gguf::FileRange> LeadingRanges(const std::vector<PlanStep>& plan, double fraction);

// The leading `fraction` of a file of `file_bytes` as it lies on disk, rounded up to a page.
std::vector<gguf::FileRange> LeadingBytes(int64_t file_bytes, double fraction);

}  // namespace rouse::loader
