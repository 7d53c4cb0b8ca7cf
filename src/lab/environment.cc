#include "lab/environment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/strings.h"
#include "models/catalog.h"
#include "os/free_page_reporting.h"

namespace rouse::lab {
namespace {

using Facts = std::map<std::string, std::string>;

// The value of the first line "KEY : VALUE" of a kernel text.
std::string Field(const std::string& text, std::string_view key) {
  for (const std::string_view line : SplitAt(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || TrimBlanks(line.substr(0, colon)) != key) continue;
    return std::string(TrimBlanks(line.substr(colon + 1)));
  }
  return "";
}

void Put(Facts& facts, const std::string& name, const std::string& value) {
  if (!value.empty()) facts[name] = value;
}

std::string Trimmed(const Result<std::string>& text) {
  return text.ok() ? std::string(TrimBlanks(*text)) : "";
}

void ReadMachine(const os::ProcRoot& root, Facts& facts) {
  utsname names{};
  if (uname(&names) == 0) {
    Put(facts, "kernel", std::string(names.sysname) + " " + names.release);
    Put(facts, "machine", names.machine);
  }
  if (const Result<std::string> cpus = root.Read("proc/cpuinfo"); cpus.ok()) {
    Put(facts, "cpu", Field(*cpus, "model name"));
  }
  Put(facts, "cpus", std::to_string(sysconf(_SC_NPROCESSORS_ONLN)));
  if (const Result<std::string> memory = root.Read("proc/meminfo"); memory.ok()) {
    const std::string total = Field(*memory, "MemTotal");
    const std::optional<int64_t> kib = ParseInt64(total.substr(0, total.find(' ')));
    if (kib) Put(facts, "memory_bytes", std::to_string(*kib * 1024));
  }
  Put(facts, "boot_id", Trimmed(root.Read("proc/sys/kernel/random/boot_id")));
  Put(facts, "clocksource",
      Trimmed(root.Read("sys/devices/system/clocksource/clocksource0/current_clocksource")));
  if (const std::optional<bool> reporting = os::ReadFreePageReporting(root)) {
    Put(facts, "free_page_reporting", *reporting ? "on" : "off");
  }
}

// "ext4 on /dev/vda1": the mount whose device number the file has.
std::string Disk(const os::ProcRoot& root, const struct stat& file) {
  const Result<std::string> mounts = root.Read("proc/self/mountinfo");
  if (!mounts.ok()) return "";
  const std::string device =
      std::to_string(major(file.st_dev)) + ":" + std::to_string(minor(file.st_dev));
  for (const std::string_view line : SplitAt(*mounts, '\n')) {
    const std::vector<std::string_view> fields = SplitAt(line, ' ');
    if (fields.size() < 3 || fields[2] != device) continue;
    for (size_t i = 3; i + 2 < fields.size(); ++i) {
      if (fields[i] == "-") {
        return std::string(fields[i + 1]) + " on " + std::string(fields[i + 2]);
      }
    }
  }
  return "";
}

int64_t MtimeNs(const struct stat& file) {
  return int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec;
}

std::filesystem::path HashPath(const struct stat& file) {
  const std::string key = std::to_string(file.st_dev) + "-" + std::to_string(file.st_ino) + "-" +
                          std::to_string(file.st_size) + "-" + std::to_string(MtimeNs(file));
  return std::filesystem::path(models::ModelsFolder()).parent_path() / "sha256" / key;
}

bool IsSha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// A cache that cannot be written only costs the next run its time.
std::string HashOf(const std::string& path, const struct stat& file) {
  const std::filesystem::path cached = HashPath(file);
  if (const std::string known = Trimmed(ReadSmallFile(cached.string())); IsSha256(known)) {
    return known;
  }
  const Result<std::string> hash = models::FileSha256(path);
  if (!hash.ok()) return "";
  std::error_code ignored;
  std::filesystem::create_directories(cached.parent_path(), ignored);
  const std::string temporary = cached.string() + "." + std::to_string(getpid());
  const Result<Fd> fd = OpenFile(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (fd.ok() && WriteAll(fd->get(), *hash).ok()) {
    std::filesystem::rename(temporary, cached, ignored);
  }
  return *hash;
}

// Facts that both know and that differ.
std::string Differences(const Facts& before, const Facts& now,
                        std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    const auto was = before.find(std::string(name));
    const auto is = now.find(std::string(name));
    if (was == before.end() || is == now.end() || was->second == is->second) continue;
    text += (text.empty() ? "" : "; ") + was->first + ": it was " + was->second + ", it is " +
            is->second;
  }
  return text;
}

}  // namespace

std::string OtherModel(const Facts& before, const Facts& now) {
  static constexpr std::string_view kNames[] = {"model_bytes", "model_sha256"};
  return Differences(before, now, kNames);
}

std::string OtherMachine(const Facts& before, const Facts& now) {
  static constexpr std::string_view kNames[] = {"kernel",
                                                "machine",
                                                "cpu",
                                                "cpus",
                                                "memory_bytes",
                                                "clocksource",
                                                "disk",
                                                "engine_backends",
                                                "engine",
                                                "free_page_reporting",
                                                "engine_cpu_features"};
  return Differences(before, now, kNames);
}

std::map<std::string, std::string> ReadEnvironment(const os::ProcRoot& root,
                                                   const std::string& model_file) {
  Facts facts;
  ReadMachine(root, facts);
  struct stat file{};
  if (model_file.empty() || stat(model_file.c_str(), &file) != 0) return facts;
  Put(facts, "model_file", model_file);
  Put(facts, "model_bytes", std::to_string(file.st_size));
  Put(facts, "model_mtime_ns", std::to_string(MtimeNs(file)));
  Put(facts, "model_sha256", HashOf(model_file, file));
  Put(facts, "disk", Disk(root, file));
  return facts;
}

}  // namespace rouse::lab
