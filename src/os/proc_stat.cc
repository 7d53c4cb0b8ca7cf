#include "os/proc_stat.h"

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// Numbers of the fields as proc(5) counts them.
constexpr size_t kFirstAfterName = 3;
struct NumberedField {
  size_t number;
  std::string_view name;
  std::optional<int64_t> ProcStat::* field;
};
constexpr NumberedField kFields[] = {
    {4, "ppid", &ProcStat::parent_pid},
    {10, "minflt", &ProcStat::minor_faults},
    {11, "cminflt", &ProcStat::children_minor_faults},
    {12, "majflt", &ProcStat::major_faults},
    {13, "cmajflt", &ProcStat::children_major_faults},
    {14, "utime", &ProcStat::user_ticks},
    {15, "stime", &ProcStat::system_ticks},
    {16, "cutime", &ProcStat::children_user_ticks},
    {17, "cstime", &ProcStat::children_system_ticks},
    {20, "num_threads", &ProcStat::threads},
    {22, "starttime", &ProcStat::start_time_ticks},
    {42, "delayacct_blkio_ticks", &ProcStat::block_io_delay_ticks},
};

// 4121 (llama-server) S 4120 4121 4121 0 -1 4194304 12031 17 23 2 118 41 3 1 20 0 9 0 157050 ...
// The name may hold blanks and parentheses: the numbers begin after the last ')'.
Result<ProcStat> Parse(const std::string& text, const std::string& path) {
  const size_t name_start = text.find('(');
  const size_t name_end = text.rfind(')');
  if (name_start == std::string::npos || name_end == std::string::npos || name_end < name_start) {
    return Error(ErrorCode::kCorrupt, "/" + path + " has no process name in it");
  }
  const std::vector<std::string_view> fields =
      SplitBlanks(std::string_view(text).substr(name_end + 1));
  if (fields.empty() || fields[0].size() != 1) {
    return Error(ErrorCode::kCorrupt, "/" + path + " has no process state in it");
  }
  ProcStat stat;
  stat.comm = text.substr(name_start + 1, name_end - name_start - 1);
  stat.state = fields[0][0];
  for (const NumberedField& field : kFields) {
    const size_t index = field.number - kFirstAfterName;
    if (index >= fields.size()) continue;
    ASSIGN_OR_RETURN(stat.*field.field, ParseKernelNumber(fields[index], path, field.name));
  }
  return stat;
}

Result<ProcStat> ReadAndParse(const ProcRoot& root, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, root.Read(path));
  return Parse(text, path);
}

}  // namespace

Result<ProcStat> ReadProcStat(const ProcRoot& root, int pid) {
  return ReadAndParse(root, "proc/" + std::to_string(pid) + "/stat");
}

Result<ProcStat> ReadThreadStat(const ProcRoot& root, int pid, int tid) {
  return ReadAndParse(root,
                      "proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/stat");
}

}  // namespace rouse::os
