#include "cli/run_argument.h"

#include <string_view>

#include "base/strings.h"

namespace rouse::cli {

Result<RunArgument> ParseRunArgument(const std::string& text, results::Store& store) {
  RunArgument argument;
  std::string_view run = text;
  // A condition's name may hold any character, so the first separator is the one that counts.
  const size_t separator = run.find_first_of(":#");
  if (separator != std::string_view::npos) {
    const std::string_view rest = run.substr(separator + 1);
    if (run[separator] == ':') {
      argument.condition = rest;
    } else {
      argument.attempt = ParseInt64(rest);
      if (!argument.attempt) {
        return Error(ErrorCode::kUsage, "\"" + text + "\" must end in the number of an attempt");
      }
    }
    run = run.substr(0, separator);
  }
  if (run.empty() || run == "last") {
    ASSIGN_OR_RETURN(argument.run, store.LatestRun());
    return argument;
  }
  const std::optional<int64_t> number = ParseInt64(run);
  if (!number || *number < 1) {
    return Error(ErrorCode::kUsage, "\"" + std::string(run) +
                                        "\" is no run: give its number, or last (rouse list "
                                        "shows them)");
  }
  argument.run = *number;
  return argument;
}

}  // namespace rouse::cli
