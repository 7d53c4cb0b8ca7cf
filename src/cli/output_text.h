// How commands write what they print: JSON that holds any bytes, and lines of foreign words (names
// of files, processes, models; what a server says) that do nothing to a terminal and fit into it.
// For this folder only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/common.h"

namespace rouse::cli {

// `json` as one line, or indented. Names of files may hold any bytes: what is no UTF-8 is U+FFFD.
template <typename Json>
std::string DumpJson(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// SafeText of each line: only the breaks between lines are obeyed.
std::string SafeLines(std::string_view text);

// Columns of stdout for text, at most 120.
int StdoutColumns(const CommonFlags& flags);

// "  LABEL       TEXT\n": the text begins after `label_columns`, and so do its further lines.
std::string Labelled(std::string_view label, std::string_view text, int label_columns, int columns);

// "FILE: TEXT\n" where that is one line; else the file has one of its own, unbroken at any length,
// so that it can be copied.
std::string Headed(std::string_view file, std::string_view text, int columns);

}  // namespace rouse::cli
