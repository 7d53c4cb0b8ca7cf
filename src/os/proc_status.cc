#include "os/proc_status.h"

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// VmHWM:    181284 kB
// VmRSS:    181028 kB
// RssAnon:   84712 kB
// RssFile:   96316 kB
// RssShmem:      0 kB
// VmSwap:        0 kB
// VmLck:         0 kB
// Threads:	9
// voluntary_ctxt_switches:	412
// nonvoluntary_ctxt_switches:	37
constexpr KeyedField<ProcStatus> kFields[] = {
    {"VmHWM", &ProcStatus::peak_rss_bytes},
    {"VmRSS", &ProcStatus::rss_bytes},
    {"RssAnon", &ProcStatus::rss_anon_bytes},
    {"RssFile", &ProcStatus::rss_file_bytes},
    {"RssShmem", &ProcStatus::rss_shmem_bytes},
    {"VmSwap", &ProcStatus::swap_bytes},
    {"VmLck", &ProcStatus::locked_bytes},
    {"Threads", &ProcStatus::threads},
    {"voluntary_ctxt_switches", &ProcStatus::voluntary_context_switches},
    {"nonvoluntary_ctxt_switches", &ProcStatus::involuntary_context_switches},
};

// Uid:	1000	1001	1000	1000   (real, effective, saved, file system)
Status FillUser(const std::string& text, const std::string& path, ProcStatus& status) {
  for (const std::string_view line : SplitAt(text, '\n')) {
    if (!line.starts_with("Uid:")) continue;
    const std::vector<std::string_view> numbers = SplitBlanks(line.substr(4));
    if (numbers.size() < 2) return Error(ErrorCode::kCorrupt, "/" + path + ": Uid is cut");
    ASSIGN_OR_RETURN(status.user_id, ParseKernelNumber(numbers[1], path, "Uid"));
  }
  return {};
}

Result<ProcStatus> ReadAndParse(const ProcRoot& root, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, root.Read(path));
  ProcStatus status;
  RETURN_IF_ERROR(FillKeyed(text, path, ':', kFields, status));
  RETURN_IF_ERROR(FillUser(text, path, status));
  return status;
}

}  // namespace

Result<ProcStatus> ReadProcStatus(const ProcRoot& root, int pid) {
  return ReadAndParse(root, "proc/" + std::to_string(pid) + "/status");
}

Result<ProcStatus> ReadThreadStatus(const ProcRoot& root, int pid, int tid) {
  return ReadAndParse(root,
                      "proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/status");
}

}  // namespace rouse::os
