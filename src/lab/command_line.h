// A command as it stands in a plan or after `cmd:`, split into words without a shell: blanks
// separate, '...' and "..." keep, a backslash keeps the next character (not inside '...').
// No variables, globs, pipes or redirections: what stands there is what is executed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rouse::lab {

// kUsage for an open quote, a trailing backslash, or no word at all.
Result<std::vector<std::string>> SplitCommand(std::string_view text);

std::string ReplaceAll(std::string text, std::string_view from, std::string_view to);

}  // namespace rouse::lab
