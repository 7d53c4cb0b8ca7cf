// Shared by the page_cache_*.cc files only.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "os/page_cache.h"

namespace rouse::os::internal {

inline const int64_t kPageBytes = sysconf(_SC_PAGESIZE);

struct OpenedFile {
  Fd fd;
  struct stat facts{};
};

// Opens for reading without blocking; kUnsupported for what is not a regular file.
Result<OpenedFile> OpenRegularFile(const std::string& path);

// By cachestat alone; errors as errno has them (ENOSYS: kUnsupported, EPERM: kPermission).
Result<int64_t> CachedPages(int fd, ByteRange range);

}  // namespace rouse::os::internal
