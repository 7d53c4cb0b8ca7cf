// How far a running run is, as `rouse list --follow` and `rouse ui` tell it: from the database and
// /proc alone, nothing is asked of the tool that measures or of its server. For this folder only.
#pragma once

#include <string>

#include "results/run.h"

namespace rouse::cli {

// Whether the process that measures is of this boot and still there.
bool IsAlive(const results::RunProgress& progress);

// {"alive", "done", "total", "condition", "doing", "position", "until_wall_ns", "updated_wall_ns",
// "eta_ns"}; what is not known is null.
std::string ProgressJson(const results::RunProgress& progress);

}  // namespace rouse::cli
