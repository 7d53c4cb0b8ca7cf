#include "cli/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/fd.h"
#include "base/strings.h"

namespace rouse::cli {

namespace {

namespace fs = std::filesystem;

// How a path is written to.
struct Place {
  enum class Kind {
    kReplaced,    // a file, or none yet: a complete one takes its name
    kWrittenTo,   // what is no plain file (a pipe, a device) cannot be replaced
    kDescriptor,  // one that is open already (/dev/stdout): its link must stay, and its offset
                  // counts
  };
  Kind kind = Kind::kReplaced;
  std::string path;     // behind links: they stay, and name the new file
  std::string work;     // kReplaced: what is written, to be renamed when it is complete
  int descriptor = -1;  // kDescriptor
};

// N of a path /proc/self/fd/N, by whatever name its folder is called.
std::optional<int> DescriptorOf(const fs::path& path) {
  std::error_code none;
  const fs::path folder =
      fs::canonical(path.parent_path().empty() ? "." : path.parent_path(), none);
  if (none || folder != "/proc/" + std::to_string(getpid()) + "/fd") return std::nullopt;
  const std::optional<int64_t> number = ParseInt64(path.filename().string());
  return number ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}

Result<Place> PlaceOf(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel has it
  fs::path at = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    if (const std::optional<int> descriptor = DescriptorOf(at)) {
      return Place{Place::Kind::kDescriptor, at, "", *descriptor};
    }
    struct stat facts{};
    const bool is_there = lstat(at.c_str(), &facts) == 0;
    if (is_there && S_ISDIR(facts.st_mode)) {
      return Error(ErrorCode::kUsage, path + " is a directory; name a file in it");
    }
    if (!is_there || S_ISREG(facts.st_mode)) {
      return Place{Place::Kind::kReplaced, at, at.string() + ".part" + std::to_string(getpid())};
    }
    if (!S_ISLNK(facts.st_mode)) return Place{Place::Kind::kWrittenTo, at, ""};
    std::error_code failed;
    const fs::path target = fs::read_symlink(at, failed);
    if (failed) return Error(ErrorCode::kIo, "cannot write " + path + ": " + failed.message());
    at = at.parent_path() / target;  // an absolute one replaces all
  }
  return Error(ErrorCode::kIo, "cannot write " + path + ": " + std::strerror(ELOOP));
}

Result<Fd> OpenPlace(const std::string& path, const Place& place, int flags) {
  // The name of the working file says nothing to anybody.
  const auto failure = [&](ErrorCode code) {
    return Error(code, "cannot write " + path + ": " + std::strerror(errno));
  };
  if (place.kind == Place::Kind::kDescriptor) {
    std::fflush(stdout);  // what was printed before comes before
    Fd file(fcntl(place.descriptor, F_DUPFD_CLOEXEC, 0));
    if (!file.valid()) return failure(ErrorCode::kIo);
    return file;
  }
  const bool replaced = place.kind == Place::Kind::kReplaced;
  Result<Fd> file = OpenFile(replaced ? place.work : place.path, O_WRONLY | flags);
  if (!file.ok()) return failure(file.error().code());
  return file;
}

}  // namespace

Status CheckWholeFile(const std::string& path) {
  ASSIGN_OR_RETURN(const Place place, PlaceOf(path));
  if (place.kind == Place::Kind::kWrittenTo) return {};  // opening a pipe waits for its reader
  ASSIGN_OR_RETURN(const Fd file, OpenPlace(path, place, O_CREAT));
  if (place.kind == Place::Kind::kReplaced) unlink(place.work.c_str());
  return {};
}

Status WriteWholeFile(const std::string& path, const Result<std::string>& text) {
  if (!text.ok()) return text.error();
  ASSIGN_OR_RETURN(const Place place, PlaceOf(path));
  const bool replaced = place.kind == Place::Kind::kReplaced;
  ASSIGN_OR_RETURN(Fd file, OpenPlace(path, place, O_CREAT | O_TRUNC));
  const Status written = WriteAll(file.get(), *text);
  file = Fd();
  if (!written.ok()) {
    if (replaced) unlink(place.work.c_str());
    return written.error().WithContext("cannot write " + path);
  }
  if (!replaced || std::rename(place.work.c_str(), place.path.c_str()) == 0) return {};
  const std::string reason = std::strerror(errno);
  unlink(place.work.c_str());
  return Error(ErrorCode::kIo, "cannot write " + path + ": " + reason);
}

}  // namespace rouse::cli
