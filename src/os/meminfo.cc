#include "os/meminfo.h"

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// MemTotal:       24684084 kB
// MemFree:        21450076 kB
// MemAvailable:   23237772 kB
// Buffers:           28056 kB
// Cached:          1867216 kB
// Active(file):    1420344 kB
// Dirty:              1864 kB
// Mlocked:               0 kB
constexpr KeyedField<Meminfo> kFields[] = {
    {"MemTotal", &Meminfo::total_bytes},
    {"MemFree", &Meminfo::free_bytes},
    {"MemAvailable", &Meminfo::available_bytes},
    {"Buffers", &Meminfo::buffers_bytes},
    {"Cached", &Meminfo::cached_bytes},
    {"Dirty", &Meminfo::dirty_bytes},
    {"Writeback", &Meminfo::writeback_bytes},
    {"AnonPages", &Meminfo::anonymous_bytes},
    {"Mapped", &Meminfo::mapped_bytes},
    {"Shmem", &Meminfo::shmem_bytes},
    {"Mlocked", &Meminfo::locked_bytes},
    {"Unevictable", &Meminfo::unevictable_bytes},
    {"Active(file)", &Meminfo::active_file_bytes},
    {"Inactive(file)", &Meminfo::inactive_file_bytes},
    {"SwapTotal", &Meminfo::swap_total_bytes},
    {"SwapFree", &Meminfo::swap_free_bytes},
};

}  // namespace

Result<Meminfo> ReadMeminfo(const ProcRoot& root) {
  ASSIGN_OR_RETURN(const std::string text, root.Read("proc/meminfo"));
  Meminfo meminfo;
  RETURN_IF_ERROR(FillKeyed(text, "proc/meminfo", ':', kFields, meminfo));
  return meminfo;
}

}  // namespace rouse::os
