// Writes a report's file (--html, --trace, --prometheus): all of it or none. For this folder only.
#pragma once

#include <string>

#include "base/result.h"

namespace rouse::cli {

// An error in `text` comes through. A file that is there is replaced only by a complete one; a link
// stays, and the file that it names is replaced. What is no plain file (/dev/stdout, a pipe) is
// written to.
Status WriteWholeFile(const std::string& path, const Result<std::string>& text);

// Whether it could be written now, for work that ends in a file: said before it is begun. What is
// there stays as it is.
Status CheckWholeFile(const std::string& path);

}  // namespace rouse::cli
