// Which state layers can be set, proved and observed here.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
#include "base/terminal_text.h"
#include "base/units.h"
#include "cli/doctor_checks.h"
#include "lab/targets.h"
#include "models/catalog.h"
#include "os/cgroup.h"
#include "os/gpu.h"
#include "os/meminfo.h"
#include "os/page_cache.h"
#include "os/psi.h"

namespace rouse::cli {
namespace {

constexpr int64_t kTrialBytes = 2 << 20;

// What was tried on a file of our own in the folder of the model.
struct PageCacheTrial {
  std::string folder;
  std::string cannot;  // why there was no trial
  bool dropped = false;
  std::string why_stayed;
  bool filled = false;
};

Result<std::string> MakeTrialFile(const std::string& folder) {
  std::string name = folder + "/.rouse-doctor-XXXXXX";
  const Fd fd(mkostemp(name.data(), O_CLOEXEC));
  if (!fd.valid()) return Error::FromErrno(errno, "cannot write to " + folder);
  const Status written = WriteAll(fd.get(), std::string(static_cast<size_t>(kTrialBytes), 'r'));
  if (written.ok()) return name;
  unlink(name.c_str());
  return written.error();
}

PageCacheTrial TryIn(const std::string& folder) {
  PageCacheTrial trial;
  trial.folder = folder;
  const Result<std::string> file = MakeTrialFile(folder);
  if (!file.ok()) {
    trial.cannot = file.error().message();
    return trial;
  }
  const Result<os::EvictReport> report = os::EvictFile(*file);
  if (!report.ok()) {
    trial.cannot = report.error().message();
  } else {
    trial.dropped = report->Cold();
    trial.why_stayed = report->WhyNot();
    const Result<os::MappedFile> mapped = os::MappedFile::Map(*file);
    if (mapped.ok() && os::PopulateRange(mapped->data(), mapped->bytes()).ok()) {
      const Result<os::Residency> residency = os::ReadResidency(*file);
      trial.filled = residency.ok() && residency->Ratio() >= 0.99;
    }
  }
  unlink(file->c_str());
  return trial;
}

// Beside the model, for that file system's sake; where we may not write, in the temporary folder.
PageCacheTrial TryPageCache(const std::string& model_file) {
  PageCacheTrial trial = TryIn(models::FolderOf(model_file));
  if (trial.cannot.empty()) return trial;
  std::error_code failed;
  const std::string temporary = std::filesystem::temp_directory_path(failed).string();
  return failed ? trial : TryIn(temporary);
}

// The command with everything that is known filled in.
std::string Measure(const DoctorTarget& target, const std::string& more) {
  const std::string text = target.named ? ShellQuoted(target.text) : "URL";
  return "rouse measure --target " + text + (more.empty() ? "" : " " + more);
}

void ProvePageCache(const DoctorTarget& target, LayerAbility& row) {
  const std::string& file = target.model_file;
  if (file.empty() && target.named && !target.spec.url.empty() && !target.on_this_machine) {
    row.provable = {false, "the server is on another machine, and so are its file's pages",
                    "on that machine: rouse doctor --target http://127.0.0.1:" +
                        std::to_string(target.port) + " --model-file FILE"};
  } else if (file.empty() && target.mapped_models.size() == 1) {
    row.provable = {false,
                    "the server maps " + target.mapped_models[0] + "; say that it is the model",
                    Measure(target, "--model-file " + ShellQuoted(target.mapped_models[0]))};
  } else if (file.empty() && target.spec.kind == lab::TargetKind::kBuiltin) {
    row.provable = {false, "no model is here to look at", "./dev run"};
  } else if (file.empty()) {
    row.provable = {false, "the server's model file must be known and local",
                    Measure(target, "--model-file FILE")};
  } else if (const Result<os::Residency> residency = os::ReadResidency(file); !residency.ok()) {
    row.provable = {false, residency.error().message(),
                    "sudo rouse doctor --target " + ShellQuoted(target.text)};
  } else if (!residency->Exact()) {
    row.provable = {true, "warm and cold, by a sample of 512 pages of " + file,
                    "sudo chown \"$USER\" " + ShellQuoted(file),
                    "no fraction, and no exact number: you neither own it nor may write it"};
  } else {
    row.provable = {true, residency->proof + " on " + file + ", exact", ""};
  }
  const bool looks = !file.empty() && row.provable.yes;
  row.observable = looks ? Ability{true, "rouse state " + ShellQuoted(file), ""} : row.provable;
}

void ExaminePageCache(const DoctorTarget& target, LayerAbility& row) {
  const PageCacheTrial trial = TryPageCache(target.model_file);
  const std::string limit = row.settable.but;
  if (!trial.cannot.empty()) {
    row.settable = {false, trial.cannot, ""};
  } else if (!trial.dropped) {
    row.settable = {false, "tried in " + trial.folder + ": " + trial.why_stayed,
                    "keep the model on a disk's file system (tmpfs cannot be dropped)"};
  } else {
    row.settable = {true,
                    trial.filled ? "fadvise, MADV_POPULATE_READ: tried in " + trial.folder
                                 : "tried in " + trial.folder +
                                       ": drops; filling only by reading (MADV_POPULATE_READ needs "
                                       "Linux 5.14)",
                    "", limit};
  }
  if (!target.model_file.empty() && target.spec.kind != lab::TargetKind::kBuiltin) {
    row.settable.but = "pages that the server maps stay";
  }
  if (target.maps_model_file && row.settable.yes) {
    row.settable.but = target.comm + " (pid " + std::to_string(*target.pid) +
                       ") maps the file now: its pages stay until the model is unloaded";
  }
  ProvePageCache(target, row);
  // Without a file there is nothing to drop either.
  const bool needs_file = target.spec.kind != lab::TargetKind::kBuiltin && target.named;
  if (needs_file && target.model_file.empty()) row.settable = row.provable;
}

bool IsElsewhere(const DoctorTarget& target) {
  return target.named && !target.spec.url.empty() && !target.on_this_machine;
}

void ExamineMemoryPressure(const DoctorTarget& target, LayerAbility& row) {
  if (IsElsewhere(target)) {
    row.settable = {false, "a ballast would press on this machine, and not on the server's", ""};
    row.provable = row.observable = row.settable;
    return;
  }
  const os::ProcRoot& root = os::ProcRoot::Real();
  const Result<os::Meminfo> meminfo = os::ReadMeminfo(root);
  if (row.settable.yes && meminfo.ok() && meminfo->available_bytes) {
    row.settable.how += "; " + FormatBytes(*meminfo->available_bytes) + " available";
  }
  const Result<os::Psi> psi = os::ReadPsi(root, os::PsiResource::kMemory);
  row.observable =
      psi.ok() ? Ability{true, "/proc/pressure/memory, MemAvailable", ""}
               : Ability{meminfo.ok(), "MemAvailable only: this kernel has no /proc/pressure",
                         "add psi=1 to the kernel's command line and reboot"};
}

void ExamineBackground(const DoctorTarget& target, LayerAbility& row) {
  if (!target.model_file.empty()) row.settable.but.clear();
  if (IsElsewhere(target)) {
    row.settable.but =
        "\"requests\" only: \"cpu\" and \"disk\" would load this machine, not the server's";
  }
  const Result<os::Psi> psi = os::ReadPsi(os::ProcRoot::Real(), os::PsiResource::kCpu);
  row.observable = psi.ok() ? Ability{true, "/proc/pressure/cpu and io, load average", ""}
                            : Ability{true, "load average only: no /proc/pressure here",
                                      "add psi=1 to the kernel's command line and reboot"};
}

void ExamineCompileCache(const DoctorTarget& target, LayerAbility& row) {
  if (target.spec.kind != lab::TargetKind::kCommand) return;
  row.settable.widen =
      "in [target] of the plan: compile_cache_env = \"CUDA_CACHE_PATH\" (or TRITON_CACHE_DIR, "
      "XDG_CACHE_HOME)";
  const bool has_gpu = !os::ListDisplayDevices(os::ProcRoot::Real()).empty();
  if (!has_gpu) row.settable.but += "; no GPU is here, so most servers compile nothing";
}

void ExamineProcess(const DoctorTarget& target, LayerAbility& row) {
  row.observable = {true, "/proc/PID/stat: pid and start time", ""};
  if (lab::RowOf(target.spec.kind).owns_process) {
    if (target.program_missing.empty()) return;
    row.settable = {false, target.program_missing, "install it, or give its whole path after cmd:"};
    return;
  }
  row.settable.widen = "rouse measure --target 'cmd:COMMAND {port} {model}'";
  const std::string sudo =
      geteuid() == 0 ? "" : "sudo rouse doctor --target " + ShellQuoted(target.text);
  if (!target.named) {
    row.observable.how = "who listens on the URL's port, on this machine, if you may see it";
    if (geteuid() != 0) row.observable.but = "not the servers of other users";
  } else if (!target.on_this_machine) {
    row.observable = {false, "the server is not on this machine", ""};
  } else if (target.pid) {
    row.observable.how = target.comm + " (pid " + std::to_string(*target.pid) + ") listens there";
  } else {
    row.observable = {false,
                      "no process that this user may see listens on port " +
                          std::to_string(target.port) + ": start the server",
                      sudo};
  }
  row.provable = row.observable;
}

// The kind that a process's name suggests; "" when none does.
std::string KindByName(const std::string& comm) {
  for (const std::string_view kind : {"llama-server", "llama-swap", "ollama", "vllm"}) {
    if (comm.starts_with(kind)) return std::string(kind);
  }
  return "";
}

void ExamineModel(const DoctorTarget& target, LayerAbility& row) {
  const std::string url = target.named ? target.spec.url : "URL";
  switch (target.spec.kind) {
    case lab::TargetKind::kUrl: {
      const std::string kind = KindByName(target.comm);
      row.settable.widen =
          "rouse measure --target " + ShellQuoted((kind.empty() ? "KIND" : kind) + ":" + url);
      if (kind.empty())
        row.settable.widen += "  # KIND is llama-server, ollama, llama-swap or vllm";
      break;
    }
    case lab::TargetKind::kLlamaServer:
      row.settable.widen = "llama-server --models-dir DIRECTORY (router mode)";
      break;
    case lab::TargetKind::kVllm:
      row.settable.widen = "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --enable-sleep-mode";
      break;
    default:
      break;
  }
  if (row.settable.yes && !target.plain_http) {
    row.settable = {false, "its control calls need a plain http:// address", ""};
    row.provable = row.settable;
  }
}

void ExamineOne(const DoctorTarget& target, lab::Layer layer, LayerAbility& row) {
  switch (layer) {
    case lab::Layer::kPageCache:
      return ExaminePageCache(target, row);
    case lab::Layer::kMemoryPressure:
      return ExamineMemoryPressure(target, row);
    case lab::Layer::kCompileCache:
      return ExamineCompileCache(target, row);
    case lab::Layer::kProcess:
      return ExamineProcess(target, row);
    case lab::Layer::kModel:
      return ExamineModel(target, row);
    case lab::Layer::kPrefixCache:
      if (target.spec.kind == lab::TargetKind::kVllm) {
        row.provable.but = "only a server that was started to tell cached tokens";
        row.provable.widen = "vllm serve MODEL --enable-prompt-tokens-details";
      }
      return;
    case lab::Layer::kBackground:
      return ExamineBackground(target, row);
    case lab::Layer::kConnection:
      return;
  }
}

}  // namespace

std::vector<LayerAbility> ExamineLayers(const DoctorTarget& target) {
  std::vector<LayerAbility> rows;
  for (const lab::LayerRow& layer : lab::Layers()) {
    LayerAbility row;
    row.layer = layer.name;
    const lab::TargetLayer& on = lab::RowOf(target.spec.kind).On(layer.layer);
    const std::string limit(on.limit);
    row.settable =
        on.set.empty() ? Ability{false, limit, ""} : Ability{true, std::string(on.set), "", limit};
    row.provable =
        on.proof.empty() ? Ability{false, limit, ""} : Ability{true, std::string(on.proof), ""};
    row.observable = row.provable;
    ExamineOne(target, layer.layer, row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace rouse::cli
