// Writes a report page for --html: the whole file or none. For this folder only.
#pragma once

#include <string>

#include "base/result.h"

namespace rouse::cli {

// `html` as report::PageHtml gave it; its error comes through. A file that is there is replaced
// only by a complete one.
Status WriteHtmlFile(const std::string& path, const Result<std::string>& html);

}  // namespace rouse::cli
