// Who maps a file: /proc/*/maps for the list, /proc/PID/smaps for what of it is resident or locked.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "base/strings.h"
#include "os/page_cache.h"

namespace rouse::os {
namespace {

std::optional<unsigned> ParseHex(std::string_view text) {
  unsigned value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value, 16);
  if (status != std::errc() || rest != end) return std::nullopt;
  return value;
}

struct FileIdentity {
  unsigned device_major = 0;
  unsigned device_minor = 0;
  uint64_t inode = 0;
  std::string path;  // canonical
};

// One line of maps:
//   7f3a1c000000-7f3a22000000 r--s 00000000 fe:00 1311233    /srv/models/m.gguf
// The path is the rest of the line; a deleted file has " (deleted)" after it.
bool LineMaps(std::string_view line, const FileIdentity& file) {
  std::string_view fields[5];
  for (std::string_view& field : fields) {
    const size_t end = line.find(' ');
    if (end == std::string_view::npos) return false;
    field = line.substr(0, end);
    line.remove_prefix(end);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  }
  uint64_t inode = 0;
  const char* const end = fields[4].data() + fields[4].size();
  if (std::from_chars(fields[4].data(), end, inode).ptr != end || inode != file.inode) return false;
  const std::string_view device = fields[3];
  const size_t colon = device.find(':');
  if (colon == std::string_view::npos) return false;
  const std::optional<unsigned> major_number = ParseHex(device.substr(0, colon));
  const std::optional<unsigned> minor_number = ParseHex(device.substr(colon + 1));
  if (!major_number || !minor_number) return false;
  if (major_number == file.device_major && minor_number == file.device_minor) return true;
  // On btrfs and overlayfs stat and maps name different devices for one file.
  return line == file.path;
}

bool IsMappingHead(std::string_view line) {
  const size_t dash = line.find('-');
  const size_t colon = line.find(':');
  return dash != std::string_view::npos && (colon == std::string_view::npos || dash < colon);
}

// Adds up the entries of the file's mappings in smaps:
//   Rss:               98304 kB
//   Locked:            98304 kB
void ReadShares(const ProcRoot& root, const FileIdentity& file, Mapper& mapper) {
  const Result<std::string> smaps = root.ReadOf(mapper.pid, "smaps");
  if (!smaps.ok()) return;
  int64_t resident_kb = 0;
  int64_t locked_kb = 0;
  bool inside = false;
  for (const std::string_view line : SplitAt(*smaps, '\n')) {
    if (IsMappingHead(line)) {
      inside = LineMaps(line, file);
      continue;
    }
    if (!inside) continue;
    const bool is_rss = line.starts_with("Rss:");
    if (!is_rss && !line.starts_with("Locked:")) continue;
    std::string_view value = TrimBlanks(line.substr(line.find(':') + 1));
    if (!value.ends_with(" kB")) return;
    value.remove_suffix(3);
    const std::optional<int64_t> kilobytes = ParseInt64(value);
    if (!kilobytes) return;
    (is_rss ? resident_kb : locked_kb) += *kilobytes;
  }
  mapper.resident_bytes = resident_kb * 1024;
  mapper.locked_bytes = locked_kb * 1024;
}

}  // namespace

Result<Mappers> FindMappers(const ProcRoot& root, const std::string& path) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return Error::FromErrno(errno, "cannot look at " + path);
  FileIdentity file;
  file.device_major = major(facts.st_dev);
  file.device_minor = minor(facts.st_dev);
  file.inode = facts.st_ino;
  char* const canonical = realpath(path.c_str(), nullptr);
  if (canonical != nullptr) file.path = canonical;
  std::free(canonical);

  Mappers found;
  for (const int pid : root.Pids()) {
    const Result<std::string> maps = root.ReadOf(pid, "maps");
    if (!maps.ok()) {
      if (maps.error().code() == ErrorCode::kPermission) ++found.unreadable_processes;
      continue;
    }
    bool maps_it = false;
    for (const std::string_view line : SplitAt(*maps, '\n'))
      maps_it = maps_it || LineMaps(line, file);
    if (!maps_it) continue;
    Mapper mapper;
    mapper.pid = pid;
    const Result<std::string> comm = root.ReadOf(pid, "comm");
    if (comm.ok()) mapper.comm = TrimBlanks(*comm);
    ReadShares(root, file, mapper);
    found.mappers.push_back(std::move(mapper));
  }
  return found;
}

}  // namespace rouse::os
