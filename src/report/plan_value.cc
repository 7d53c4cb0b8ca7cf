#include "report/plan_value.h"

#include <toml++/toml.h>

namespace rouse::report {

std::optional<std::string> PlanValue(std::string_view plan_toml, std::string_view path) {
  try {
    const toml::table plan = toml::parse(plan_toml);
    const toml::node_view<const toml::node> value = plan.at_path(path);
    if (const auto number = value.value<int64_t>(); value.is_integer() && number) {
      return std::to_string(*number);
    }
    return value.value<std::string>();
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace rouse::report
