#include "os/vmstat.h"

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// pgpgin 2941509
// pgpgout 4462140
// pswpin 0
// pgfault 1183402
// pgmajfault 2209
// pgsteal_kswapd 0
// workingset_refault_file 492822
constexpr KeyedField<Vmstat> kFields[] = {
    {"pgpgin", &Vmstat::paged_in_bytes},
    {"pgpgout", &Vmstat::paged_out_bytes},
    {"pswpin", &Vmstat::swapped_in_pages},
    {"pswpout", &Vmstat::swapped_out_pages},
    {"pgfault", &Vmstat::faults},
    {"pgmajfault", &Vmstat::major_faults},
    {"pgsteal_kswapd", &Vmstat::reclaimed_by_kswapd_pages},
    {"pgsteal_direct", &Vmstat::reclaimed_directly_pages},
    {"pgsteal_proactive", &Vmstat::reclaimed_proactively_pages},
    {"workingset_refault_file", &Vmstat::refaulted_file_pages},
    {"workingset_refault_anon", &Vmstat::refaulted_anonymous_pages},
    {"drop_pagecache", &Vmstat::cache_drops},
    {"oom_kill", &Vmstat::out_of_memory_kills},
};

}  // namespace

Result<Vmstat> ReadVmstat(const ProcRoot& root) {
  ASSIGN_OR_RETURN(const std::string text, root.Read("proc/vmstat"));
  Vmstat vmstat;
  RETURN_IF_ERROR(FillKeyed(text, "proc/vmstat", ' ', kFields, vmstat));
  // The only two that the kernel counts in KiB.
  for (auto* const field : {&vmstat.paged_in_bytes, &vmstat.paged_out_bytes}) {
    if (*field) *field = **field * 1024;
  }
  return vmstat;
}

}  // namespace rouse::os
