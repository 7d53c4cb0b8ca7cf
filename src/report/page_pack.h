// Text as base64 of gzip: how the page carries what it needs only when somebody asks for it. For
// this folder only.
#pragma once

#include <string>
#include <string_view>

namespace rouse::report {

std::string GzipBase64(std::string_view text);

}  // namespace rouse::report
