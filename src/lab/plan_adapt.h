// A preset on the target that it is run on: conditions that this target cannot be brought into are
// left out with the reason, decided by the table of targets (lab/targets.h) and by what this
// machine permits; never silently.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/plan.h"

namespace rouse::lab {

struct LeftOut {
  std::string name;  // of the condition or hypothesis
  bool hypothesis = false;
  std::string reason;
};

struct AdaptedPlan {
  Plan plan;
  std::vector<LeftOut> left_out;
};

// The preset with the command line's changes. A condition whose base is left out stands on the base
// below that, with its own change where that is possible, else with its whole state (compound).
// The plan's text begins with comments that name what was left out. kUsage when nothing is left,
// and as ApplyOverrides.
Result<AdaptedPlan> PlanFromPreset(const Preset& preset, const PlanOverrides& overrides);

// Leaves out what the plan's target cannot do; called by the above.
std::vector<LeftOut> AdaptToTarget(Plan& plan);

// "left out page cache cold: ..." line by line; "" when nothing was.
std::string LeftOutText(const std::vector<LeftOut>& left_out);

}  // namespace rouse::lab
