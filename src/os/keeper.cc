// The keeper's and the wardens' side. This code runs in processes that were forked from a program
// which may have had threads and which may be large: it takes no locks of ours, logs nothing, and
// never returns into the tool's code.
#include "os/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/strings.h"
#include "base/time.h"
#include "os/process.h"
#include "os/process_table.h"

namespace rouse::os::internal {
namespace {

constexpr int64_t kBetweenKillsNs = kNsPerMs;
// A process that is stuck in the kernel ends when its I/O does; we wait for that, but not forever.
constexpr int64_t kKillPatienceNs = 60 * kNsPerSecond;

// So that `pkill -f 'rouse measure'` ends the tool and not what cleans up after it, and so that
// people see in ps what this is.
void TakeName(const char* name) {
  prctl(PR_SET_NAME, name);
  // Fields 48 and 49 of stat: where the arguments lie in our own memory.
  const Result<std::string> stat = ReadSmallFile("/proc/self/stat");
  if (!stat.ok()) return;
  const size_t comm_end = stat->rfind(')');
  if (comm_end == std::string::npos) return;
  const std::vector<std::string_view> fields = SplitAt(TrimBlanks(stat->substr(comm_end + 2)), ' ');
  if (fields.size() < 47) return;
  const std::optional<int64_t> start = ParseInt64(fields[45]);
  const std::optional<int64_t> end = ParseInt64(fields[46]);
  if (!start || !end || *start <= 0 || *end <= *start) return;
  // The kernel tells the address as a number. NOLINTNEXTLINE(performance-no-int-to-ptr)
  auto* const bytes = reinterpret_cast<char*>(static_cast<uintptr_t>(*start));
  const auto size = static_cast<size_t>(*end - *start);
  std::memset(bytes, 0, size);
  const std::string_view shown = std::string_view(name).substr(0, size - 1);
  std::copy(shown.begin(), shown.end(), bytes);
}

// Not ProcRoot::Real(): its descriptor belongs to the tool, and KeepOnly closed our copy.
const ProcRoot& OwnProcRoot() {
  static const ProcRoot* const root = [] {
    Result<ProcRoot> opened = ProcRoot::Open("/");
    return opened.ok() ? new ProcRoot(std::move(opened).value()) : nullptr;
  }();
  if (root == nullptr) _exit(126);  // then nothing can be guarded
  return *root;
}

// The processes whose parent we are. Only we can reap them, so their pids cannot be reused.
std::vector<int> OwnChildren() {
  std::vector<int> children;
  const int self = getpid();
  for (const ProcessLink& link : ReadProcessLinks(OwnProcRoot())) {
    if (link.parent_pid == self) children.push_back(link.pid);
  }
  return children;
}

void Nap() {
  const timespec duration{0, kBetweenKillsNs};
  nanosleep(&duration, nullptr);
}

struct ChildEnd {
  int pid = 0;
  bool ended = false;
  int wait_status = 0;
  struct rusage usage{};
};

// Takes every ended child; returns whether any child is left.
bool Reap(ChildEnd& watched) {
  while (true) {
    int status = 0;
    struct rusage usage{};
    const pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &usage);
    if (pid == 0) return true;
    if (pid < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (pid == watched.pid) {
      watched.ended = true;
      watched.wait_status = status;
      watched.usage = usage;
    }
  }
}

// Kills children until there is none. Each death hands its own children to us (we are a subreaper),
// so this reaches the whole tree, and it never signals a pid that could be somebody else's.
void KillAll(ChildEnd& watched) {
  const MonoTime give_up = MonoNow() + kKillPatienceNs;
  while (Reap(watched) && MonoNow() < give_up) {
    for (const int pid : OwnChildren()) kill(pid, SIGKILL);
    Nap();
  }
}

struct Command {
  CommandHeader header;
  const char* directory = nullptr;
  const char* cgroup_file = nullptr;
  std::vector<char*> arguments;
  std::vector<char*> variables;
};

bool MapCommand(int memfd, Command& command) {
  struct stat facts{};
  if (fstat(memfd, &facts) != 0 || facts.st_size < static_cast<off_t>(sizeof command.header)) {
    return false;
  }
  const auto size = static_cast<size_t>(facts.st_size);
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, memfd, 0);
  if (mapped == MAP_FAILED) return false;
  char* next = static_cast<char*>(mapped);
  std::memcpy(&command.header, next, sizeof command.header);
  next += sizeof command.header;
  const auto take = [&next] {
    char* const text = next;
    next += std::strlen(text) + 1;
    return text;
  };
  command.directory = take();
  command.cgroup_file = take();
  for (uint32_t i = 0; i < command.header.arguments; ++i) command.arguments.push_back(take());
  for (uint32_t i = 0; i < command.header.variables; ++i) command.variables.push_back(take());
  command.arguments.push_back(nullptr);
  command.variables.push_back(nullptr);
  return true;
}

struct SpawnFailure {
  SpawnStep step;
  int32_t error_number;
};

bool JoinCgroup(const char* file) {
  const int fd = open(file, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  // "0" means the process that writes.
  const bool joined = write(fd, "0", 1) == 1;
  const int error_number = errno;
  close(fd);
  errno = error_number;
  return joined;
}

void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// In the child between fork and exec. Returns only on failure.
SpawnFailure Execute(const Command& command, int stdout_fd, int stderr_fd, int warden_pid) {
  const auto failed = [](SpawnStep step) { return SpawnFailure{step, errno}; };
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != warden_pid) _exit(127);  // it died before the signal was asked for
  ResetSignals();
  const int null_fd = open("/dev/null", O_RDONLY);
  dup2(null_fd, STDIN_FILENO);
  dup2(stdout_fd, STDOUT_FILENO);
  dup2(stderr_fd, STDERR_FILENO);
  if (*command.cgroup_file != '\0' && !JoinCgroup(command.cgroup_file)) {
    return failed(SpawnStep::kCgroup);
  }
  if (*command.directory != '\0' && chdir(command.directory) != 0) {
    return failed(SpawnStep::kDirectory);
  }
  errno = 0;
  if (command.header.sets_nice != 0 && nice(command.header.nice) == -1 && errno != 0) {
    return failed(SpawnStep::kNice);
  }
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  execvpe(command.arguments[0], command.arguments.data(), command.variables.data());
  return failed(SpawnStep::kExec);
}

// Forks and executes; fills the reply. Returns the child's pid, or 0.
int StartCommand(const Command& command, int stdout_fd, int stderr_fd, SpawnReply& reply) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    reply.error_number = errno;
    reply.step = SpawnStep::kFork;
    return 0;
  }
  const int warden_pid = getpid();
  reply.forked_at_ns = MonoNow().ns;
  const pid_t pid = fork();
  if (pid == 0) {
    const SpawnFailure failure = Execute(command, stdout_fd, stderr_fd, warden_pid);
    [[maybe_unused]] const ssize_t count = write(pipe_fds[1], &failure, sizeof failure);
    _exit(127);
  }
  const int fork_error = errno;
  close(pipe_fds[1]);
  if (pid < 0) {
    close(pipe_fds[0]);
    reply.error_number = fork_error;
    reply.step = SpawnStep::kFork;
    return 0;
  }
  // The exec closes the pipe: an end without a message is success.
  SpawnFailure failure{};
  ssize_t count = 0;
  do {
    count = read(pipe_fds[0], &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  close(pipe_fds[0]);
  if (count == static_cast<ssize_t>(sizeof failure)) {
    waitpid(pid, nullptr, 0);
    reply.error_number = failure.error_number;
    reply.step = failure.step;
    return 0;
  }
  reply.pid = pid;
  return pid;
}

int BlockAndWatchChildSignal() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  signal(SIGCHLD, SIG_DFL);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

void Drain(int signal_fd) {
  signalfd_siginfo info;
  while (read(signal_fd, &info, sizeof info) > 0) {
  }
}

void AnswerStatus(int socket, const ChildEnd& child) {
  StatusReply reply;
  reply.ended = child.ended ? 1 : 0;
  reply.wait_status = child.wait_status;
  reply.usage = child.usage;
  SendMessage(socket, &reply, sizeof reply, nullptr, 0);
}

// The group that was made for this child alone. A process that has just been reaped can still be
// charged to it for a moment; a group that others joined stays.
void RemoveCgroup(const Command& command) {
  if (command.header.removes_cgroup == 0 || command.cgroup_file == nullptr) return;
  std::string directory = command.cgroup_file;
  directory.erase(directory.rfind('/'));
  for (int i = 0; i < 1000 && rmdir(directory.c_str()) != 0 && errno == EBUSY; ++i) Nap();
}

[[noreturn]] void RunWarden(std::vector<Fd> descriptors, int tool_pidfd) {
  setsid();
  TakeName("rouse-warden");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const int signal_fd = BlockAndWatchChildSignal();
  const int socket = descriptors[kWardenSocket].get();

  Command command;
  SpawnReply reply;
  reply.warden_pid = getpid();
  ChildEnd child;
  if (MapCommand(descriptors[kCommandFile].get(), command)) {
    child.pid =
        StartCommand(command, descriptors[kStdout].get(), descriptors[kStderr].get(), reply);
  } else {
    reply.step = SpawnStep::kFork;
    reply.error_number = EIO;
  }
  // Not reaped yet: the pid is still the child's, even when it has already ended.
  const Result<int64_t> ticks = StartTicks(OwnProcRoot(), child.pid);
  if (ticks.ok()) reply.start_time_ticks = *ticks;
  const Fd pidfd(child.pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)) : -1);
  const int pidfd_number = pidfd.get();
  // So that a pipe ends when its last writer does, and not when we do.
  for (const int index : {kCommandFile, kStdout, kStderr}) descriptors[index].Reset();
  SendMessage(socket, &reply, sizeof reply, &pidfd_number, pidfd.valid() ? 1 : 0);
  if (child.pid == 0) {
    RemoveCgroup(command);
    _exit(0);
  }

  while (true) {
    pollfd events[] = {{socket, POLLIN, 0}, {tool_pidfd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
    if (poll(events, 3, -1) < 0) continue;
    if (events[2].revents != 0) Drain(signal_fd);
    Reap(child);
    if (events[1].revents != 0) break;
    if (events[0].revents == 0) continue;
    char request = 0;
    std::vector<Fd> none;
    if (ReceiveMessage(socket, &request, 1, none) <= 0) break;
    if (request == kRequestKillTree) KillAll(child);
    Reap(child);
    AnswerStatus(socket, child);
  }
  KillAll(child);
  RemoveCgroup(command);
  _exit(0);
}

// Children of the keeper that are not wardens were left to it by a warden that was killed.
void KillStrays(const std::vector<int>& wardens) {
  for (const int pid : OwnChildren()) {
    if (std::find(wardens.begin(), wardens.end(), pid) == wardens.end()) kill(pid, SIGKILL);
  }
}

// Takes ended children off the list; returns whether any child is left.
bool ReapWardens(std::vector<int>& wardens) {
  while (true) {
    const pid_t pid = waitpid(-1, nullptr, WNOHANG | __WALL);
    if (pid == 0) return true;
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return false;
    std::erase(wardens, pid);
  }
}

void AcceptSpawn(int socket, int tool_pidfd, int signal_fd, std::vector<Fd> descriptors,
                 std::vector<int>& wardens) {
  const pid_t pid = fork();
  if (pid == 0) {
    close(socket);
    close(signal_fd);
    RunWarden(std::move(descriptors), tool_pidfd);
  }
  if (pid > 0) {
    wardens.push_back(pid);
    return;
  }
  SpawnReply reply;
  reply.error_number = errno;
  reply.step = SpawnStep::kFork;
  SendMessage(descriptors[kWardenSocket].get(), &reply, sizeof reply, nullptr, 0);
}

// Leaves only `kept` open, moved to descriptors 3 and 4, and /dev/null as 0, 1 and 2: whoever waits
// for the end of the tool's output must not wait for us.
void KeepOnly(int& first_kept, int& second_kept) {
  const int first = fcntl(first_kept, F_DUPFD_CLOEXEC, 10);
  const int second = fcntl(second_kept, F_DUPFD_CLOEXEC, 10);
  const int null_fd = open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) dup2(null_fd, fd);
  dup3(first, 3, O_CLOEXEC);
  dup3(second, 4, O_CLOEXEC);
  close_range(5, ~0U, 0);
  first_kept = 3;
  second_kept = 4;
}

}  // namespace

bool SendMessage(int socket, const void* bytes, size_t size, const int* descriptors, size_t count) {
  iovec vector{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kSpawnDescriptors)] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(header), descriptors, sizeof(int) * count);
  }
  while (true) {
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(size)) return true;
    if (sent >= 0 || errno != EINTR) return false;
  }
}

ssize_t ReceiveMessage(int socket, void* bytes, size_t size, std::vector<Fd>& descriptors) {
  iovec vector{bytes, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kSpawnDescriptors)] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received = 0;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  return received;
}

void RunKeeper(int socket, int tool_pidfd) {
  setsid();
  KeepOnly(socket, tool_pidfd);
  TakeName("rouse-keeper");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const int signal_fd = BlockAndWatchChildSignal();
  std::vector<int> wardens;
  while (true) {
    pollfd events[] = {{socket, POLLIN, 0}, {tool_pidfd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
    if (poll(events, 3, -1) < 0) continue;
    if (events[2].revents != 0) {
      Drain(signal_fd);
      ReapWardens(wardens);
      KillStrays(wardens);
    }
    if (events[1].revents != 0) break;
    if (events[0].revents == 0) continue;
    char request = 0;
    std::vector<Fd> descriptors;
    if (ReceiveMessage(socket, &request, 1, descriptors) <= 0) break;
    if (request != kRequestSpawn || descriptors.size() != kSpawnDescriptors) continue;
    AcceptSpawn(socket, tool_pidfd, signal_fd, std::move(descriptors), wardens);
  }
  // The wardens clean up by themselves; this is for a tree whose warden was killed as well.
  const MonoTime give_up = MonoNow() + kKillPatienceNs + kNsPerSecond;
  while (ReapWardens(wardens) && MonoNow() < give_up) {
    KillStrays(wardens);
    Nap();
  }
  _exit(0);
}

}  // namespace rouse::os::internal
