// The FILE of state, warm, evict and pin: a path, or the name of a model that `rouse models` lists.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rouse::cli {

// The files that the argument stands for: one, or all parts of a split model. A path that exists is
// taken as it is, whatever is in it; anything else is a model's name.
Result<std::vector<std::string>> FilesOfArgument(const std::string& argument);

// "FILE" for one file, "FILE and 2 more parts" for a split model.
std::string DescribeFiles(const std::vector<std::string>& files);

}  // namespace rouse::cli
