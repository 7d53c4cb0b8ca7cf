// UTF-8 as the HTML standard decodes a stream: what is not well-formed becomes U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace rouse::wire {

// `text` with each ill-formed sequence replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// The longest prefix of at most `limit_bytes` that does not end inside a character.
std::string_view Utf8Prefix(std::string_view text, size_t limit_bytes);

}  // namespace rouse::wire
