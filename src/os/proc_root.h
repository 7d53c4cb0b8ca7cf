// ProcRoot: the directory under which the kernel's files are found as `proc/...` and `sys/...`.
// "/" in use, a fake tree in tests. It is the one seam of os/: every reader of a kernel file takes
// one and opens paths relative to it, so that no reader can reach past a fixture.
//
// What a reader returns, the same for all of them: a struct whose fields are optional. A field that
// this kernel does not have is empty, never 0. A file that is missing or not ours to read is an
// Error (kNotFound, kPermission); a field that is there and cannot be parsed is kCorrupt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace rouse::os {

class ProcRoot {
 public:
  // Opens the directory that has `proc` and `sys` in it.
  static Result<ProcRoot> Open(const std::string& directory);
  // "/", opened once. Safe from any thread.
  static const ProcRoot& Real();

  // The whole of a small file; `path` is relative: "proc/meminfo". Errors name "/proc/meminfo".
  Result<std::string> Read(const std::string& path) const;
  // The same for a process: ReadOf(71, "io") is proc/71/io. A process that has ended is kNotFound.
  Result<std::string> ReadOf(int pid, std::string_view file) const;

  // The names in a directory, sorted; empty when it is missing or not ours to list.
  std::vector<std::string> List(const std::string& path) const;
  // The processes under proc, in ascending order.
  std::vector<int> Pids() const;

  int fd() const { return directory_.get(); }

 private:
  explicit ProcRoot(Fd directory) : directory_(std::move(directory)) {}
  Fd directory_;
};

}  // namespace rouse::os
