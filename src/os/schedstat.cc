#include "os/schedstat.h"

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// 8150052 118220 31
// All three are 0 when the kernel was built or booted without schedstats; a thread that has run for
// no time at all cannot be reading this, but another one may not have run yet.
Status Add(const std::string& text, const std::string& path, Schedstat& sum) {
  const std::vector<std::string_view> fields = SplitBlanks(text);
  if (fields.size() < 2) return Error(ErrorCode::kCorrupt, "/" + path + " is cut");
  ASSIGN_OR_RETURN(const int64_t cpu_ns, ParseKernelNumber(fields[0], path, "cpu time"));
  ASSIGN_OR_RETURN(const int64_t wait_ns, ParseKernelNumber(fields[1], path, "run queue wait"));
  sum.cpu_ns = sum.cpu_ns.value_or(0) + cpu_ns;
  sum.run_queue_wait_ns = sum.run_queue_wait_ns.value_or(0) + wait_ns;
  if (fields.size() < 3) return {};
  ASSIGN_OR_RETURN(const int64_t slices, ParseKernelNumber(fields[2], path, "time slices"));
  sum.time_slices = sum.time_slices.value_or(0) + slices;
  return {};
}

}  // namespace

Result<Schedstat> ReadSchedstat(const ProcRoot& root, int pid) {
  const std::string tasks = "proc/" + std::to_string(pid) + "/task";
  Schedstat sum;
  std::optional<Error> failure;
  for (const std::string& tid : root.List(tasks)) {
    const std::string path = tasks + "/" + tid + "/schedstat";
    const Result<std::string> text = root.Read(path);
    if (!text.ok()) {
      failure = text.error();  // a thread that ended just now, or a kernel without schedstats
      continue;
    }
    RETURN_IF_ERROR(Add(*text, path, sum));
  }
  if (sum.cpu_ns) return sum;
  if (failure) return *failure;
  return Error(ErrorCode::kNotFound, "cannot read /" + tasks + ": no such process");
}

}  // namespace rouse::os
