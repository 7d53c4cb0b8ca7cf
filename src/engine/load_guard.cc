#include "engine/load_guard.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
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

// The next field, up to `end`; takes it and what separates it away.
std::string_view TakeField(std::string_view& line, char end) {
  const size_t length = std::min(line.find(end), line.size());
  const std::string_view field = line.substr(0, length);
  line.remove_prefix(length);
  line.remove_prefix(std::min(line.find_first_not_of(end), line.size()));
  return field;
}

std::optional<uint64_t> ParseHex(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value, 16);
  if (status != std::errc() || rest != end) return std::nullopt;
  return value;
}

// Empty: of no file, or not mapped as the runtime maps.
std::optional<MapsLine> ParseLine(std::string_view line) {
  const std::optional<uint64_t> begin = ParseHex(TakeField(line, '-'));
  const std::optional<uint64_t> end = ParseHex(TakeField(line, ' '));
  const std::string_view rights = TakeField(line, ' ');
  const std::optional<uint64_t> offset = ParseHex(TakeField(line, ' '));
  TakeField(line, ' ');  // the device
  const std::optional<int64_t> inode = ParseInt64(TakeField(line, ' '));
  if (!begin || !end || !offset || !inode || *inode == 0 || rights != "r--s") return std::nullopt;
  return MapsLine{.begin = *begin,
                  .end = *end,
                  .offset = static_cast<int64_t>(*offset),
                  .inode = static_cast<uint64_t>(*inode),
                  .path = line};
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
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel tells addresses as numbers
    const auto* const address = reinterpret_cast<const std::byte*>(parsed->begin);
    mappings.push_back({.path = file->path,
                        .address = address,
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
