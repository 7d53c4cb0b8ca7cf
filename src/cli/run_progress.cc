#include "cli/run_progress.h"

#include <nlohmann/json.hpp>

#include "lab/resume.h"
#include "os/boot.h"

namespace rouse::cli {

bool IsAlive(const results::RunProgress& progress) {
  const Result<os::Boot> boot = os::ReadBoot(os::ProcRoot::Real());
  return boot.ok() && lab::IsBeingMeasured(progress, boot->id.value_or(""));
}

std::string ProgressJson(const results::RunProgress& progress) {
  using Json = nlohmann::ordered_json;
  const Json now = {
      {"alive", IsAlive(progress)},
      {"done", progress.done},
      {"total", progress.total},
      {"condition", progress.condition},
      {"doing", progress.doing},
      {"position", progress.position ? Json(*progress.position) : Json()},
      {"until_wall_ns", progress.until_wall_ns ? Json(*progress.until_wall_ns) : Json()},
      {"updated_wall_ns", progress.updated_wall_ns},
      {"eta_ns", progress.eta_ns}};
  return now.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rouse::cli
