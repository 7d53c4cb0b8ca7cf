// Child processes that never outlive the tool: starting a server, waiting for it, stopping it with
// everything that it started, also when the tool itself is ended by SIGKILL.
//
// How: the first Spawn (or StartKeeper) forks a small process, the keeper. For each child the
// keeper forks a warden, and the warden forks and executes the command. The warden is a subreaper,
// so every process that the command ever starts stays below it, however often it forks, changes its
// session or loses its parent: the tree is exact by the kernel's own rule, not by a guess from
// names or environments. When the tool's end of the warden's socket closes (the Child was
// destroyed, or the tool ended, by whatever signal), the warden kills all that is below it and
// ends. Keeper and wardens have sessions of their own and ignore what a terminal sends.
//
// Not for: commands whose output is wanted as a string (there is none in rouse).
//
// Threads: Spawn and StartKeeper are safe from any thread; a Child is used by one thread at a time,
// except Signal, Tree and HasExited, which are safe beside Wait. No parent-death signal of ours
// depends on a thread of the tool.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace rouse::os {

// Where one of the child's output streams goes.
struct OutputTo {
  enum class Kind { kInherit, kNull, kFile, kPipe };
  Kind kind = Kind::kInherit;
  std::string path;  // for kFile: created or appended to, mode 0600

  static OutputTo Inherit() { return {}; }
  static OutputTo Null() { return {Kind::kNull, {}}; }
  static OutputTo File(std::string path) { return {Kind::kFile, std::move(path)}; }
  static OutputTo Pipe() { return {Kind::kPipe, {}}; }
};

struct SpawnOptions {
  // argv[0] is the program: a path, or a name that is looked up in PATH.
  std::vector<std::string> argv;
  // Added to (or replacing in) the tool's environment.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> environment_removed;
  std::string working_directory;  // "" = the tool's
  OutputTo stdout_to;
  OutputTo stderr_to;
  // stdin is always /dev/null.
  // Resource limits and scheduling for ballast and contention; empty = inherited.
  std::optional<int> nice;
  // A cgroup directory (v2, or a v1 hierarchy's) that the child joins before it executes.
  std::string cgroup_directory;
  // The warden removes that directory once the whole tree is gone, however the tool ends.
  bool remove_cgroup = false;
};

// How a process ended, and what it had used (wait4; of the child and its waited-for children).
struct ExitInfo {
  std::optional<int> status;  // exit status, when it exited
  std::optional<int> signal;  // the signal, when one ended it
  int64_t user_cpu_ns = 0;
  int64_t system_cpu_ns = 0;
  int64_t max_rss_bytes = 0;
  int64_t minor_faults = 0;
  int64_t major_faults = 0;
  int64_t read_blocks = 0;  // ru_inblock: 512-byte blocks
  int64_t voluntary_context_switches = 0;
  int64_t involuntary_context_switches = 0;

  // "exited with status 1", "was ended by SIGSEGV"
  std::string Describe() const;
};

class Child {
 public:
  Child() = default;
  // Kills the whole tree when it still runs, and waits for its end.
  ~Child();
  Child(Child&&) noexcept;
  Child& operator=(Child&&) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool valid() const { return pid_ > 0; }
  int pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  // Field 22 of /proc/PID/stat, in clock ticks since boot: with the pid it names one process.
  int64_t start_time_ticks() const { return start_time_ticks_; }
  // Taken right before the fork that made the child, on the shared clock.
  MonoTime forked_at() const { return forked_at_; }
  // Read ends of the pipes, when OutputTo::Pipe() was asked for; else invalid.
  Fd& stdout_pipe() { return stdout_pipe_; }
  Fd& stderr_pipe() { return stderr_pipe_; }

  // To the child alone; a child that has ended is no error.
  Status Signal(int signal) const;
  bool HasExited() const;

  // Waits for the child itself (its descendants may live on) until `deadline`; kTimeout when it
  // still runs then. May be called again after it ended: the answer stays.
  Result<ExitInfo> Wait(MonoTime deadline);

  // SIGTERM, up to `grace_ns` for the child to end, then SIGKILL for all that is left of the tree.
  // Returns when the tree is gone.
  Result<ExitInfo> Stop(int64_t grace_ns);
  // SIGKILL for the whole tree; returns when it is gone.
  Result<ExitInfo> KillTree();

  // All living processes of the tree: the child and every descendant, re-parented ones included.
  std::vector<int> Tree() const;

 private:
  friend Result<Child> Spawn(const SpawnOptions& options);
  Result<ExitInfo> AskWarden(char request);
  void Release();

  int pid_ = 0;
  int warden_pid_ = 0;
  Fd pidfd_;
  Fd warden_socket_;
  int64_t start_time_ticks_ = 0;
  MonoTime forked_at_;
  Fd stdout_pipe_;
  Fd stderr_pipe_;
  std::optional<ExitInfo> exit_;
};

// Starts a process. Errors: kNotFound (no such program), kPermission (not executable), kIo. Success
// means that the exec succeeded.
Result<Child> Spawn(const SpawnOptions& options);

// Forks the keeper now, if it is not there yet: call it at the start of a command, while the
// process is small and has one thread. Spawn calls it otherwise.
Status StartKeeper();

// `pid` and all its living descendants by parent pid, parents before children; empty when it is
// gone. For processes that we did not start: orphans that were re-parented are not found.
std::vector<int> ProcessTree(int pid);

// Field 22 of /proc/PID/stat. kNotFound when it is gone, or has ended and waits to be reaped.
Result<int64_t> ProcessStartTicks(int pid);

// The process that listens on this TCP port of this machine; empty when it can't be told (another
// user's process, another network namespace).
std::optional<int> PidListeningOn(int port);

// The last lines of a log file, at most `limit_bytes`, cut at a line's start; "" when unreadable.
// For "the server's last words were ...".
std::string ReadTail(const std::string& path, int64_t limit_bytes);

}  // namespace rouse::os
