#include "engine/load_guard.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/fd.h"
#include "base/strings.h"

namespace rouse::engine {
namespace {

// A line of /proc/self/maps that tells of a file:
//   "7f5c1c000000-7f5c21de0000 r--s 00001000 103:02 1835037    /models/a.gguf"
struct MapsLine {
  uint64_t begin = 0;
  uint64_t end = 0;
  int64_t offset = 0;
  uint64_t inode = 0;
  std::string_view path;
};

// Empty: of no file, or not mapped as the runtime maps.
std::optional<MapsLine> ParseLine(std::string_view line) {
  const std::string text(line);
  std::array<char, 5> rights{};
  MapsLine parsed;
  int path_at = 0;
  const int fields = std::sscanf(
      text.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n", &parsed.begin,
      &parsed.end, rights.data(), &parsed.offset, &parsed.inode, &path_at);
  if (fields != 5 || path_at <= 0 || parsed.inode == 0) return std::nullopt;
  if (std::string_view(rights.data()) != "r--s") return std::nullopt;
  parsed.path = line.substr(static_cast<size_t>(path_at));
  return parsed;
}

// By inode, or by path where the file system shows another inode here (overlays, btrfs).
struct FileName {
  std::string path;
  uint64_t inode = 0;
  std::string resolved;
};

}  // namespace

std::vector<FileMapping> MappingsOfFiles(const std::vector<std::string>& paths) {
  const Result<std::string> maps = ReadSmallFile("/proc/self/maps");
  if (!maps.ok()) return {};
  std::vector<FileName> files;
  for (const std::string& path : paths) {
    struct stat facts = {};
    if (stat(path.c_str(), &facts) != 0) continue;
    std::error_code error;
    files.push_back({path, facts.st_ino, std::filesystem::canonical(path, error).string()});
  }
  std::vector<FileMapping> mappings;
  for (const std::string_view line : SplitAt(*maps, '\n')) {
    const std::optional<MapsLine> parsed = ParseLine(line);
    if (!parsed.has_value()) continue;
    const auto file = std::ranges::find_if(files, [&](const FileName& one) {
      return one.inode == parsed->inode || one.resolved == parsed->path;
    });
    if (file == files.end()) continue;
    mappings.push_back({.path = file->path,
                        .address = reinterpret_cast<const std::byte*>(parsed->begin),
                        .file_offset = parsed->offset,
                        .bytes = static_cast<int64_t>(parsed->end - parsed->begin)});
  }
  return mappings;
}

LoadGuard::LoadGuard(std::vector<std::string> paths) : paths_(std::move(paths)) {
  for (const FileMapping& mapping : MappingsOfFiles(paths_)) others_.push_back(mapping.address);
}

void LoadGuard::Look() {
  if (guarded_.empty()) LookAgain();
}

void LoadGuard::LookAgain() {
  static_cast<void>(Check().ok());  // what the guards that go now have seen
  guarded_.clear();
  for (FileMapping& mapping : MappingsOfFiles(paths_)) {
    if (std::ranges::find(others_, mapping.address) != others_.end()) continue;
    auto guard = loader::MappingGuard::Over(mapping.address, mapping.bytes);
    if (guard != nullptr) guarded_.push_back({std::move(mapping), std::move(guard)});
  }
}

Status LoadGuard::Check() {
  for (const Guarded& one : guarded_) {
    if (!status_.ok() || !one.guard->Broken()) continue;
    const int64_t at = one.mapping.file_offset + one.guard->BrokenAt().value_or(0);
    status_ = Error(ErrorCode::kCorrupt, one.mapping.path + " could not be read at byte " +
                                             std::to_string(at) +
                                             " while it was loaded (cut, or a failing device)");
  }
  return status_;
}

}  // namespace rouse::engine
