// The few string operations that the standard library lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rouse {

// "a,b,,c" at ',' -> {"a", "b", "", "c"}; the views point into `text`.
std::vector<std::string_view> SplitAt(std::string_view text, char separator);

// Without ASCII blanks (space, tab, CR, LF) at both ends.
std::string_view TrimBlanks(std::string_view text);

// ASCII only; other bytes stay.
std::string LowerAscii(std::string_view text);

// The whole of `text` as a decimal integer; nullopt for anything else, overflow included.
std::optional<int64_t> ParseInt64(std::string_view text);

// Whether `text` is well-formed UTF-8 (no surrogates, no overlong forms).
bool IsValidUtf8(std::string_view text);

}  // namespace rouse
