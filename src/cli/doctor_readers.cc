// Which evidence the operating system gives here, and what the machine is.
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>

#include "base/strings.h"
#include "base/terminal_text.h"
#include "base/time.h"
#include "base/units.h"
#include "cli/doctor_checks.h"
#include "lab/targets.h"
#include "lab/tier_place.h"
#include "models/catalog.h"
#include "os/block_device.h"
#include "os/boot.h"
#include "os/capability.h"
#include "os/cgroup.h"
#include "os/cpu_facts.h"
#include "os/delay_accounting.h"
#include "os/free_page_reporting.h"
#include "os/gpu.h"
#include "os/kernel_text.h"
#include "os/loadavg.h"
#include "os/meminfo.h"
#include "os/page_cache.h"
#include "os/proc_io.h"
#include "os/process_tree_counters.h"
#include "os/psi.h"
#include "os/read_limit.h"
#include "os/schedstat.h"
#include "os/swaps.h"
#include "os/thermal.h"
#include "os/vmstat.h"

namespace rouse::cli {
namespace {

constexpr double kBusyLoad = 0.5;  // runnable tasks per CPU in which short stages get noisy

const os::ProcRoot& Root() { return os::ProcRoot::Real(); }

Ability FromResult(bool ok, const std::string& how, const std::string& why_not,
                   const std::string& widen) {
  return ok ? Ability{true, how, ""} : Ability{false, why_not, widen};
}

// Of a certain server: whether its own can be read. Else: whose could be.
Ability ProcessCounters(const DoctorTarget& target) {
  const std::string sudo = "sudo rouse measure --target " + ShellQuoted(target.text);
  if (target.named && !target.spec.url.empty()) {
    if (!target.on_this_machine) return {false, "the server is not on this machine", ""};
    if (!target.pid) {
      return {false,
              "no process that this user may see listens on port " + std::to_string(target.port),
              geteuid() == 0 ? "" : sudo};
    }
    const std::string who = target.comm + " (pid " + std::to_string(*target.pid) + ")";
    if (target.counters_readable) return {true, "of " + who + " and its children", ""};
    return {false, "of " + who + ", which is another user's", sudo};
  }
  if (os::HasCapability(os::Capability::kSysPtrace)) {
    return {true, "of every user's servers (CAP_SYS_PTRACE)", ""};
  }
  if (lab::RowOf(target.spec.kind).owns_process) {
    return {true, "of your own servers, as this one is", ""};
  }
  return {true, "of your own servers only", "sudo rouse measure --target KIND:URL"};
}

Ability ReadBytes() {
  const Result<os::ProcIo> io = os::ReadProcIo(Root(), getpid());
  return FromResult(
      io.ok() && io->read_bytes.has_value(), "/proc/PID/io",
      io.ok() ? "this kernel was built without task I/O accounting" : io.error().message(),
      "a kernel with CONFIG_TASK_IO_ACCOUNTING");
}

Ability RunQueue() {
  const Result<os::Schedstat> schedstat = os::ReadSchedstat(Root(), getpid());
  // Zero for a process that runs: the kernel does not count.
  const bool counts = schedstat.ok() && schedstat->cpu_ns.value_or(0) > 0;
  return FromResult(counts, "/proc/PID/task/*/schedstat", "this kernel does not count it",
                    "a kernel with CONFIG_SCHED_INFO");
}

Ability Delays() {
  const std::string enable = "sudo sysctl kernel.task_delayacct=1  # before the server starts";
  if (!os::DelayAccountingIsOn(Root())) {
    const bool known = os::ReadNumberFile(Root(), "proc/sys/kernel/task_delayacct").has_value();
    return {false, known ? "kernel.task_delayacct is off" : "this kernel lacks delay accounting",
            known ? enable : "a kernel with CONFIG_TASK_DELAY_ACCT"};
  }
  const Result<os::DelayAccounting> delays = os::ReadDelayAccounting(getpid());
  if (delays.ok()) return {true, "taskstats, in nanoseconds", ""};
  return {true, "/proc/PID/stat, in steps of 10 ms (" + delays.error().message() + ")",
          "sudo rouse measure ..."};
}

Ability Pressure() {
  const Result<os::Psi> psi = os::ReadPsi(Root(), os::PsiResource::kIo);
  return FromResult(psi.ok(), "/proc/pressure/{cpu,memory,io}",
                    psi.ok() ? "" : psi.error().message(),
                    "add psi=1 to the kernel's command line and reboot");
}

Ability Cgroup() {
  const Result<os::CgroupCounters> group = os::ReadCgroupCounters(Root(), getpid());
  if (!group.ok()) return {false, group.error().message(), ""};
  std::string how = group->paths.memory == group->paths.unified ? "cgroup v2 " : "cgroup v1 ";
  how += group->paths.name;
  if (group->paths.name == "/") how += " (the root group: its numbers are the whole machine's)";
  if (group->memory_limit_bytes) how += ", limit " + FormatBytes(*group->memory_limit_bytes);
  return {true, how, ""};
}

Ability Lock() {
  const std::optional<int64_t> limit = os::LockLimitBytes();
  if (!limit) return {true, "any file that fits into memory", ""};
  return {true, "files up to " + FormatBytes(*limit) + " (RLIMIT_MEMLOCK)",
          "sudo prlimit --pid $$ --memlock=unlimited"};
}

// By making what a run would make, for a moment.
Ability SimulatedDisks(const DoctorTarget& target) {
  const std::string beside =
      target.model_file.empty() ? models::ModelsFolder() + "/model.gguf" : target.model_file;
  const lab::TierPlace place{.directory = "", .bytes_per_second = 100'000'000};
  const std::string why = lab::WhyNotSimulated(place, beside);
  if (!why.empty()) return {false, why, "sudo rouse measure --preset storage"};
  const std::string folder = std::filesystem::path(beside).parent_path();
  const Result<std::string> device = os::DeviceUnder(Root(), folder);
  const Result<os::LimitParent> parent = os::FindLimitParent(Root(), getpid());
  const std::string version = parent.ok() && parent->unified ? "cgroup v2" : "cgroup v1";
  if (device.ok()) return {true, version + " limits reads of " + *device + " below " + folder, ""};
  return {true, version + " limits a loop device over a file in " + folder, ""};
}

Ability Gpu() {
  const Result<std::vector<os::Gpu>> nvidia = os::ReadNvidiaGpus();
  const std::vector<os::Gpu> others = os::ReadSysfsGpus(Root());
  const std::vector<std::string> devices = os::ListDisplayDevices(Root());
  if (nvidia.ok() && !nvidia->empty()) return {true, "NVML: " + (*nvidia)[0].name, ""};
  if (!others.empty()) return {true, "sysfs: " + others[0].name, ""};
  for (const std::string& device : devices) {
    if (!device.starts_with("10de:")) continue;
    return {false, "an NVIDIA GPU (" + device + ") is there, but " + nvidia.error().message(),
            "install the NVIDIA driver with its libnvidia-ml.so.1"};
  }
  return {false, "no GPU that we can read", ""};
}

Ability Frequency() {
  const Result<os::CpuFacts> cpu = os::ReadCpuFacts(Root());
  if (!cpu.ok()) return {false, cpu.error().message(), ""};
  if (cpu->governor) {
    return {true, *cpu->governor + " governor (" + cpu->frequency_driver.value_or("?") + ")", ""};
  }
  return {false,
          cpu->virtual_machine.value_or(false) ? "a virtual machine: only its host knows"
                                               : "this kernel has no cpufreq driver here",
          ""};
}

Ability Temperatures() {
  const os::Thermal thermal = os::ReadThermal(Root());
  if (thermal.zones.empty() && !thermal.core_throttles) return {false, "no sensors", ""};
  return {true, std::to_string(thermal.zones.size()) + " thermal zones", ""};
}

std::string CpuText(const os::CpuFacts& cpu) {
  std::string text = cpu.model.value_or("unknown");
  text += ", " + std::to_string(*cpu.online_cpus) + " CPUs";
  if (cpu.physical_cores) text += " on " + std::to_string(*cpu.physical_cores) + " cores";
  if (cpu.smt_active) text += *cpu.smt_active ? ", SMT on" : ", SMT off";
  if (cpu.virtual_machine.value_or(false)) text += ", virtual machine";
  return text;
}

std::string MemoryText() {
  const Result<os::Meminfo> meminfo = os::ReadMeminfo(Root());
  if (!meminfo.ok() || !meminfo->total_bytes) return "unknown";
  std::string text = FormatBytes(*meminfo->total_bytes);
  if (meminfo->available_bytes)
    text += ", " + FormatBytes(*meminfo->available_bytes) + " available";
  const Result<std::vector<os::SwapArea>> swaps = os::ReadSwaps(Root());
  if (swaps.ok() && swaps->empty()) text += ", no swap";
  if (swaps.ok() && !swaps->empty()) {
    text += ", swap on " + (*swaps)[0].path;
    if (swaps->size() > 1) text += " and " + std::to_string(swaps->size() - 1) + " more";
  }
  return text;
}

std::string StorageText(const os::Storage& storage) {
  std::string text = storage.file_system + " on " + storage.source;
  if (!storage.device) return text + " (" + storage.no_device_reason + ")";
  const os::BlockDevice& device = *storage.device;
  text += " (" + device.model.value_or(device.name);
  if (device.scheduler) text += ", scheduler " + *device.scheduler;
  if (device.hardware_queues) text += ", queues " + std::to_string(*device.hardware_queues);
  if (device.read_ahead_bytes) text += ", read-ahead " + FormatBytes(*device.read_ahead_bytes);
  return text + ")";
}

}  // namespace

std::vector<ReaderAbility> ExamineReaders(const DoctorTarget& target) {
  return {
      {"bytes read, RSS, faults", ProcessCounters(target)},
      {"bytes read from disk", ReadBytes()},
      {"wait for a CPU", RunQueue()},
      {"wait for the disk", Delays()},
      {"pressure (PSI)", Pressure()},
      {"control group", Cgroup()},
      {"lock pages (rouse pin)", Lock()},
      {"simulated disks (--path)", SimulatedDisks(target)},
      {"CPU frequency", Frequency()},
      {"temperatures", Temperatures()},
      {"GPU", Gpu()},
  };
}

std::vector<std::pair<std::string, std::string>> DescribeMachine(const DoctorTarget& target) {
  const std::string& model_file = target.model_file;
  std::vector<std::pair<std::string, std::string>> facts;
  utsname names{};
  if (uname(&names) == 0) {
    facts.emplace_back("kernel",
                       std::string(names.sysname) + " " + names.release + ", " + names.machine);
  }
  const Result<os::CpuFacts> cpu = os::ReadCpuFacts(Root());
  if (cpu.ok()) {
    facts.emplace_back("cpu", CpuText(*cpu));
    std::string flags;
    for (const std::string& flag : cpu->vector_flags) flags += (flags.empty() ? "" : " ") + flag;
    if (!flags.empty()) facts.emplace_back("vector units", flags);
    if (cpu->microcode) facts.emplace_back("microcode", *cpu->microcode);
  }
  facts.emplace_back("memory", MemoryText());
  if (!model_file.empty()) {
    facts.emplace_back("model", model_file);
    const Result<os::Storage> storage = os::ReadStorage(Root(), model_file);
    if (storage.ok()) facts.emplace_back("model's storage", StorageText(*storage));
  }
  const Result<std::vector<os::Gpu>> nvidia = os::ReadNvidiaGpus();
  std::vector<os::Gpu> gpus = os::ReadSysfsGpus(Root());
  if (nvidia.ok()) gpus.insert(gpus.begin(), nvidia->begin(), nvidia->end());
  for (const os::Gpu& gpu : gpus) {
    std::string text = gpu.name;
    if (gpu.memory_total_bytes) text += ", " + FormatBytes(*gpu.memory_total_bytes);
    if (gpu.driver_version) text += ", driver " + *gpu.driver_version;
    facts.emplace_back("gpu", text);
  }
  const Result<os::Boot> boot = os::ReadBoot(Root());
  if (boot.ok() && boot->uptime_ns) {
    facts.emplace_back("up for", FormatDuration(*boot->uptime_ns) +
                                     (SuspendedNs() > kNsPerSecond
                                          ? ", of it suspended " + FormatDuration(SuspendedNs())
                                          : ""));
  }
  return facts;
}

std::vector<std::string> Remarks(const DoctorTarget& target) {
  const std::string& model_file = target.model_file;
  std::vector<std::string> remarks;
  const Result<os::Loadavg> load = os::ReadLoadavg(Root());
  const auto cpus = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  if (load.ok() && *load->load1 > kBusyLoad * cpus) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "The machine is busy: %.1f tasks run or wait on %.0f CPUs. Short stages will be "
                  "noisy.",
                  *load->load1, cpus);
    remarks.emplace_back(text);
  }
  const Result<os::Vmstat> vmstat = os::ReadVmstat(Root());
  const bool damon = os::ReadTextFile(Root(), "sys/module/damon_reclaim/parameters/enabled") == "Y";
  if (damon || (vmstat.ok() && vmstat->reclaimed_proactively_pages.value_or(0) > 0)) {
    remarks.emplace_back(std::string("Idle page cache is reclaimed here without pressure (") +
                         (damon ? "DAMON reclaim is on" : "pgsteal_proactive is above 0") +
                         "): a warm file may cool down while idling. `rouse pin` holds it.");
  }
  if (os::ReadFreePageReporting(Root()).value_or(false)) {
    remarks.emplace_back(
        "The host takes back memory that is free for some seconds (free page reporting): whoever "
        "uses it next waits for the host, which no counter here shows. A cold start right after an "
        "eviction is then earlier than one after a pause; idle = \"10s\" behind the eviction shows "
        "it.");
  }
  if (vmstat.ok() && vmstat->cache_drops.value_or(0) > 0) {
    remarks.push_back("The whole page cache has been dropped since boot (drop_caches: " +
                      std::to_string(*vmstat->cache_drops) + " so far).");
  }
  if (model_file.empty()) {
    if (target.spec.kind == lab::TargetKind::kBuiltin) {
      remarks.emplace_back("No model is here: ./dev run fetches the default one (98 MB).");
    }
    return remarks;
  }
  const Result<os::Storage> storage = os::ReadStorage(Root(), model_file);
  if (storage.ok() && storage->device && storage->device->runtime_control == "auto") {
    remarks.push_back(
        "The model's disk may be suspended when idle: its waking is part of a cold "
        "start after idling.");
  }
  const Result<os::Meminfo> meminfo = os::ReadMeminfo(Root());
  const Result<os::Residency> residency = os::ReadResidency(model_file);
  if (meminfo.ok() && residency.ok() && meminfo->available_bytes &&
      residency->file_bytes - residency->resident_bytes > *meminfo->available_bytes) {
    remarks.push_back(
        "The model does not fit into the memory that is available: it can't be warm.");
  }
  return remarks;
}

DoctorReport Examine(const DoctorTarget& target) {
  DoctorReport report;
  report.target = target.text;
  report.kind = lab::TargetKindName(target.spec.kind);
  report.model_file = target.model_file;
  report.machine = DescribeMachine(target);
  report.layers = ExamineLayers(target);
  report.readers = ExamineReaders(target);
  report.remarks = Remarks(target);
  return report;
}

}  // namespace rouse::cli
