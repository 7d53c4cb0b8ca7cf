// A comparison as a person reads it in a terminal: the verdict first. Returns text.
#pragma once

#include <string>

#include "report/comparison.h"

namespace rouse::report {

std::string ComparisonText(const Comparison& comparison, bool color);

}  // namespace rouse::report
