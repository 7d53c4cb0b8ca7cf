#include "lab/compile_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace rouse::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "rouse-compile-";

// Held for as long as the directory is in use: it goes with the process that holds it, whatever
// becomes of it, and holds across pid namespaces that share the folder. Invalid when somebody else
// has it.
Fd Locked(const std::string& directory) {
  Result<Fd> fd = OpenFile(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (!fd.ok() || flock(fd->get(), LOCK_EX | LOCK_NB) != 0) return {};
  return *std::move(fd);
}

// Nobody took it for a dead tool's between its making and its locking.
bool IsThere(const Fd& locked) {
  struct stat info{};
  return locked.valid() && fstat(locked.get(), &info) == 0 && info.st_nlink > 0;
}

}  // namespace

std::vector<std::string> CompileCache::RemoveStale() {
  std::vector<std::string> removed;
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  for (fs::directory_iterator each(folder, failed), end; !failed && each != end;
       each.increment(failed)) {
    if (!each->path().filename().string().starts_with(kPrefix)) continue;
    struct stat info{};
    // Only what is ours: the folder is everybody's.
    const bool ours = lstat(each->path().c_str(), &info) == 0 && info.st_uid == geteuid();
    if (!ours || !Locked(each->path().string()).valid()) continue;
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
  for (;;) {
    std::string directory = (folder / (std::string(kPrefix) + "XXXXXX")).string();
    if (mkdtemp(directory.data()) == nullptr) {
      return Error::FromErrno(errno, "cannot make the compile cache " + directory);
    }
    Fd lock = Locked(directory);
    if (!IsThere(lock)) continue;
    return std::unique_ptr<CompileCache>(new CompileCache(directory, std::move(lock)));
  }
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
