// A directory for a server's compiled kernels that is ours: the variable that the plan names
// (CUDA_CACHE_PATH, TRITON_CACHE_DIR, XDG_CACHE_HOME, ...) points the server at it, so that it can
// be emptied and weighed without touching the user's own cache.
//
// Not a cache of rouse's: nothing is read from it or written to it here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace rouse::lab {

class CompileCache {
 public:
  // A new, empty directory for this process. Those of tools that have died are removed first.
  static Result<std::unique_ptr<CompileCache>> Make();
  // Removes directories of tools that have died; returns them.
  static std::vector<std::string> RemoveStale();
  // Removes the directory with all that is in it.
  ~CompileCache();
  CompileCache(const CompileCache&) = delete;
  CompileCache& operator=(const CompileCache&) = delete;

  const std::string& directory() const { return directory_; }

  struct Contents {
    int64_t files = 0;
    int64_t bytes = 0;
  };
  // Regular files below the directory; links are not followed.
  Result<Contents> Read() const;
  Status Empty() const;

 private:
  CompileCache(std::string directory, Fd lock)
      : directory_(std::move(directory)), lock_(std::move(lock)) {}
  std::string directory_;
  Fd lock_;  // of the directory
};

}  // namespace rouse::lab
