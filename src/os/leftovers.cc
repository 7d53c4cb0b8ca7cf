#include "os/leftovers.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "base/fd.h"
#include "base/strings.h"
#include "base/time.h"
#include "os/process_table.h"

namespace rouse::os {
namespace {

constexpr int64_t kPatienceNs = 2 * kNsPerSecond;
constexpr int64_t kBetweenTriesNs = 2 * kNsPerMs;

// "pid:[4026531836]" -> "4026531836"
std::string PidNamespace(const ProcRoot& root) {
  std::array<char, 64> link{};
  const ssize_t length = readlinkat(root.fd(), "proc/self/ns/pid", link.data(), link.size());
  if (length <= 0) return "";
  const std::string_view text(link.data(), static_cast<size_t>(length));
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return "";
  return std::string(text.substr(open + 1, close - open - 1));
}

struct Owner {
  int pid = 0;
  int64_t start_ticks = 0;
};

// The owner that a process's environment names, when it is of this pid namespace.
std::optional<Owner> OwnerOf(const ProcRoot& root, int pid, const std::string& pid_namespace) {
  const Result<std::string> environment = root.ReadOf(pid, "environ");
  if (!environment.ok()) return std::nullopt;
  const std::string wanted = std::string(kOwnerVariable) + "=";
  for (const std::string_view variable : SplitAt(*environment, '\0')) {
    if (!variable.starts_with(wanted)) continue;
    const std::vector<std::string_view> parts = SplitAt(variable.substr(wanted.size()), ':');
    if (parts.size() != 3 || parts[0] != pid_namespace) return std::nullopt;
    const std::optional<int64_t> owner_pid = ParseInt64(parts[1]);
    const std::optional<int64_t> ticks = ParseInt64(parts[2]);
    if (!owner_pid || !ticks || *owner_pid <= 0) return std::nullopt;
    return Owner{static_cast<int>(*owner_pid), *ticks};
  }
  return std::nullopt;
}

// Ended, its pid taken by another, or a zombie that nobody has waited for. A pid that /proc does
// not show may still live (hidepid): EndLeftovers asks the kernel as well.
bool HasEnded(const ProcRoot& root, const Owner& owner) {
  const Result<std::string> stat = root.ReadOf(owner.pid, "stat");
  if (!stat.ok()) return stat.error().code() == ErrorCode::kNotFound;
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return false;
  const std::string_view state = std::string_view(*stat).substr(name_end + 1);
  if (state.starts_with(" Z") || state.starts_with(" X")) return true;
  const Result<int64_t> ticks = internal::StartTicks(root, owner.pid);
  return ticks.ok() && *ticks != owner.start_ticks;
}

std::vector<int> SelfAndAncestors(const std::vector<internal::ProcessLink>& links, int self) {
  std::vector<int> line{self};
  for (size_t i = 0; i < line.size() && line.size() <= links.size(); ++i) {
    const auto link = std::find_if(links.begin(), links.end(),
                                   [&](const auto& each) { return each.pid == line[i]; });
    if (link != links.end() && link->parent_pid > 0) line.push_back(link->parent_pid);
  }
  return line;
}

// By a descriptor that is opened first and a token that is read after it: so the signal reaches the
// process that was looked at, and never one that got its pid meanwhile.
bool Kill(const ProcRoot& root, const Leftover& leftover, const std::string& pid_namespace) {
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, leftover.pid, 0)));
  if (!pidfd.valid()) return false;
  const std::optional<Owner> owner = OwnerOf(root, leftover.pid, pid_namespace);
  if (!owner || owner->pid != leftover.owner_pid || !HasEnded(root, *owner)) return false;
  return syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace

Result<std::string> OwnerToken(const ProcRoot& root, int pid) {
  const std::string pid_namespace = PidNamespace(root);
  if (pid_namespace.empty()) {
    return Error(ErrorCode::kUnsupported, "/proc/self/ns/pid cannot be read");
  }
  ASSIGN_OR_RETURN(const int64_t ticks, internal::StartTicks(root, pid));
  return pid_namespace + ":" + std::to_string(pid) + ":" + std::to_string(ticks);
}

std::vector<Leftover> FindLeftovers(const ProcRoot& root) {
  std::vector<Leftover> found;
  const std::string pid_namespace = PidNamespace(root);
  if (pid_namespace.empty()) return found;
  std::vector<int> spared;
  for (const int pid : root.Pids()) {
    const std::optional<Owner> owner = OwnerOf(root, pid, pid_namespace);
    if (!owner || !HasEnded(root, *owner)) continue;
    if (spared.empty()) spared = SelfAndAncestors(internal::ReadProcessLinks(root), getpid());
    if (std::find(spared.begin(), spared.end(), pid) != spared.end()) continue;
    const Result<std::string> comm = root.ReadOf(pid, "comm");
    found.push_back({pid, comm.ok() ? std::string(TrimBlanks(*comm)) : "", owner->pid});
  }
  return found;
}

std::vector<Leftover> EndLeftovers() {
  const ProcRoot& root = ProcRoot::Real();
  const std::string pid_namespace = PidNamespace(root);
  std::vector<Leftover> ended;
  const MonoTime give_up = MonoNow() + kPatienceNs;
  while (MonoNow() < give_up) {
    bool any = false;
    for (const Leftover& leftover : FindLeftovers(root)) {
      // hidepid hides other users' processes from /proc, not from kill.
      if (kill(leftover.owner_pid, 0) == 0 || errno != ESRCH) {
        if (!internal::StartTicks(root, leftover.owner_pid).ok()) continue;
      }
      if (!Kill(root, leftover, pid_namespace)) continue;
      any = true;
      const auto same = [&](const Leftover& each) { return each.pid == leftover.pid; };
      if (std::none_of(ended.begin(), ended.end(), same)) ended.push_back(leftover);
    }
    if (!any) break;
    RealClock().SleepFor(kBetweenTriesNs);
  }
  return ended;
}

}  // namespace rouse::os
