#include "lab/model_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/fd.h"
#include "models/catalog.h"

namespace rouse::lab {
namespace {

constexpr int64_t kWindowBytes = int64_t{1} << 20;
constexpr int64_t kWindows = 64;
constexpr std::string_view kCopyPrefix = "rouse-copy-";

Result<int64_t> SizeOf(const Fd& fd, const std::string& path) {
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return Error::FromErrno(errno, "cannot stat " + path);
  return int64_t{info.st_size};
}

// Fewer bytes than asked for only at the file's end.
Result<size_t> ReadAt(const Fd& fd, const std::string& path, int64_t offset,
                      std::vector<char>& buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t count = pread(fd.get(), buffer.data() + done, buffer.size() - done,
                                offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "cannot read " + path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

Status CopyBytes(const std::string& source, const std::string& target,
                 const std::function<bool()>& interrupted) {
  ASSIGN_OR_RETURN(const Fd from, OpenFile(source, O_RDONLY));
  const Fd to(open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!to.valid()) return Error::FromErrno(errno, "cannot make " + target);
  std::vector<char> buffer(static_cast<size_t>(kWindowBytes));
  for (int64_t offset = 0;;) {
    if (interrupted && interrupted()) {
      return Error(ErrorCode::kInterrupted, "interrupted while " + target + " was written");
    }
    ASSIGN_OR_RETURN(const size_t count, ReadAt(from, source, offset, buffer));
    if (count == 0) break;
    for (size_t done = 0; done < count;) {
      const ssize_t written = write(to.get(), buffer.data() + done, count - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Error::FromErrno(errno, "cannot write " + target);
      done += static_cast<size_t>(written);
    }
    offset += static_cast<int64_t>(count);
  }
  // Clean pages only: dirty ones cannot be dropped from the page cache.
  if (fdatasync(to.get()) != 0) return Error::FromErrno(errno, "cannot write " + target);
  return {};
}

bool IsSame(const std::string& a, const std::string& b) {
  const Result<bool> same = SameContent(a, b);
  return same.ok() && *same;
}

}  // namespace

Result<bool> SameContent(const std::string& a, const std::string& b) {
  ASSIGN_OR_RETURN(const Fd first, OpenFile(a, O_RDONLY));
  ASSIGN_OR_RETURN(const Fd second, OpenFile(b, O_RDONLY));
  ASSIGN_OR_RETURN(const int64_t bytes, SizeOf(first, a));
  ASSIGN_OR_RETURN(const int64_t other_bytes, SizeOf(second, b));
  if (bytes != other_bytes) return false;
  const int64_t all = (bytes + kWindowBytes - 1) / kWindowBytes;
  const int64_t count = std::min(all, kWindows);
  std::vector<char> one(static_cast<size_t>(kWindowBytes));
  std::vector<char> two(static_cast<size_t>(kWindowBytes));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t window = count == 1 ? 0 : i * (all - 1) / (count - 1);
    ASSIGN_OR_RETURN(const size_t got, ReadAt(first, a, window * kWindowBytes, one));
    ASSIGN_OR_RETURN(const size_t got_too, ReadAt(second, b, window * kWindowBytes, two));
    const auto end = one.begin() + static_cast<std::ptrdiff_t>(got);
    if (got != got_too || !std::equal(one.begin(), end, two.begin())) return false;
  }
  return true;
}

ModelCopies::~ModelCopies() {
  for (const std::string& path : made_) unlink(path.c_str());
}

Result<std::string> ModelCopies::Place(const std::string& source, const std::string& directory,
                                       const std::function<bool()>& interrupted) {
  const auto known = placed_.find(directory);
  if (known != placed_.end()) return known->second;
  const std::filesystem::path folder(directory);
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed)) {
    return Error(ErrorCode::kNotFound, "there is no directory " + directory);
  }
  const std::string name = std::filesystem::path(source).filename();
  const Result<models::ModelFile> model = models::Resolve(source);
  if (model.ok() && model->parts.size() > 1) {
    return Error(ErrorCode::kUnsupported,
                 "a model of several files cannot be put into another directory: " + source);
  }
  const std::string own = folder / name;
  const std::string copy = folder / (std::string(kCopyPrefix) + name);
  const bool is_there = std::filesystem::exists(own, failed) && IsSame(source, own);
  if (!is_there) {
    // One that a killed run has left is as good as a new one.
    if (!IsSame(source, copy)) {
      const Status copied = CopyBytes(source, copy, interrupted);
      if (!copied.ok()) {
        unlink(copy.c_str());
        return copied.error();
      }
    }
    made_.push_back(copy);
  }
  return placed_[directory] = is_there ? own : copy;
}

}  // namespace rouse::lab
