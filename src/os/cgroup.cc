#include "os/cgroup.h"

#include <algorithm>

#include "base/time.h"
#include "os/kernel_text.h"
#include "os/mounts.h"

namespace rouse::os {
namespace {

// memory.limit_in_bytes of v1 without a limit is the largest number of whole pages.
constexpr int64_t kNoLimitV1 = int64_t{1} << 62U;

bool ListHas(std::string_view list, std::string_view wanted) {
  const std::vector<std::string_view> items = SplitAt(list, ',');
  return std::find(items.begin(), items.end(), wanted) != items.end();
}

// Where a group of the hierarchy is, or "" when the hierarchy is not mounted. A container mounts a
// part of it: `mount.root` then is the beginning of the group's name.
std::string Directory(const std::vector<Mount>& mounts, std::string_view controller,
                      std::string_view group) {
  for (const Mount& mount : mounts) {
    const bool is_it = controller.empty()
                           ? mount.type == "cgroup2"
                           : mount.type == "cgroup" && ListHas(mount.super_options, controller);
    if (!is_it) continue;
    if (mount.root != "/" && group.starts_with(mount.root)) group.remove_prefix(mount.root.size());
    if (group == "/") group = "";
    return mount.mount_point.substr(1) + std::string(group);
  }
  return "";
}

struct MemoryStat {
  std::optional<int64_t> v2_anonymous, v2_file, v1_anonymous, v1_file, faults, refaults;
};

// v2: anon 2338816        v1: total_rss 2338816
//     file 22224896           total_cache 22224896
//     pgmajfault 99           total_pgmajfault 99
constexpr KeyedField<MemoryStat> kMemoryStatV2[] = {
    {"anon", &MemoryStat::v2_anonymous},
    {"file", &MemoryStat::v2_file},
    {"pgmajfault", &MemoryStat::faults},
    {"workingset_refault_file", &MemoryStat::refaults},
};
constexpr KeyedField<MemoryStat> kMemoryStatV1[] = {
    {"total_rss", &MemoryStat::v1_anonymous},
    {"total_cache", &MemoryStat::v1_file},
    {"total_pgmajfault", &MemoryStat::faults},
    {"total_workingset_refault_file", &MemoryStat::refaults},
};

Status ReadMemory(const ProcRoot& root, CgroupCounters& counters) {
  const std::string& directory = counters.paths.memory;
  if (directory.empty()) return {};
  const bool is_v2 = directory == counters.paths.unified;
  const std::string stat_path = directory + "/memory.stat";
  const Result<std::string> text = root.Read(stat_path);
  MemoryStat stat;
  if (text.ok() && is_v2) RETURN_IF_ERROR(FillKeyed(*text, stat_path, ' ', kMemoryStatV2, stat));
  if (text.ok() && !is_v2) RETURN_IF_ERROR(FillKeyed(*text, stat_path, ' ', kMemoryStatV1, stat));
  counters.anonymous_bytes = is_v2 ? stat.v2_anonymous : stat.v1_anonymous;
  counters.file_bytes = is_v2 ? stat.v2_file : stat.v1_file;
  counters.major_faults = stat.faults;
  counters.refaulted_file_pages = stat.refaults;
  const auto number = [&root, &directory](const char* file) {
    return ReadNumberFile(root, directory + "/" + file);
  };
  if (is_v2) {
    counters.memory_bytes = number("memory.current");
    counters.memory_limit_bytes = number("memory.max");  // "max" is no number
    counters.memory_peak_bytes = number("memory.peak");
    counters.swap_bytes = number("memory.swap.current");
    return {};
  }
  counters.memory_bytes = number("memory.usage_in_bytes");
  counters.memory_limit_bytes = number("memory.limit_in_bytes");
  if (counters.memory_limit_bytes >= kNoLimitV1) counters.memory_limit_bytes.reset();
  counters.memory_peak_bytes = number("memory.max_usage_in_bytes");
  const std::optional<int64_t> with_swap = number("memory.memsw.usage_in_bytes");
  if (with_swap && counters.memory_bytes && *with_swap >= *counters.memory_bytes) {
    counters.swap_bytes = *with_swap - *counters.memory_bytes;
  }
  return {};
}

// v2, io.stat, one line a device:
//   254:0 rbytes=98304000 wbytes=4096 rios=193 wios=1 dbytes=0 dios=0
Status ReadIoV2(const ProcRoot& root, CgroupCounters& counters) {
  const std::string path = counters.paths.io + "/io.stat";
  const Result<std::string> text = root.Read(path);
  if (!text.ok()) return {};
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  for (const std::string_view field : SplitBlanks(*text)) {
    for (const auto& [key, sum] :
         {std::pair{"rbytes=", &read_bytes}, {"wbytes=", &written_bytes}}) {
      if (!field.starts_with(key)) continue;
      ASSIGN_OR_RETURN(const int64_t bytes, ParseKernelNumber(field.substr(7), path, key));
      *sum += bytes;
    }
  }
  counters.read_bytes = read_bytes;
  counters.written_bytes = written_bytes;
  return {};
}

// v1, blkio.throttle.io_service_bytes_recursive, several lines a device and a total:
//   254:0 Read 98304000
//   254:0 Write 4096
//   Total 98308096
Status ReadIoV1(const ProcRoot& root, CgroupCounters& counters) {
  const std::string path = counters.paths.io + "/blkio.throttle.io_service_bytes_recursive";
  const Result<std::string> text = root.Read(path);
  if (!text.ok()) return {};
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  for (const std::string_view line : SplitAt(*text, '\n')) {
    const std::vector<std::string_view> fields = SplitBlanks(line);
    if (fields.size() != 3 || (fields[1] != "Read" && fields[1] != "Write")) continue;
    ASSIGN_OR_RETURN(const int64_t bytes, ParseKernelNumber(fields[2], path, fields[1]));
    (fields[1] == "Read" ? read_bytes : written_bytes) += bytes;
  }
  counters.read_bytes = read_bytes;
  counters.written_bytes = written_bytes;
  return {};
}

struct CpuStat {
  std::optional<int64_t> usage_us, throttled_us, throttled_ns;
};
// v2: usage_usec 8150052       v1, cpu.stat: nr_throttled 0
//     throttled_usec 0                       throttled_time 0     (ns)
constexpr KeyedField<CpuStat> kCpuStat[] = {
    {"usage_usec", &CpuStat::usage_us},
    {"throttled_usec", &CpuStat::throttled_us},
    {"throttled_time", &CpuStat::throttled_ns},
};

Status ReadCpu(const ProcRoot& root, CgroupCounters& counters) {
  const std::string& directory = counters.paths.cpu;
  if (directory.empty()) return {};
  counters.cpu_ns = ReadNumberFile(root, directory + "/cpuacct.usage");
  const std::string path = directory + "/cpu.stat";
  const Result<std::string> text = root.Read(path);
  if (!text.ok()) return {};
  CpuStat stat;
  RETURN_IF_ERROR(FillKeyed(*text, path, ' ', kCpuStat, stat));
  if (stat.usage_us) counters.cpu_ns = *stat.usage_us * kNsPerUs;
  if (stat.throttled_us) counters.throttled_ns = *stat.throttled_us * kNsPerUs;
  if (stat.throttled_ns) counters.throttled_ns = stat.throttled_ns;
  return {};
}

std::optional<Psi> Pressure(const ProcRoot& root, const std::string& directory, const char* file) {
  if (directory.empty()) return std::nullopt;
  const Result<Psi> psi = ReadPsiFile(root, directory + "/" + file);
  return psi.ok() ? std::optional<Psi>(*psi) : std::nullopt;
}

}  // namespace

// /proc/PID/cgroup, one line a hierarchy:
//   4:memory:/user.slice/rouse
//   2:cpu,cpuacct:/user.slice/rouse
//   0::/user.slice/rouse              (v2)
Result<CgroupPaths> FindCgroup(const ProcRoot& root, int pid) {
  const std::string path = "proc/" + std::to_string(pid) + "/cgroup";
  ASSIGN_OR_RETURN(const std::string text, root.Read(path));
  ASSIGN_OR_RETURN(const std::vector<Mount> mounts, ReadMounts(root));
  CgroupPaths paths;
  for (const std::string_view line : SplitAt(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) {
      paths.unified = Directory(mounts, "", group);
      if (paths.name.empty()) paths.name = group;
      continue;
    }
    if (ListHas(controllers, "memory")) {
      paths.memory = Directory(mounts, "memory", group);
      paths.name = group;
    }
    if (ListHas(controllers, "blkio")) paths.io = Directory(mounts, "blkio", group);
    if (ListHas(controllers, "cpuacct")) paths.cpu = Directory(mounts, "cpuacct", group);
  }
  for (std::string* const missing : {&paths.memory, &paths.io, &paths.cpu}) {
    if (missing->empty()) *missing = paths.unified;
  }
  if (paths.memory.empty() && paths.io.empty() && paths.cpu.empty()) {
    return Error(ErrorCode::kNotFound, "no cgroup file system is mounted");
  }
  return paths;
}

Result<CgroupCounters> ReadCgroupCounters(const ProcRoot& root, int pid) {
  CgroupCounters counters;
  ASSIGN_OR_RETURN(counters.paths, FindCgroup(root, pid));
  RETURN_IF_ERROR(ReadMemory(root, counters));
  if (counters.paths.io == counters.paths.unified) {
    RETURN_IF_ERROR(ReadIoV2(root, counters));
  } else {
    RETURN_IF_ERROR(ReadIoV1(root, counters));
  }
  RETURN_IF_ERROR(ReadCpu(root, counters));
  counters.memory_pressure = Pressure(root, counters.paths.unified, "memory.pressure");
  counters.io_pressure = Pressure(root, counters.paths.unified, "io.pressure");
  counters.cpu_pressure = Pressure(root, counters.paths.unified, "cpu.pressure");
  return counters;
}

}  // namespace rouse::os
