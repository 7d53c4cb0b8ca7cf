#include "cli/measure_out.h"

#include <filesystem>
#include <system_error>

#include "cli/whole_file.h"
#include "report/csv.h"
#include "report/json.h"
#include "report/trace.h"

namespace rouse::cli {

Status MakeRunFolder(const std::string& directory) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (!failed) return {};
  return Error(ErrorCode::kIo, "--out: cannot make " + directory + ": " + failed.message());
}

Status WriteRunFolder(const std::string& directory, const results::Run& run,
                      const std::vector<results::Attempt>& attempts) {
  RETURN_IF_ERROR(MakeRunFolder(directory));
  const auto path = [&](const char* name) {
    return (std::filesystem::path(directory) / name).string();
  };
  RETURN_IF_ERROR(WriteWholeFile(path("plan.toml"), run.plan_toml));
  RETURN_IF_ERROR(
      WriteWholeFile(path("report.json"), report::ReportJson(run, attempts, true) + "\n"));
  RETURN_IF_ERROR(WriteWholeFile(path("attempts.csv"), report::AttemptsCsv(attempts)));
  return WriteWholeFile(path("trace.json"), report::TraceJson(attempts));
}

}  // namespace rouse::cli
