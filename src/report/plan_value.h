// One value of a stored plan, which was checked when it ran. For this folder only: what a plan
// means is lab/plan.h's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rouse::report {

// The text of `path` ("experiment.prompt"), or its whole number in decimal. Empty when the plan
// does not have it (its default holds then) and for a text that is no TOML.
std::optional<std::string> PlanValue(std::string_view plan_toml, std::string_view path);

}  // namespace rouse::report
