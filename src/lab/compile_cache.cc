#include "lab/compile_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>

#include "base/strings.h"

namespace rouse::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "rouse-compile-";

}  // namespace

std::vector<std::string> CompileCache::RemoveStale() {
  std::vector<std::string> removed;
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  for (fs::directory_iterator each(folder, failed), end; !failed && each != end;
       each.increment(failed)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::string rest = name.substr(kPrefix.size());
    const std::optional<int64_t> pid = ParseInt64(rest.substr(0, rest.find('-')));
    struct stat info{};
    // Only what is ours: the folder is everybody's.
    const bool ours = lstat(each->path().c_str(), &info) == 0 && info.st_uid == geteuid();
    if (!pid || !ours || kill(static_cast<pid_t>(*pid), 0) == 0 || errno != ESRCH) continue;
    std::error_code ignored;
    if (fs::remove_all(each->path(), ignored) > 0 && !ignored) {
      removed.push_back("folder " + each->path().string());
    }
  }
  return removed;
}

Result<std::unique_ptr<CompileCache>> CompileCache::Make() {
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  if (failed) return Error(ErrorCode::kIo, "no temporary folder: " + failed.message());
  RemoveStale();
  static std::atomic<int> count{0};
  const std::string directory =
      (folder / (std::string(kPrefix) + std::to_string(getpid()) + "-" + std::to_string(++count)))
          .string();
  if (mkdir(directory.c_str(), 0700) != 0) {
    return Error::FromErrno(errno, "cannot make the compile cache " + directory);
  }
  return std::unique_ptr<CompileCache>(new CompileCache(directory));
}

CompileCache::~CompileCache() {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

Result<CompileCache::Contents> CompileCache::Read() const {
  Contents contents;
  std::error_code failed;
  for (fs::recursive_directory_iterator each(directory_, failed), end; !failed && each != end;
       each.increment(failed)) {
    std::error_code ignored;  // a file may vanish while it is looked at
    if (!each->is_regular_file(ignored) || each->is_symlink(ignored)) continue;
    ++contents.files;
    contents.bytes += static_cast<int64_t>(each->file_size(ignored));
  }
  if (failed) return Error(ErrorCode::kIo, "cannot read " + directory_ + ": " + failed.message());
  return contents;
}

Status CompileCache::Empty() const {
  std::error_code failed;
  std::vector<fs::path> entries;
  for (fs::directory_iterator each(directory_, failed), end; !failed && each != end;
       each.increment(failed)) {
    entries.push_back(each->path());
  }
  for (const fs::path& each : entries) {
    if (!failed) fs::remove_all(each, failed);
  }
  if (failed) return Error(ErrorCode::kIo, "cannot empty " + directory_ + ": " + failed.message());
  return {};
}

}  // namespace rouse::lab
