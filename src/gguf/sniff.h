// What a file that is no GGUF file looks like, for an error that helps. Guesses by the well-known
// first bytes; decides nothing.
#pragma once

#include <string>
#include <string_view>

namespace rouse::gguf {

// A phrase such as "an HTML page (a download that went wrong?)", from a file's first bytes (512 are
// enough). Never empty.
std::string DescribeForeignFile(std::string_view first_bytes);

}  // namespace rouse::gguf
