#include "os/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/strings.h"
#include "os/proc_root.h"
#include "os/process.h"

namespace rouse::os {
namespace internal {
namespace {

// The fields of /proc/PID/stat from the third on:
//   4121 (llama-server) S 4120 4121 4121 0 -1 ...
// The name may hold blanks and parentheses, so the fields begin after the last ')'.
std::vector<std::string_view> FieldsAfterName(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return {};
  return SplitAt(TrimBlanks(stat.substr(name_end + 1)), ' ');
}

}  // namespace

std::vector<ProcessLink> ReadProcessLinks(const ProcRoot& root) {
  std::vector<ProcessLink> links;
  for (const int pid : root.Pids()) {
    const Result<std::string> stat = root.ReadOf(pid, "stat");
    if (!stat.ok()) continue;
    const std::vector<std::string_view> fields = FieldsAfterName(*stat);
    if (fields.size() < 2) continue;
    const std::optional<int64_t> parent = ParseInt64(fields[1]);
    if (!parent) continue;
    links.push_back({pid, static_cast<int>(*parent), fields[0] == "Z" || fields[0] == "X"});
  }
  return links;
}

Result<int64_t> StartTicks(const ProcRoot& root, int pid) {
  ASSIGN_OR_RETURN(const std::string stat, root.ReadOf(pid, "stat"));
  const std::vector<std::string_view> fields = FieldsAfterName(stat);
  constexpr size_t kStartTime = 22 - 3;
  const std::optional<int64_t> ticks =
      fields.size() > kStartTime ? ParseInt64(fields[kStartTime]) : std::nullopt;
  if (!ticks) {
    return Error(ErrorCode::kCorrupt, "/proc/" + std::to_string(pid) + "/stat has no start time");
  }
  return *ticks;
}

std::vector<int> DescendantsOf(const std::vector<ProcessLink>& links, int root) {
  std::vector<int> tree{root};
  for (size_t i = 0; i < tree.size(); ++i) {
    for (const ProcessLink& link : links) {
      if (link.parent_pid == tree[i] && link.pid != root) tree.push_back(link.pid);
    }
  }
  return tree;
}

}  // namespace internal

namespace {

// The inodes of sockets that listen on `port`, from /proc/net/tcp and tcp6:
//   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
//    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 20451
//    1
std::set<std::string> ListeningInodes(int port) {
  std::set<std::string> inodes;
  char wanted[8];
  std::snprintf(wanted, sizeof wanted, ":%04X", static_cast<unsigned>(port));
  for (const char* const file : {"proc/net/tcp", "proc/net/tcp6"}) {
    const Result<std::string> table = ProcRoot::Real().Read(file);
    if (!table.ok()) continue;
    for (const std::string_view line : SplitAt(*table, '\n')) {
      std::vector<std::string_view> fields;
      for (const std::string_view field : SplitAt(line, ' ')) {
        if (!field.empty()) fields.push_back(field);
      }
      if (fields.size() < 10 || fields[3] != "0A" || !fields[1].ends_with(wanted)) continue;
      inodes.insert("socket:[" + std::string(fields[9]) + "]");
    }
  }
  return inodes;
}

bool HoldsOneOf(int pid, const std::set<std::string>& sockets) {
  const std::string directory = "proc/" + std::to_string(pid) + "/fd";
  for (const std::string& name : ProcRoot::Real().List(directory)) {
    char target[64];
    const std::string link = directory + "/" + name;
    const ssize_t length = readlinkat(ProcRoot::Real().fd(), link.c_str(), target, sizeof target);
    if (length > 0 && sockets.contains(std::string(target, static_cast<size_t>(length)))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<int> ProcessTree(int pid) {
  const std::vector<internal::ProcessLink> links = internal::ReadProcessLinks(ProcRoot::Real());
  const auto is_it = [pid](const internal::ProcessLink& link) {
    return link.pid == pid && !link.zombie;
  };
  if (std::none_of(links.begin(), links.end(), is_it)) return {};
  return internal::DescendantsOf(links, pid);
}

Result<int64_t> ProcessStartTicks(int pid) {
  ASSIGN_OR_RETURN(const std::string stat, ProcRoot::Real().ReadOf(pid, "stat"));
  const size_t state = stat.rfind(") ");
  if (state != std::string::npos && (stat[state + 2] == 'Z' || stat[state + 2] == 'X')) {
    return Error(ErrorCode::kNotFound, "process " + std::to_string(pid) + " has ended");
  }
  return internal::StartTicks(ProcRoot::Real(), pid);
}

std::optional<int> PidListeningOn(int port) {
  const std::set<std::string> sockets = ListeningInodes(port);
  if (sockets.empty()) return std::nullopt;
  for (const int pid : ProcRoot::Real().Pids()) {
    if (HoldsOneOf(pid, sockets)) return pid;
  }
  return std::nullopt;
}

std::string ReadTail(const std::string& path, int64_t limit_bytes) {
  const Result<Fd> file = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!file.ok()) return "";
  struct stat facts{};
  if (fstat(file->get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return "";
  const int64_t start = std::max<int64_t>(0, facts.st_size - limit_bytes);
  std::string text(static_cast<size_t>(facts.st_size - start), '\0');
  const ssize_t count = pread(file->get(), text.data(), text.size(), start);
  if (count <= 0) return "";
  text.resize(static_cast<size_t>(count));
  if (start > 0) {
    const size_t line_end = text.find('\n');
    if (line_end != std::string::npos) text.erase(0, line_end + 1);
  }
  return text;
}

}  // namespace rouse::os
