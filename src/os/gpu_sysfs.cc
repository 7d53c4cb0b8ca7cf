// AMD (amdgpu) and Intel (i915, xe) from sys/class/drm/cardN. Reading these files does not wake a
// device that is suspended; most are then simply refused, and the fields stay empty.
#include <charconv>

#include "os/gpu.h"
#include "os/kernel_text.h"

namespace rouse::os {
namespace {

constexpr int64_t kMhz = 1'000'000;

std::optional<int64_t> Times(std::optional<int64_t> value, int64_t unit) {
  if (!value) return std::nullopt;
  return *value * unit;
}

// pp_dpm_sclk lists the clocks; a star marks the one in use:
//   0: 500Mhz
//   1: 1470Mhz *
//   2: 2575Mhz
struct DpmClocks {
  std::optional<int64_t> current_hz;
  std::optional<int64_t> highest_hz;
};
DpmClocks ReadDpm(const ProcRoot& root, const std::string& path) {
  DpmClocks clocks;
  const Result<std::string> text = root.Read(path);
  if (!text.ok()) return clocks;
  for (const std::string_view line : SplitAt(*text, '\n')) {
    const std::vector<std::string_view> fields = SplitBlanks(line);
    if (fields.size() < 2) continue;
    int64_t mhz = 0;
    const char* const end = fields[1].data() + fields[1].size();
    const auto [rest, error] = std::from_chars(fields[1].data(), end, mhz);
    if (error != std::errc() || rest == end) continue;  // a unit follows
    if (!clocks.highest_hz || mhz * kMhz > *clocks.highest_hz) clocks.highest_hz = mhz * kMhz;
    if (fields.size() > 2 && fields[2] == "*") clocks.current_hz = mhz * kMhz;
  }
  return clocks;
}

void FillHwmon(const ProcRoot& root, const std::string& device, Gpu& gpu) {
  for (const std::string& name : root.List(device + "/hwmon")) {
    const std::string base = device + "/hwmon/" + name + "/";
    const std::optional<int64_t> thousandths = ReadNumberFile(root, base + "temp1_input");
    if (thousandths) gpu.celsius = static_cast<double>(*thousandths) / 1000.0;
    const std::optional<int64_t> microwatts = ReadNumberFile(root, base + "power1_average");
    if (microwatts) gpu.power_mw = *microwatts / 1000;
  }
}

void FillAmd(const ProcRoot& root, const std::string& device, Gpu& gpu) {
  gpu.memory_total_bytes = ReadNumberFile(root, device + "/mem_info_vram_total");
  gpu.memory_used_bytes = ReadNumberFile(root, device + "/mem_info_vram_used");
  gpu.busy_percent = ReadNumberFile(root, device + "/gpu_busy_percent");
  const DpmClocks core = ReadDpm(root, device + "/pp_dpm_sclk");
  gpu.clock_hz = core.current_hz;
  gpu.clock_max_hz = core.highest_hz;
  gpu.memory_clock_hz = ReadDpm(root, device + "/pp_dpm_mclk").current_hz;
}

void FillIntel(const ProcRoot& root, const std::string& card, Gpu& gpu) {
  // i915 beside the card, xe below its device.
  gpu.clock_hz = Times(ReadNumberFile(root, card + "/gt_act_freq_mhz"), kMhz);
  gpu.clock_max_hz = Times(ReadNumberFile(root, card + "/gt_max_freq_mhz"), kMhz);
  const std::string xe = card + "/device/tile0/gt0/freq0/";
  if (!gpu.clock_hz) gpu.clock_hz = Times(ReadNumberFile(root, xe + "act_freq"), kMhz);
  if (!gpu.clock_max_hz) gpu.clock_max_hz = Times(ReadNumberFile(root, xe + "max_freq"), kMhz);
}

// PCI_SLOT_NAME=0000:03:00.0
std::string BusId(const std::string& uevent) {
  for (const std::string_view line : SplitAt(uevent, '\n')) {
    if (line.starts_with("PCI_SLOT_NAME=")) return std::string(line.substr(14));
  }
  return "";
}

bool IsCard(std::string_view name) {
  return name.starts_with("card") && name.size() > 4 &&
         name.find_first_not_of("0123456789", 4) == std::string_view::npos;
}

}  // namespace

std::vector<Gpu> ReadSysfsGpus(const ProcRoot& root) {
  std::vector<Gpu> gpus;
  for (const std::string& name : root.List("sys/class/drm")) {
    if (!IsCard(name)) continue;  // a connector ("card0-DP-1") or render node
    const std::string card = "sys/class/drm/" + name;
    const std::string device = card + "/device";
    const std::optional<std::string> vendor = ReadTextFile(root, device + "/vendor");
    if (vendor != "0x1002" && vendor != "0x8086") continue;
    Gpu gpu;
    gpu.vendor = vendor == "0x1002" ? "amd" : "intel";
    gpu.name =
        ReadTextFile(root, device + "/product_name")
            .value_or(gpu.vendor + " " + ReadTextFile(root, device + "/device").value_or(""));
    gpu.bus_id = BusId(root.Read(device + "/uevent").ok() ? *root.Read(device + "/uevent") : "");
    gpu.runtime_status = ReadTextFile(root, device + "/power/runtime_status");
    if (gpu.vendor == "amd") {
      FillAmd(root, device, gpu);
    } else {
      FillIntel(root, card, gpu);
    }
    FillHwmon(root, device, gpu);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

// sys/bus/pci/devices/0000:65:00.0/{class,vendor,device}: 0x030200 0x10de 0x2336. Classes 0x03....
// are display controllers, 0x12.... processing accelerators.
std::vector<std::string> ListDisplayDevices(const ProcRoot& root) {
  std::vector<std::string> devices;
  for (const std::string& name : root.List("sys/bus/pci/devices")) {
    const std::string base = "sys/bus/pci/devices/" + name + "/";
    const std::string kind = ReadTextFile(root, base + "class").value_or("");
    if (!kind.starts_with("0x03") && !kind.starts_with("0x12")) continue;
    const std::string vendor = ReadTextFile(root, base + "vendor").value_or("0x????");
    const std::string device = ReadTextFile(root, base + "device").value_or("0x????");
    devices.push_back(vendor.substr(2) + ":" + device.substr(2) + " at " + name);
  }
  return devices;
}

}  // namespace rouse::os
