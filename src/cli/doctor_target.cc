#include "cli/doctor_target.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/strings.h"
#include "cli/state_url.h"
#include "lab/command_line.h"
#include "lab/targets.h"
#include "models/catalog.h"
#include "os/page_cache.h"
#include "os/proc_io.h"
#include "os/process.h"
#include "wire/url.h"

namespace rouse::cli {
namespace {

// By the rules of a plan, so that what doctor takes is what measure takes.
Result<lab::TargetSpec> ParseTarget(const std::string& text) {
  if (const std::optional<lab::TargetKind> kind = lab::TargetKindFromName(text)) {
    lab::TargetSpec spec;
    spec.kind = *kind;
    return spec;
  }
  lab::Plan plan;
  lab::PlanOverrides overrides;
  overrides.target = text;
  RETURN_IF_ERROR(lab::ApplyOverrides(overrides, plan));
  return plan.target;
}

bool IsThisMachine(const std::string& host) {
  return host == "127.0.0.1" || host == "localhost" || host == "::1";
}

Status LookAtUrl(DoctorTarget& target) {
  ASSIGN_OR_RETURN(const wire::Url url, wire::ParseUrl(target.spec.url));
  target.host = url.host;
  target.port = url.port;
  target.plain_http = !url.tls && url.unix_path.empty();
  target.on_this_machine = IsThisMachine(url.host) && url.port > 0;
  if (!target.on_this_machine) return {};
  target.pid = os::PidListeningOn(url.port);
  if (!target.pid) return {};
  const os::ProcRoot& root = os::ProcRoot::Real();
  const Result<std::string> comm = root.ReadOf(*target.pid, "comm");
  if (comm.ok()) target.comm = TrimBlanks(*comm);
  target.counters_readable = os::ReadProcIo(root, *target.pid).ok();
  const std::vector<int> tree = os::ProcessTree(*target.pid);
  target.mapped_models = MappedModelFiles(tree);
  if (target.model_file.empty()) return {};
  const Result<os::Mappers> mappers = os::FindMappers(root, target.model_file);
  if (!mappers.ok()) return {};
  for (const os::Mapper& mapper : mappers->mappers) {
    if (std::find(tree.begin(), tree.end(), mapper.pid) != tree.end())
      target.maps_model_file = true;
  }
  return {};
}

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* const path = std::getenv("PATH");
  for (const std::string_view folder : SplitAt(path == nullptr ? "" : path, ':')) {
    const std::string candidate = std::string(folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

Status LookAtCommand(DoctorTarget& target) {
  ASSIGN_OR_RETURN(const std::vector<std::string> words, lab::SplitCommand(target.spec.command));
  if (words.empty()) return Error(ErrorCode::kUsage, "--target cmd: has no command");
  target.program = words[0];
  if (!FindProgram(words[0]).empty()) return {};
  target.program_missing = words[0].find('/') != std::string::npos
                               ? words[0] + " is not there or not executable"
                               : "there is no program " + words[0] + " in PATH";
  return {};
}

// The file whose pages are looked at: the one that was named, else the default model of a server
// that rouse starts.
Result<std::string> ModelFile(const DoctorTarget& target, const std::string& model,
                              const std::string& model_file) {
  if (!model_file.empty()) {
    if (access(model_file.c_str(), F_OK) == 0) return model_file;
    return Error(ErrorCode::kNotFound, "--model-file: there is no file " + model_file);
  }
  if (!model.empty()) {
    ASSIGN_OR_RETURN(const models::ModelFile found, models::Resolve(model));
    return found.path;
  }
  const bool takes_model = target.spec.kind == lab::TargetKind::kBuiltin ||
                           target.spec.command.find("{model}") != std::string::npos ||
                           (target.spec.kind == lab::TargetKind::kCommand && !target.named);
  if (!takes_model) return std::string();
  const Result<models::ModelFile> found = models::Resolve(models::kDefaultModel);
  return found.ok() ? found->path : std::string();
}

}  // namespace

Result<DoctorTarget> ReadDoctorTarget(const std::string& text, const std::string& model,
                                      const std::string& model_file) {
  DoctorTarget target;
  target.text = text;
  ASSIGN_OR_RETURN(target.spec, ParseTarget(text));
  target.named = !lab::TargetKindFromName(text).has_value();
  ASSIGN_OR_RETURN(target.model_file, ModelFile(target, model, model_file));
  if (!target.named) return target;
  RETURN_IF_ERROR(target.spec.kind == lab::TargetKind::kCommand ? LookAtCommand(target)
                                                                : LookAtUrl(target));
  return target;
}

}  // namespace rouse::cli
