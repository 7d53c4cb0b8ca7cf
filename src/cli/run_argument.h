// How commands name stored runs: "3", "last", "3:warm" (a condition), "3#17" (an attempt).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "results/store.h"

namespace rouse::cli {

struct RunArgument {
  int64_t run = 0;
  std::optional<std::string> condition;
  std::optional<int64_t> attempt;
};

// "" and "last" mean the latest run of the store. kUsage for what is no such name; whether the run
// is there is found out by loading it.
Result<RunArgument> ParseRunArgument(const std::string& text, results::Store& store);

}  // namespace rouse::cli
