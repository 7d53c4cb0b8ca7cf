// A comparison as a person reads it in a terminal: the verdict first. Returns text.
#pragma once

#include <string>

#include "report/comparison.h"
#include "report/terminal.h"

namespace rouse::report {

std::string ComparisonText(const Comparison& comparison, const TerminalOptions& options);

}  // namespace rouse::report
