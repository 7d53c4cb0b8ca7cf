// NVML by dlopen. The types and numbers are those of NVML's documented C interface, written down
// here so that no header of the CUDA toolkit is needed.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

#include "os/gpu.h"

namespace rouse::os {
namespace {

using Device = void*;
using Status32 = int;  // nvmlReturn_t; 0 is success
constexpr Status32 kInsufficientSize = 7;
constexpr unsigned kClockSm = 1;
constexpr unsigned kClockMemory = 2;
constexpr unsigned kTemperatureGpu = 0;
constexpr uint64_t kNotAvailable = ~uint64_t{0};

struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct ProcessInfo {  // of the _v3 call
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct PciInfo {  // of the _v3 call
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// The layouts that NVML's interface fixes; a field that slipped would give plausible nonsense.
static_assert(sizeof(MemoryInfo) == 24 && sizeof(Utilization) == 8);
static_assert(sizeof(ProcessInfo) == 24 && sizeof(PciInfo) == 68);

// Why nvmlInit_v2 failed, by its documented return values.
std::string WhyNoStart(Status32 status) {
  switch (status) {
    case 4:
      return "this user may not use the GPU (the groups video or render, or /dev/nvidia*)";
    case 9:
      return "the NVIDIA kernel driver is not loaded";
    case 15:
      return "the GPU has fallen off the bus";
    case 18:
      return "library and kernel driver have different versions: reboot after an update";
    default:
      return "error " + std::to_string(status);
  }
}

// The library, loaded and initialised; shut down at the end.
class Nvml {
 public:
  static Result<std::unique_ptr<Nvml>> Load(const std::string& library) {
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return Error(ErrorCode::kUnsupported, "no NVIDIA driver: " + library);
    auto nvml = std::unique_ptr<Nvml>(new Nvml(handle));
    const auto init = nvml->Find<Status32()>("nvmlInit_v2");
    if (init == nullptr) {
      return Error(ErrorCode::kUnsupported, library + " is no NVML: it has no nvmlInit_v2");
    }
    const Status32 status = init();
    if (status != 0) {
      const ErrorCode code = status == 4 ? ErrorCode::kPermission : ErrorCode::kUnsupported;
      return Error(code, "NVML does not start: " + WhyNoStart(status));
    }
    nvml->initialised_ = true;
    return nvml;
  }

  ~Nvml() {
    const auto shutdown = initialised_ ? Find<Status32()>("nvmlShutdown") : nullptr;
    if (shutdown != nullptr) shutdown();
    dlclose(handle_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // nullptr when this driver's library has no such call.
  template <typename Function>
  Function* Find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

  // Calls NAME(arguments..., &value): empty when there is no such call or it fails.
  template <typename Value, typename... Arguments>
  std::optional<Value> Ask(const char* name, Arguments... arguments) const {
    const auto call = Find<Status32(Arguments..., Value*)>(name);
    Value value{};
    if (call == nullptr || call(arguments..., &value) != 0) return std::nullopt;
    return value;
  }

  // Calls NAME(arguments..., buffer, length).
  template <typename... Arguments>
  std::optional<std::string> AskText(const char* name, Arguments... arguments) const {
    const auto call = Find<Status32(Arguments..., char*, unsigned)>(name);
    std::array<char, 96> buffer{};
    if (call == nullptr || call(arguments..., buffer.data(), buffer.size()) != 0) {
      return std::nullopt;
    }
    return std::string(buffer.data());
  }

 private:
  explicit Nvml(void* handle) : handle_(handle) {}
  void* handle_;
  bool initialised_ = false;
};

std::optional<int64_t> Times(std::optional<unsigned> value, int64_t unit) {
  if (!value) return std::nullopt;
  return static_cast<int64_t>(*value) * unit;
}

std::vector<GpuProcess> ReadProcesses(const Nvml& nvml, Device device) {
  const auto call = nvml.Find<Status32(Device, unsigned*, ProcessInfo*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3");
  if (call == nullptr) return {};
  unsigned count = 64;
  std::vector<ProcessInfo> infos(count);
  Status32 status = call(device, &count, infos.data());
  if (status == kInsufficientSize) {
    infos.resize(count + 16);  // some may start meanwhile
    count = static_cast<unsigned>(infos.size());
    status = call(device, &count, infos.data());
  }
  if (status != 0) return {};
  std::vector<GpuProcess> processes;
  for (unsigned i = 0; i < count; ++i) {
    GpuProcess process;
    process.pid = static_cast<int>(infos[i].pid);
    if (infos[i].used_bytes != kNotAvailable) {
      process.memory_bytes = static_cast<int64_t>(infos[i].used_bytes);
    }
    processes.push_back(process);
  }
  return processes;
}

// NVML writes "00000000:65:00.0", sysfs "0000:65:00.0".
std::string SysfsBusId(const char* bus_id) {
  std::string text = bus_id;
  if (text.size() > 12 && text.starts_with("0000")) text.erase(0, text.size() - 12);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Gpu ReadDevice(const Nvml& nvml, Device device) {
  Gpu gpu;
  gpu.vendor = "nvidia";
  gpu.name = nvml.AskText("nvmlDeviceGetName", device).value_or("");
  gpu.driver_version = nvml.AskText("nvmlSystemGetDriverVersion");
  if (const auto pci = nvml.Ask<PciInfo>("nvmlDeviceGetPciInfo_v3", device)) {
    gpu.bus_id = SysfsBusId(pci->bus_id);
  }
  if (const auto memory = nvml.Ask<MemoryInfo>("nvmlDeviceGetMemoryInfo", device)) {
    gpu.memory_total_bytes = static_cast<int64_t>(memory->total);
    gpu.memory_used_bytes = static_cast<int64_t>(memory->used);
  }
  constexpr int64_t kMhz = 1'000'000;
  gpu.clock_hz = Times(nvml.Ask<unsigned>("nvmlDeviceGetClockInfo", device, kClockSm), kMhz);
  gpu.clock_max_hz = Times(nvml.Ask<unsigned>("nvmlDeviceGetMaxClockInfo", device, kClockSm), kMhz);
  gpu.memory_clock_hz =
      Times(nvml.Ask<unsigned>("nvmlDeviceGetClockInfo", device, kClockMemory), kMhz);
  gpu.performance_state = Times(nvml.Ask<unsigned>("nvmlDeviceGetPerformanceState", device), 1);
  if (const auto celsius =
          nvml.Ask<unsigned>("nvmlDeviceGetTemperature", device, kTemperatureGpu)) {
    gpu.celsius = static_cast<double>(*celsius);
  }
  gpu.power_mw = Times(nvml.Ask<unsigned>("nvmlDeviceGetPowerUsage", device), 1);
  if (const auto busy = nvml.Ask<Utilization>("nvmlDeviceGetUtilizationRates", device)) {
    gpu.busy_percent = busy->gpu;
  }
  if (const auto mode = nvml.Ask<unsigned>("nvmlDeviceGetPersistenceMode", device)) {
    gpu.persistence_mode = *mode != 0;
  }
  gpu.processes = ReadProcesses(nvml, device);
  return gpu;
}

}  // namespace

Result<std::vector<Gpu>> ReadNvidiaGpus(const std::string& library) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Nvml> nvml, Nvml::Load(library));
  const std::optional<unsigned> count = nvml->Ask<unsigned>("nvmlDeviceGetCount_v2");
  if (!count) return Error(ErrorCode::kUnsupported, "NVML does not count its devices");
  std::vector<Gpu> gpus;
  for (unsigned i = 0; i < *count; ++i) {
    const std::optional<Device> device = nvml->Ask<Device>("nvmlDeviceGetHandleByIndex_v2", i);
    if (device) gpus.push_back(ReadDevice(*nvml, *device));
  }
  return gpus;
}

}  // namespace rouse::os
