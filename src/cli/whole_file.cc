#include "cli/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/fd.h"

namespace rouse::cli {

namespace {

struct Place {
  // What is no plain file (/dev/stdout, a pipe) cannot be replaced, only written to.
  bool special = false;
  std::string work;  // what is written, to be renamed when it is complete
};

Place PlaceOf(const std::string& path) {
  struct stat facts{};
  const bool special = stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode);
  return {.special = special, .work = special ? path : path + ".part" + std::to_string(getpid())};
}

Result<Fd> OpenPlace(const std::string& path, const Place& place, int flags) {
  Result<Fd> file = OpenFile(place.work, O_WRONLY | flags);
  if (file.ok()) return file;
  // The name of the working file says nothing to anybody.
  return Error(file.error().code(), "cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace

Status CheckWholeFile(const std::string& path) {
  const Place place = PlaceOf(path);
  struct stat facts{};
  if (stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return Error(ErrorCode::kUsage, path + " is a directory; name a file in it");
  }
  if (place.special) return {};  // opening a pipe waits for its reader
  const Result<Fd> file = OpenPlace(path, place, O_CREAT);
  if (!file.ok()) return file.error();
  unlink(place.work.c_str());
  return {};
}

Status WriteWholeFile(const std::string& path, const Result<std::string>& text) {
  if (!text.ok()) return text.error();
  const Place place = PlaceOf(path);
  const auto& [special, work] = place;
  ASSIGN_OR_RETURN(Fd file, OpenPlace(path, place, O_CREAT | O_TRUNC));
  const Status written = WriteAll(file.get(), *text);
  file = Fd();
  if (!written.ok()) {
    if (!special) unlink(work.c_str());
    return written.error().WithContext("cannot write " + path);
  }
  if (special || std::rename(work.c_str(), path.c_str()) == 0) return {};
  const std::string reason = std::strerror(errno);
  unlink(work.c_str());
  return Error(ErrorCode::kIo, "cannot write " + path + ": " + reason);
}

}  // namespace rouse::cli
