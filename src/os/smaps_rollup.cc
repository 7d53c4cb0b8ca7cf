#include "os/smaps_rollup.h"

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// 55907de26000-7fffa555d000 ---p 00000000 00:00 0                          [rollup]
// Rss:              181028 kB
// Pss:              132870 kB
// Pss_Anon:          84712 kB
// Pss_File:          48158 kB
// Anonymous:         84712 kB
// Swap:                  0 kB
// Locked:                0 kB
constexpr KeyedField<SmapsRollup> kFields[] = {
    {"Rss", &SmapsRollup::rss_bytes},
    {"Pss", &SmapsRollup::pss_bytes},
    {"Pss_Anon", &SmapsRollup::pss_anon_bytes},
    {"Pss_File", &SmapsRollup::pss_file_bytes},
    {"Anonymous", &SmapsRollup::anonymous_bytes},
    {"Swap", &SmapsRollup::swap_bytes},
    {"Locked", &SmapsRollup::locked_bytes},
};

}  // namespace

Result<SmapsRollup> ReadSmapsRollup(const ProcRoot& root, int pid) {
  const std::string path = "proc/" + std::to_string(pid) + "/smaps_rollup";
  ASSIGN_OR_RETURN(const std::string text, root.Read(path));
  SmapsRollup rollup;
  RETURN_IF_ERROR(FillKeyed(text, path, ':', kFields, rollup));
  return rollup;
}

}  // namespace rouse::os
