// Which state layers can be set, proved and observed here.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"
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
  const std::string beside = model_file.empty()
                                 ? models::ModelsFolder()
                                 : std::filesystem::absolute(model_file).parent_path().string();
  PageCacheTrial trial = TryIn(beside);
  if (trial.cannot.empty()) return trial;
  return TryIn(std::filesystem::temp_directory_path().string());
}

void ExaminePageCache(lab::TargetKind target, const std::string& model_file, LayerAbility& row) {
  const PageCacheTrial trial = TryPageCache(model_file);
  if (!trial.cannot.empty()) {
    row.settable = {false, trial.cannot, ""};
  } else if (!trial.dropped) {
    row.settable = {false, "tried in " + trial.folder + ": " + trial.why_stayed,
                    "keep the model on a disk's file system (tmpfs cannot be dropped)"};
  } else if (!trial.filled) {
    row.settable = {true,
                    "tried in " + trial.folder +
                        ": drops; filling only by reading "
                        "(MADV_POPULATE_READ needs Linux 5.14)",
                    ""};
  } else {
    row.settable = {true, "fadvise, MADV_POPULATE_READ: tried in " + trial.folder, ""};
  }
  if (model_file.empty()) {
    const bool is_url = !lab::RowOf(target).owns_process;
    row.provable = {
        false,
        is_url ? "the server's model file must be known and local" : "no model is here to look at",
        is_url ? "rouse measure --target URL --model-file FILE" : "./dev run"};
    row.observable = row.provable;
    return;
  }
  const Result<os::Residency> residency = os::ReadResidency(model_file);
  if (!residency.ok()) {
    row.provable = {false, residency.error().message(), "sudo rouse doctor"};
  } else if (residency->sampled_pages) {
    row.provable = {true,
                    "warm and cold, by a sample of 512 pages; no fraction, and no exact number: "
                    "you neither own " +
                        model_file + " nor may write it",
                    "sudo chown \"$USER\" " + model_file};
  } else {
    row.provable = {true, residency->proof + " on " + model_file + ", exact", ""};
  }
  row.observable = {residency.ok(), "rouse state " + model_file, ""};
}

void ExamineMemoryPressure(LayerAbility& row) {
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

void ExamineBackground(LayerAbility& row) {
  const Result<os::Psi> psi = os::ReadPsi(os::ProcRoot::Real(), os::PsiResource::kCpu);
  row.observable = psi.ok() ? Ability{true, "/proc/pressure/cpu and io, load average", ""}
                            : Ability{true, "load average only: no /proc/pressure here",
                                      "add psi=1 to the kernel's command line and reboot"};
}

void ExamineCompileCache(lab::TargetKind target, LayerAbility& row) {
  if (target != lab::TargetKind::kCommand) return;
  row.settable.widen =
      "compile_cache_env = \"CUDA_CACHE_PATH\" (or TRITON_CACHE_DIR, XDG_CACHE_HOME) in [target] "
      "of the plan";
  const bool has_gpu = !os::ListDisplayDevices(os::ProcRoot::Real()).empty();
  if (!has_gpu) row.settable.how += "; no GPU is here, so most servers compile nothing";
}

void ExamineProcess(lab::TargetKind target, LayerAbility& row) {
  row.observable = {true, "/proc/PID/stat: pid and start time", ""};
  if (lab::RowOf(target).owns_process) return;
  row.settable.widen = "rouse measure --target 'cmd:COMMAND {port} {model}'";
  row.observable.how =
      "the process that listens on the URL's port, when it is on this machine and "
      "yours";
  if (geteuid() != 0) {
    row.observable.widen = "sudo rouse doctor --target " +
                           std::string(lab::TargetKindName(target)) + " (other users' servers)";
  }
}

void ExamineModel(lab::TargetKind target, LayerAbility& row) {
  if (target == lab::TargetKind::kUrl) {
    row.settable.widen =
        "rouse measure --target KIND:URL, KIND one of llama-server, ollama, "
        "llama-swap, vllm";
  }
  if (target == lab::TargetKind::kLlamaServer) {
    row.settable.widen = "llama-server --models-dir DIRECTORY (router mode)";
  }
  if (target == lab::TargetKind::kVllm) {
    row.settable.widen = "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --enable-sleep-mode";
  }
}

}  // namespace

std::vector<LayerAbility> ExamineLayers(lab::TargetKind target, const std::string& model_file) {
  std::vector<LayerAbility> rows;
  for (const lab::LayerRow& layer : lab::Layers()) {
    LayerAbility row;
    row.layer = layer.name;
    const lab::TargetLayer& on = lab::RowOf(target).On(layer.layer);
    std::string how(on.set.empty() ? on.limit : on.set);
    if (!on.set.empty() && !on.limit.empty()) how += "; " + std::string(on.limit);
    row.settable = {!on.set.empty(), how, ""};
    row.provable = on.proof.empty() ? Ability{false, std::string(on.limit), ""}
                                    : Ability{true, std::string(on.proof), ""};
    row.observable = row.provable;
    switch (layer.layer) {
      case lab::Layer::kPageCache:
        ExaminePageCache(target, model_file, row);
        break;
      case lab::Layer::kMemoryPressure:
        ExamineMemoryPressure(row);
        break;
      case lab::Layer::kCompileCache:
        ExamineCompileCache(target, row);
        break;
      case lab::Layer::kProcess:
        ExamineProcess(target, row);
        break;
      case lab::Layer::kModel:
        ExamineModel(target, row);
        break;
      case lab::Layer::kPrefixCache:
        if (target == lab::TargetKind::kVllm) {
          row.provable.widen = "vllm serve MODEL --enable-prompt-tokens-details";
        }
        break;
      case lab::Layer::kBackground:
        ExamineBackground(row);
        break;
      case lab::Layer::kConnection:
        break;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace rouse::cli
