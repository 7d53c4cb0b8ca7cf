// The tool's side of child processes: see process.h for the arrangement, keeper.cc for the other
// side.
#include "os/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "os/keeper.h"
#include "os/leftovers.h"
#include "os/process_table.h"

extern char** environ;

namespace rouse::os {
namespace {

using internal::CommandHeader;
using internal::SpawnReply;
using internal::SpawnStep;
using internal::StatusReply;

constexpr int64_t kSpawnTimeoutNs = 30 * kNsPerSecond;
constexpr int64_t kAnswerTimeoutNs = 90 * kNsPerSecond;  // beyond the warden's own patience

std::mutex keeper_mutex;
Fd keeper_socket;         // guarded by keeper_mutex
pid_t keeper_owner = -1;  // the process that forked it: after a fork of ours, not us

Status StartKeeperLocked() {
  if (keeper_socket.valid() && keeper_owner == getpid()) return {};
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Error::FromErrno(errno, "socketpair");
  }
  Fd ours(sockets[0]);
  const Fd theirs(sockets[1]);
  const Fd own_pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!own_pidfd.valid()) {
    return Error::FromErrno(errno, "pidfd_open (needs Linux 5.3 or later)");
  }
  const pid_t pid = fork();
  if (pid < 0) return Error::FromErrno(errno, "cannot start a process");
  if (pid == 0) internal::RunKeeper(theirs.get(), own_pidfd.get());
  keeper_socket = std::move(ours);
  keeper_owner = getpid();
  return {};
}

// Hands the request to the keeper; starts a new one when the old one was killed.
Status SendToKeeper(const int (&descriptors)[internal::kSpawnDescriptors]) {
  const std::lock_guard lock(keeper_mutex);
  for (int attempt = 0; attempt < 2; ++attempt) {
    RETURN_IF_ERROR(StartKeeperLocked());
    const char request = internal::kRequestSpawn;
    if (internal::SendMessage(keeper_socket.get(), &request, 1, descriptors,
                              internal::kSpawnDescriptors)) {
      return {};
    }
    keeper_socket.Reset();
  }
  return Error::FromErrno(errno, "cannot start a process: its keeper does not answer");
}

bool WaitReadable(int fd, int64_t timeout_ns) {
  const MonoTime deadline = MonoNow() + timeout_ns;
  while (true) {
    pollfd event{fd, POLLIN, 0};
    const int64_t left_ms = std::max<int64_t>(0, (deadline - MonoNow() + kNsPerMs - 1) / kNsPerMs);
    const int ready = poll(&event, 1, static_cast<int>(std::min<int64_t>(left_ms, 1'000'000)));
    if (ready > 0) return true;
    if (ready == 0 && MonoNow() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// The environment of the child as "NAME=value" strings, with our own mark (os/leftovers.h).
std::vector<std::string> Environment(const SpawnOptions& options) {
  std::vector<std::string> variables;
  const auto replaced = [&options](std::string_view name) {
    if (name == kOwnerVariable) return true;
    const auto same_name = [name](const auto& pair) { return pair.first == name; };
    return std::any_of(options.environment.begin(), options.environment.end(), same_name) ||
           std::find(options.environment_removed.begin(), options.environment_removed.end(),
                     name) != options.environment_removed.end();
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!replaced(text.substr(0, text.find('=')))) variables.emplace_back(text);
  }
  for (const auto& [name, value] : options.environment) {
    if (name != kOwnerVariable) variables.push_back(name + "=" + value);
  }
  const Result<std::string> token = OwnerToken(ProcRoot::Real(), getpid());
  if (token.ok()) variables.push_back(std::string(kOwnerVariable) + "=" + *token);
  return variables;
}

std::string CgroupFile(const SpawnOptions& options) {
  return options.cgroup_directory.empty() ? "" : options.cgroup_directory + "/cgroup.procs";
}

Result<Fd> CommandFile(const SpawnOptions& options) {
  const std::vector<std::string> variables = Environment(options);
  std::string strings;
  const auto add = [&strings](const std::string& text) {
    strings.append(text.c_str()).push_back(0);
  };
  add(options.working_directory);
  add(CgroupFile(options));
  for (const std::string& argument : options.argv) add(argument);
  for (const std::string& variable : variables) add(variable);
  CommandHeader header;
  header.arguments = static_cast<uint32_t>(options.argv.size());
  header.variables = static_cast<uint32_t>(variables.size());
  header.nice = options.nice.value_or(0);
  header.sets_nice = options.nice.has_value() ? 1 : 0;
  header.removes_cgroup = options.remove_cgroup ? 1 : 0;
  header.string_bytes = strings.size();
  Fd file(memfd_create("rouse-command", MFD_CLOEXEC));
  if (!file.valid()) return Error::FromErrno(errno, "memfd_create");
  RETURN_IF_ERROR(WriteAll(file.get(), {reinterpret_cast<const char*>(&header), sizeof header}));
  RETURN_IF_ERROR(WriteAll(file.get(), strings));
  return file;
}

struct Output {
  Fd for_child;
  Fd for_us;  // a pipe's read end
};

Result<Output> OpenOutput(const OutputTo& to, int inherited) {
  Output output;
  switch (to.kind) {
    case OutputTo::Kind::kInherit: {
      const int copy = fcntl(inherited, F_DUPFD_CLOEXEC, 3);
      if (copy >= 0) {
        output.for_child.Reset(copy);
        return output;
      }
      break;  // closed here: the child gets /dev/null
    }
    case OutputTo::Kind::kFile: {
      ASSIGN_OR_RETURN(output.for_child, OpenFile(to.path, O_WRONLY | O_CREAT | O_APPEND, 0600));
      return output;
    }
    case OutputTo::Kind::kPipe: {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) return Error::FromErrno(errno, "pipe");
      output.for_us.Reset(ends[0]);
      output.for_child.Reset(ends[1]);
      return output;
    }
    case OutputTo::Kind::kNull:
      break;
  }
  ASSIGN_OR_RETURN(output.for_child, OpenFile("/dev/null", O_WRONLY));
  return output;
}

Error SpawnError(const SpawnOptions& options, const SpawnReply& reply) {
  switch (reply.step) {
    case SpawnStep::kCgroup:
      return Error::FromErrno(reply.error_number, "cannot join cgroup " + options.cgroup_directory);
    case SpawnStep::kDirectory:
      return Error::FromErrno(reply.error_number, "cannot enter " + options.working_directory);
    case SpawnStep::kNice:
      return Error::FromErrno(reply.error_number, "cannot set the priority of " + options.argv[0]);
    case SpawnStep::kNone:
    case SpawnStep::kFork:
    case SpawnStep::kExec:
      break;
  }
  return Error::FromErrno(reply.error_number, "cannot start " + options.argv[0]);
}

int64_t ToNs(const timeval& time) { return time.tv_sec * kNsPerSecond + time.tv_usec * kNsPerUs; }

ExitInfo ToExitInfo(const StatusReply& reply) {
  ExitInfo info;
  if (WIFEXITED(reply.wait_status)) info.status = WEXITSTATUS(reply.wait_status);
  if (WIFSIGNALED(reply.wait_status)) info.signal = WTERMSIG(reply.wait_status);
  info.user_cpu_ns = ToNs(reply.usage.ru_utime);
  info.system_cpu_ns = ToNs(reply.usage.ru_stime);
  info.max_rss_bytes = reply.usage.ru_maxrss * 1024;
  info.minor_faults = reply.usage.ru_minflt;
  info.major_faults = reply.usage.ru_majflt;
  info.read_blocks = reply.usage.ru_inblock;
  info.voluntary_context_switches = reply.usage.ru_nvcsw;
  info.involuntary_context_switches = reply.usage.ru_nivcsw;
  return info;
}

}  // namespace

std::string ExitInfo::Describe() const {
  if (status) return "exited with status " + std::to_string(*status);
  if (!signal) return "ended in a way that is not known";
  const char* const name = sigabbrev_np(*signal);
  return "was ended by " +
         (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(*signal));
}

Status StartKeeper() {
  const std::lock_guard lock(keeper_mutex);
  return StartKeeperLocked();
}

Result<Child> Spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return Error(ErrorCode::kUsage, "an empty command cannot be started");
  ASSIGN_OR_RETURN(const Fd command, CommandFile(options));
  ASSIGN_OR_RETURN(Output standard_output, OpenOutput(options.stdout_to, STDOUT_FILENO));
  ASSIGN_OR_RETURN(Output standard_error, OpenOutput(options.stderr_to, STDERR_FILENO));
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Error::FromErrno(errno, "socketpair");
  }
  Child child;
  child.warden_socket_.Reset(sockets[0]);
  Fd for_warden(sockets[1]);
  RETURN_IF_ERROR(SendToKeeper({for_warden.get(), command.get(), standard_output.for_child.get(),
                                standard_error.for_child.get()}));
  for_warden.Reset();  // or its end, should the warden die, would never be seen

  SpawnReply reply;
  std::vector<Fd> descriptors;
  if (!WaitReadable(child.warden_socket_.get(), kSpawnTimeoutNs)) {
    return Error(ErrorCode::kTimeout, "starting " + options.argv[0] + " takes more than 30 s");
  }
  if (internal::ReceiveMessage(child.warden_socket_.get(), &reply, sizeof reply, descriptors) !=
      static_cast<ssize_t>(sizeof reply)) {
    return Error(ErrorCode::kInternal, "starting " + options.argv[0] + ": its warden ended");
  }
  if (reply.error_number != 0) return SpawnError(options, reply);
  if (descriptors.empty()) return Error(ErrorCode::kUnsupported, "pidfd_open needs Linux 5.3");
  child.pid_ = reply.pid;
  child.warden_pid_ = reply.warden_pid;
  child.forked_at_ = MonoTime{reply.forked_at_ns};
  child.pidfd_ = std::move(descriptors[0]);
  child.stdout_pipe_ = std::move(standard_output.for_us);
  child.stderr_pipe_ = std::move(standard_error.for_us);
  child.start_time_ticks_ = reply.start_time_ticks;
  return child;
}

Child::~Child() { Release(); }

// Member by member: pid_ decides whether there is anything to release.
Child::Child(Child&& other) noexcept { *this = std::move(other); }

Child& Child::operator=(Child&& other) noexcept {
  if (this == &other) return *this;
  Release();
  pid_ = std::exchange(other.pid_, 0);
  warden_pid_ = std::exchange(other.warden_pid_, 0);
  pidfd_ = std::move(other.pidfd_);
  warden_socket_ = std::move(other.warden_socket_);
  start_time_ticks_ = other.start_time_ticks_;
  forked_at_ = other.forked_at_;
  stdout_pipe_ = std::move(other.stdout_pipe_);
  stderr_pipe_ = std::move(other.stderr_pipe_);
  exit_ = std::move(other.exit_);
  return *this;
}

void Child::Release() {
  if (pid_ > 0 && warden_socket_.valid()) [[maybe_unused]]
    const auto ended = KillTree();
  pid_ = 0;
  warden_socket_.Reset();
}

Status Child::Signal(int signal) const {
  if (syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) == 0) return {};
  if (errno == ESRCH) return {};
  return Error::FromErrno(errno, "cannot signal process " + std::to_string(pid_));
}

bool Child::HasExited() const {
  pollfd event{pidfd_.get(), POLLIN, 0};
  return poll(&event, 1, 0) > 0;
}

Result<ExitInfo> Child::AskWarden(char request) {
  StatusReply reply;
  std::vector<Fd> none;
  const std::string what = "process " + std::to_string(pid_);
  if (!internal::SendMessage(warden_socket_.get(), &request, 1, nullptr, 0)) {
    return Error(ErrorCode::kInternal, what + ": its warden was killed");
  }
  if (!WaitReadable(warden_socket_.get(), kAnswerTimeoutNs)) {
    return Error(ErrorCode::kTimeout, what + " does not end, even by SIGKILL");
  }
  if (internal::ReceiveMessage(warden_socket_.get(), &reply, sizeof reply, none) !=
      static_cast<ssize_t>(sizeof reply)) {
    return Error(ErrorCode::kInternal, what + ": its warden was killed");
  }
  if (reply.ended == 0) return Error(ErrorCode::kTimeout, what + " still runs");
  exit_ = ToExitInfo(reply);
  return *exit_;
}

Result<ExitInfo> Child::Wait(MonoTime deadline) {
  if (exit_) return *exit_;
  if (!WaitReadable(pidfd_.get(), std::max<int64_t>(0, deadline - MonoNow()))) {
    return Error(ErrorCode::kTimeout, "process " + std::to_string(pid_) + " still runs");
  }
  return AskWarden(internal::kRequestStatus);
}

Result<ExitInfo> Child::Stop(int64_t grace_ns) {
  RETURN_IF_ERROR(Signal(SIGTERM));
  const Result<ExitInfo> ended = Wait(MonoNow() + grace_ns);
  const Result<ExitInfo> killed = KillTree();
  // How it ended by itself says more than that all was gone afterwards.
  return ended.ok() ? ended : killed;
}

Result<ExitInfo> Child::KillTree() { return AskWarden(internal::kRequestKillTree); }

std::vector<int> Child::Tree() const {
  const std::vector<internal::ProcessLink> links = internal::ReadProcessLinks(ProcRoot::Real());
  std::vector<int> tree = internal::DescendantsOf(links, warden_pid_);
  tree.erase(tree.begin());  // the warden itself
  const auto is_zombie = [&links](int pid) {
    return std::any_of(links.begin(), links.end(), [pid](const internal::ProcessLink& link) {
      return link.pid == pid && link.zombie;
    });
  };
  std::erase_if(tree, is_zombie);
  return tree;
}

}  // namespace rouse::os
