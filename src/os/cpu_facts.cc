#include "os/cpu_facts.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

constexpr std::string_view kVectorFlags[] = {
    "sse4_2",   "avx",         "avx2",        "fma",      "f16c",     "avx512f",
    "avx512bw", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8",
    "amx_bf16", "asimd",       "asimddp",     "i8mm",     "sve",      "sve2"};

std::string CpuDirectory(int cpu) { return "sys/devices/system/cpu/cpu" + std::to_string(cpu); }

// processor	: 0
// model name	: AMD EPYC
// microcode	: 0x1000065
// cpu MHz		: 2596.136
// flags		: fpu vme de pse ... hypervisor ... avx2
// and the same again for each CPU. ARM has neither model name nor microcode, and "Features".
void FillFromCpuinfo(const std::string& text, CpuFacts& facts) {
  int64_t processors = 0;
  std::set<std::pair<std::string, std::string>> cores;
  std::string package;
  for (const std::string_view line : SplitAt(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = TrimBlanks(line.substr(0, colon));
    const std::string_view value = TrimBlanks(line.substr(colon + 1));
    if (key == "processor") {
      ++processors;
    } else if (key == "physical id") {
      package = value;
    } else if (key == "core id") {
      cores.emplace(package, value);
    } else if (key == "model name" && !facts.model && !value.empty()) {
      facts.model = value;
    } else if (key == "microcode" && !facts.microcode && !value.empty()) {
      facts.microcode = value;
    } else if (key == "cpu MHz" && !facts.cpu0_mhz) {
      double mhz = 0;
      const char* const end = value.data() + value.size();
      if (std::from_chars(value.data(), end, mhz).ptr == end) facts.cpu0_mhz = mhz;
    } else if ((key == "flags" || key == "Features") && facts.vector_flags.empty()) {
      const std::vector<std::string_view> flags = SplitBlanks(value);
      const auto has = [&flags](std::string_view flag) {
        return std::find(flags.begin(), flags.end(), flag) != flags.end();
      };
      if (key == "flags") facts.virtual_machine = has("hypervisor");
      for (const std::string_view flag : kVectorFlags) {
        if (has(flag)) facts.vector_flags.emplace_back(flag);
      }
    }
  }
  if (processors > 0) facts.online_cpus = processors;
  if (!cores.empty()) facts.physical_cores = static_cast<int64_t>(cores.size());
}

void FillFrequency(const ProcRoot& root, CpuFacts& facts) {
  const std::string base = CpuDirectory(0) + "/cpufreq/";
  facts.frequency_driver = ReadTextFile(root, base + "scaling_driver");
  facts.governor = ReadTextFile(root, base + "scaling_governor");
  facts.energy_preference = ReadTextFile(root, base + "energy_performance_preference");
  facts.current_khz = ReadNumberFile(root, base + "scaling_cur_freq");
  facts.lowest_khz = ReadNumberFile(root, base + "scaling_min_freq");
  facts.highest_khz = ReadNumberFile(root, base + "scaling_max_freq");
  const std::optional<int64_t> boost = ReadNumberFile(root, "sys/devices/system/cpu/cpufreq/boost");
  const std::optional<int64_t> no_turbo =
      ReadNumberFile(root, "sys/devices/system/cpu/intel_pstate/no_turbo");
  if (boost) {
    facts.boost = *boost != 0;
  } else if (no_turbo) {
    facts.boost = *no_turbo == 0;
  }
}

void FillIdle(const ProcRoot& root, CpuFacts& facts) {
  facts.idle_driver = ReadTextFile(root, "sys/devices/system/cpu/cpuidle/current_driver");
  facts.idle_governor = ReadTextFile(root, "sys/devices/system/cpu/cpuidle/current_governor");
  if (!facts.idle_governor) {
    facts.idle_governor = ReadTextFile(root, "sys/devices/system/cpu/cpuidle/current_governor_ro");
  }
  for (int i = 0;; ++i) {
    const std::string state = CpuDirectory(0) + "/cpuidle/state" + std::to_string(i) + "/";
    const std::optional<std::string> name = ReadTextFile(root, state + "name");
    if (!name) return;
    const std::optional<int64_t> disabled = ReadNumberFile(root, state + "disable");
    facts.idle_states.push_back({*name, ReadNumberFile(root, state + "latency"),
                                 disabled ? std::optional<bool>(*disabled != 0) : std::nullopt});
  }
}

}  // namespace

Result<CpuFacts> ReadCpuFacts(const ProcRoot& root) {
  ASSIGN_OR_RETURN(const std::string cpuinfo, root.Read("proc/cpuinfo"));
  CpuFacts facts;
  FillFromCpuinfo(cpuinfo, facts);
  if (!facts.online_cpus) return Error(ErrorCode::kCorrupt, "/proc/cpuinfo lists no processor");
  const std::optional<int64_t> smt = ReadNumberFile(root, "sys/devices/system/cpu/smt/active");
  if (smt) facts.smt_active = *smt != 0;
  FillFrequency(root, facts);
  FillIdle(root, facts);
  return facts;
}

}  // namespace rouse::os
