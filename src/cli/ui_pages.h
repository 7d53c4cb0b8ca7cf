// The list page of `rouse ui`, as CMake embeds it from src/cli/ui/. For this folder only.
#pragma once

#include <string_view>

namespace rouse::cli {

std::string_view UiListHtml();
std::string_view UiListCss();
std::string_view UiListJs();

}  // namespace rouse::cli
