#include "os/proc_io.h"

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// rchar: 323934931
// wchar: 323929600
// syscr: 632687
// syscw: 632675
// read_bytes: 98304
// write_bytes: 323932160
// cancelled_write_bytes: 4096
constexpr KeyedField<ProcIo> kFields[] = {
    {"rchar", &ProcIo::read_syscall_bytes},
    {"wchar", &ProcIo::written_syscall_bytes},
    {"syscr", &ProcIo::read_syscalls},
    {"syscw", &ProcIo::write_syscalls},
    {"read_bytes", &ProcIo::read_bytes},
    {"write_bytes", &ProcIo::write_bytes},
    {"cancelled_write_bytes", &ProcIo::cancelled_write_bytes},
};

}  // namespace

Result<ProcIo> ReadProcIo(const ProcRoot& root, int pid) {
  const std::string path = "proc/" + std::to_string(pid) + "/io";
  ASSIGN_OR_RETURN(const std::string text, root.Read(path));
  ProcIo io;
  RETURN_IF_ERROR(FillKeyed(text, path, ':', kFields, io));
  return io;
}

}  // namespace rouse::os
