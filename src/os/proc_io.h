// /proc/PID/io: what a process and the children that it has waited for have read and written.
// Readable by the same user and by root (ptrace access). About 6 us.
#pragma once

#include <cstdint>
#include <optional>

#include "os/proc_root.h"

namespace rouse::os {

struct ProcIo {
  std::optional<int64_t> read_syscall_bytes;  // rchar: all read() calls, page cache hits included
  std::optional<int64_t> written_syscall_bytes;  // wchar
  std::optional<int64_t> read_syscalls;          // syscr
  std::optional<int64_t> write_syscalls;         // syscw
  // What the process caused to be fetched from storage. Read-ahead counts for the process that
  // triggered it, whoever uses the pages; a page that another process is fetching already does not.
  std::optional<int64_t> read_bytes;
  std::optional<int64_t> write_bytes;
  std::optional<int64_t> cancelled_write_bytes;
};

Result<ProcIo> ReadProcIo(const ProcRoot& root, int pid);

}  // namespace rouse::os
