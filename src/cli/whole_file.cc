#include "cli/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/fd.h"

namespace rouse::cli {

Status WriteWholeFile(const std::string& path, const Result<std::string>& text) {
  if (!text.ok()) return text.error();
  // What is no plain file (/dev/stdout, a pipe) cannot be replaced, only written to.
  struct stat facts{};
  const bool special = stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode);
  const std::string work = special ? path : path + ".part" + std::to_string(getpid());
  ASSIGN_OR_RETURN(Fd file, OpenFile(work, O_WRONLY | O_CREAT | O_TRUNC));
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
