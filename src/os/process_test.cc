// Real processes: what is started, how it ends, and above all that nothing stays behind.
#include "os/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/strings.h"
#include "os/proc_root.h"
#include "os/process_table.h"

namespace rouse::os {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Directory {
 public:
  Directory() {
    std::string name = testing::TempDir() + "/rouse_process_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool EventuallyTrue(const std::function<bool()>& condition, int64_t within_ns = 10 * kNsPerSecond) {
  const MonoTime deadline = MonoNow() + within_ns;
  while (!condition()) {
    if (MonoNow() >= deadline) return false;
    RealClock().SleepFor(5 * kNsPerMs);
  }
  return true;
}

SpawnOptions Shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c", script};
  return options;
}

MonoTime In(int64_t ns) { return MonoNow() + ns; }

// The living processes with `marker` among their arguments. A zombie has no arguments.
std::vector<int> ProcessesWith(const std::string& marker) {
  std::vector<int> pids;
  for (const int pid : ProcRoot::Real().Pids()) {
    const Result<std::string> arguments = ProcRoot::Real().ReadOf(pid, "cmdline");
    if (arguments.ok() && arguments->find(marker) != std::string::npos) pids.push_back(pid);
  }
  return pids;
}

// A number that names this test's processes, as a duration for `sleep`.
std::string UniqueSleep() {
  static int next = 0;
  return std::to_string(40'000'000 + (getpid() % 100'000) * 100 + ++next);
}

// A server with a child, a child in a session of its own, and a daemon whose parent has ended.
std::string FamilyScript(const std::string& seconds) {
  return "sleep " + seconds + " & setsid sleep " + seconds + " & (setsid sh -c 'sleep " + seconds +
         " & sleep " + seconds + "' &) ; exec sleep " + seconds;
}
constexpr size_t kFamilySleeps = 5;

TEST(Spawn, TellsTheExitStatus) {
  Result<Child> child = Spawn(Shell("exit 7"));
  ASSERT_TRUE(child.ok()) << child.error().message();
  const Result<ExitInfo> ended = child->Wait(In(10 * kNsPerSecond));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->status, 7);
  EXPECT_FALSE(ended->signal.has_value());
  EXPECT_EQ(ended->Describe(), "exited with status 7");
  EXPECT_EQ(child->Wait(MonoNow())->status, 7);  // the answer stays
  EXPECT_TRUE(child->HasExited());
}

TEST(Spawn, TellsTheSignalThatEndedTheChild) {
  Result<Child> child = Spawn(Shell("kill -SEGV $$"));
  ASSERT_TRUE(child.ok());
  const Result<ExitInfo> ended = child->Wait(In(10 * kNsPerSecond));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->signal, SIGSEGV);
  EXPECT_EQ(ended->Describe(), "was ended by SIGSEGV");
}

TEST(Spawn, SaysThatThereIsNoSuchProgram) {
  SpawnOptions options;
  options.argv = {"/nonexistent/server"};
  const Result<Child> child = Spawn(options);
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(child.error().message(), HasSubstr("/nonexistent/server"));
}

TEST(Spawn, SaysThatAFileIsNotExecutable) {
  const Directory directory;
  std::ofstream(directory / "plain") << "text";
  SpawnOptions options;
  options.argv = {directory / "plain"};
  const Result<Child> child = Spawn(options);
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code(), ErrorCode::kPermission);
}

TEST(Spawn, SaysThatTheWorkingDirectoryIsMissing) {
  SpawnOptions options = Shell("true");
  options.working_directory = "/nonexistent/directory";
  const Result<Child> child = Spawn(options);
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(child.error().message(), HasSubstr("/nonexistent/directory"));
}

TEST(Spawn, SaysThatTheCgroupIsMissing) {
  SpawnOptions options = Shell("true");
  options.cgroup_directory = "/nonexistent/cgroup";
  const Result<Child> child = Spawn(options);
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(child.error().message(), HasSubstr("/nonexistent/cgroup"));
}

TEST(Spawn, LooksTheProgramUpInThePath) {
  SpawnOptions options;
  options.argv = {"true"};
  Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->Wait(In(10 * kNsPerSecond))->status, 0);
}

TEST(Spawn, PassesArgumentsEnvironmentAndWorkingDirectory) {
  const Directory directory;
  SpawnOptions options = Shell("printf '%s|%s|%s|%s|' \"$1\" \"$NEW\" \"$HOME\" \"$REMOVED\"; pwd");
  setenv("REMOVED", "still here", 1);
  options.argv.insert(options.argv.end(), {"sh", "two words\nand a line"});
  options.environment = {{"NEW", "a=b"}, {"HOME", "/somewhere"}};
  options.environment_removed = {"REMOVED"};
  options.working_directory = "/usr";
  options.stdout_to = OutputTo::File(directory / "out");
  Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok()) << child.error().message();
  ASSERT_EQ(child->Wait(In(10 * kNsPerSecond))->status, 0);
  EXPECT_EQ(ReadText(directory / "out"), "two words\nand a line|a=b|/somewhere||/usr\n");
}

TEST(Spawn, TakesAnEnvironmentLargerThanASocketBuffer) {
  SpawnOptions options = Shell("[ ${#A0} -eq 100000 ] && [ ${#A7} -eq 100000 ]");
  for (int i = 0; i < 8; ++i) {
    options.environment.emplace_back("A" + std::to_string(i), std::string(100'000, 'x'));
  }
  Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok()) << child.error().message();
  EXPECT_EQ(child->Wait(In(10 * kNsPerSecond))->status, 0);
}

TEST(Spawn, GivesThePipesThatWereAskedForAndTheyEndWithTheChild) {
  SpawnOptions options = Shell("echo to stdout; echo to stderr >&2");
  options.stdout_to = OutputTo::Pipe();
  options.stderr_to = OutputTo::Pipe();
  Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok());
  const auto read_all = [](int fd) {
    std::string text;
    char buffer[256];
    ssize_t count = 0;
    while ((count = read(fd, buffer, sizeof buffer)) > 0) {
      text.append(buffer, static_cast<size_t>(count));
    }
    return text;
  };
  EXPECT_EQ(read_all(child->stdout_pipe().get()), "to stdout\n");
  EXPECT_EQ(read_all(child->stderr_pipe().get()), "to stderr\n");
}

TEST(Spawn, LeavesNoDescriptorOfOursOpenInTheChild) {
  const Directory directory;
  int leak[2];
  ASSERT_EQ(pipe(leak), 0);  // without O_CLOEXEC
  SpawnOptions options = Shell("ls /proc/self/fd | wc -l");
  options.stdout_to = OutputTo::File(directory / "out");
  Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok());
  ASSERT_EQ(child->Wait(In(10 * kNsPerSecond))->status, 0);
  // 0, 1, 2 and the directory that ls reads.
  EXPECT_EQ(ReadText(directory / "out"), "4\n");
  close(leak[0]);
  close(leak[1]);
}

TEST(Spawn, StartsWithDefaultSignalsEvenWhenOursAreBlockedOrIgnored) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  Result<Child> child = Spawn(
      Shell("grep -E 'SigBlk|SigIgn' /proc/self/status | grep -c 0000000000000000 | grep -q 2"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->Wait(In(10 * kNsPerSecond))->status, 0);
}

TEST(Spawn, SetsThePriority) {
  SpawnOptions options = Shell("[ $(nice) -eq 7 ]");
  options.nice = 7;
  Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->Wait(In(10 * kNsPerSecond))->status, 0);
}

TEST(Spawn, ReportsPidStartTimeAndTheMomentOfTheFork) {
  const MonoTime before = MonoNow();
  Result<Child> child = Spawn(Shell("exec sleep 100"));
  ASSERT_TRUE(child.ok());
  EXPECT_GE(child->forked_at(), before);
  EXPECT_LE(child->forked_at(), MonoNow());
  EXPECT_EQ(*ProcessStartTicks(child->pid()), child->start_time_ticks());
  EXPECT_GT(child->start_time_ticks(), 0);
}

TEST(Spawn, TellsWhatTheChildHadUsed) {
  Result<Child> child = Spawn(Shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"));
  ASSERT_TRUE(child.ok());
  const Result<ExitInfo> ended = child->Wait(In(60 * kNsPerSecond));
  ASSERT_TRUE(ended.ok());
  EXPECT_GT(ended->user_cpu_ns + ended->system_cpu_ns, 5 * kNsPerMs);
  EXPECT_GT(ended->minor_faults, 10);
  EXPECT_GT(ended->max_rss_bytes, 100'000);
}

TEST(Child, WaitTimesOutWhileTheChildRuns) {
  Result<Child> child = Spawn(Shell("exec sleep 100"));
  ASSERT_TRUE(child.ok());
  const MonoTime start = MonoNow();
  const Result<ExitInfo> ended = child->Wait(In(50 * kNsPerMs));
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code(), ErrorCode::kTimeout);
  EXPECT_GE(MonoNow() - start, 50 * kNsPerMs);
  EXPECT_FALSE(child->HasExited());
}

TEST(Child, StopAsksFirstAndReportsHowTheChildEnded) {
  SpawnOptions options = Shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done");
  options.stdout_to = OutputTo::Pipe();
  Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok());
  char byte = 0;
  ASSERT_EQ(read(child->stdout_pipe().get(), &byte, 1), 1);  // the trap is set
  EXPECT_EQ(child->Stop(10 * kNsPerSecond)->status, 5);
}

TEST(Child, StopKillsWhatIgnoresTheRequest) {
  SpawnOptions options = Shell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
  options.stdout_to = OutputTo::Pipe();
  Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok());
  char byte = 0;
  ASSERT_EQ(read(child->stdout_pipe().get(), &byte, 1), 1);
  EXPECT_EQ(child->Stop(100 * kNsPerMs)->signal, SIGKILL);
}

TEST(Child, TreeHoldsEveryDescendantAndKillTreeEndsThemAll) {
  const std::string seconds = UniqueSleep();
  Result<Child> child = Spawn(Shell(FamilyScript(seconds)));
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE(EventuallyTrue([&] { return child->Tree().size() == kFamilySleeps + 1; }));
  const std::vector<int> tree = child->Tree();
  EXPECT_EQ(tree[0], child->pid());
  for (const int pid : ProcessesWith(seconds)) {
    EXPECT_TRUE(std::find(tree.begin(), tree.end(), pid) != tree.end()) << pid;
  }
  EXPECT_EQ(child->KillTree()->signal, SIGKILL);
  EXPECT_THAT(child->Tree(), ElementsAre());
  EXPECT_THAT(ProcessesWith(seconds), ElementsAre());
}

TEST(Child, TheTreeOutlivesTheChildAndIsStillKnown) {
  const std::string seconds = UniqueSleep();
  Result<Child> child = Spawn(Shell("setsid sleep " + seconds + " & exit 0"));
  ASSERT_TRUE(child.ok());
  ASSERT_EQ(child->Wait(In(10 * kNsPerSecond))->status, 0);
  // While setsid becomes sleep it has no command line for a moment.
  EXPECT_TRUE(EventuallyTrue([&] {
    const auto found = ProcessesWith(seconds);
    return !found.empty() && child->Tree() == found;
  }));
  ASSERT_TRUE(child->KillTree().ok());
  EXPECT_THAT(ProcessesWith(seconds), ElementsAre());
}

TEST(Child, ADroppedChildTakesItsTreeWithIt) {
  const std::string seconds = UniqueSleep();
  {
    Result<Child> child = Spawn(Shell(FamilyScript(seconds)));
    ASSERT_TRUE(child.ok());
    ASSERT_TRUE(EventuallyTrue([&] { return child->Tree().size() == kFamilySleeps + 1; }));
  }
  EXPECT_THAT(ProcessesWith(seconds), ElementsAre());
}

TEST(Child, TwoChildrenHaveSeparateTrees) {
  Result<Child> first = Spawn(Shell("exec sleep 100"));
  Result<Child> second = Spawn(Shell("exec sleep 100"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(first->Tree(), ElementsAre(first->pid()));
  ASSERT_TRUE(first->KillTree().ok());
  EXPECT_THAT(second->Tree(), ElementsAre(second->pid()));
}

TEST(Spawn, WorksFromAThreadThatEndsBeforeTheChildDoes) {
  Result<Child> child = Error(ErrorCode::kInternal, "");
  std::thread([&child] { child = Spawn(Shell("exec sleep 100")); }).join();
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->Wait(In(200 * kNsPerMs)).error().code(), ErrorCode::kTimeout);
}

// What a test's stand-in for the tool is made of: a forked process that starts a family and waits.
struct Tool {
  int pid = 0;
  int keeper_pid = 0;
  int warden_pid = 0;
};

Tool StartTool(const std::string& script, size_t tree_size) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  Tool tool;
  tool.pid = fork();
  if (tool.pid == 0) {
    Result<Child> child = Spawn(Shell(script));
    if (!child.ok()) _exit(1);
    if (!EventuallyTrue([&] { return child->Tree().size() == tree_size; })) _exit(2);
    int found[2] = {0, 0};
    const auto links = internal::ReadProcessLinks(ProcRoot::Real());
    for (const auto& link : links) {
      if (link.pid == child->Tree()[0]) found[1] = link.parent_pid;
    }
    for (const auto& link : links) {
      if (link.pid == found[1]) found[0] = link.parent_pid;
    }
    if (write(ends[1], found, sizeof found) != sizeof found) _exit(3);
    while (true) pause();
  }
  close(ends[1]);
  int found[2] = {0, 0};
  EXPECT_EQ(read(ends[0], found, sizeof found), static_cast<ssize_t>(sizeof found));
  close(ends[0]);
  tool.keeper_pid = found[0];
  tool.warden_pid = found[1];
  return tool;
}

bool IsGone(int pid) {
  const Result<std::string> arguments = ProcRoot::Real().ReadOf(pid, "cmdline");
  return !arguments.ok() || arguments->empty();  // a zombie has none
}

// A plain directory with a file cgroup.procs that is removed first stands for a control group: what
// counts is who removes the directory, and when.
TEST(Spawn, TheWardenRemovesTheControlGroupOnceTheTreeIsGone) {
  std::string directory = ::testing::TempDir() + "group-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string members = directory + "/cgroup.procs";
  {
    std::ofstream file(members);
  }
  SpawnOptions options = Shell("rm '" + members + "'; exec sleep 1000");
  options.cgroup_directory = directory;
  options.remove_cgroup = true;
  {
    const Result<Child> child = Spawn(options);
    ASSERT_TRUE(child.ok()) << child.error().message();
    EXPECT_TRUE(EventuallyTrue([&] { return access(members.c_str(), F_OK) != 0; }));
    EXPECT_EQ(access(directory.c_str(), F_OK), 0);
  }
  EXPECT_TRUE(EventuallyTrue([&] { return access(directory.c_str(), F_OK) != 0; }));
}

TEST(KillOfTheTool, EndsTheServerItsGrandchildrenAndItsDaemons) {
  const std::string seconds = UniqueSleep();
  const Tool tool = StartTool(FamilyScript(seconds), kFamilySleeps + 1);
  EXPECT_GE(ProcessesWith(seconds).size(), kFamilySleeps);
  ASSERT_EQ(kill(tool.pid, SIGKILL), 0);
  waitpid(tool.pid, nullptr, 0);
  EXPECT_TRUE(EventuallyTrue([&] { return ProcessesWith(seconds).empty(); }));
  EXPECT_TRUE(EventuallyTrue([&] { return IsGone(tool.keeper_pid) && IsGone(tool.warden_pid); }));
}

TEST(KillOfTheTool, TogetherWithItsKeeperStillEndsTheTree) {
  const std::string seconds = UniqueSleep();
  const Tool tool = StartTool(FamilyScript(seconds), kFamilySleeps + 1);
  ASSERT_EQ(kill(tool.keeper_pid, SIGKILL), 0);
  ASSERT_EQ(kill(tool.pid, SIGKILL), 0);
  waitpid(tool.pid, nullptr, 0);
  EXPECT_TRUE(EventuallyTrue([&] { return ProcessesWith(seconds).empty(); }));
}

TEST(KillOfTheTool, TogetherWithAWardenStillEndsTheTree) {
  const std::string seconds = UniqueSleep();
  const Tool tool = StartTool(FamilyScript(seconds), kFamilySleeps + 1);
  ASSERT_EQ(kill(tool.warden_pid, SIGKILL), 0);
  ASSERT_EQ(kill(tool.pid, SIGKILL), 0);
  waitpid(tool.pid, nullptr, 0);
  EXPECT_TRUE(EventuallyTrue([&] { return ProcessesWith(seconds).empty(); }));
}

TEST(KillOfAWarden, EndsItsTreeWhileTheToolLives) {
  const std::string seconds = UniqueSleep();
  const Tool tool = StartTool(FamilyScript(seconds), kFamilySleeps + 1);
  ASSERT_EQ(kill(tool.warden_pid, SIGKILL), 0);
  EXPECT_TRUE(EventuallyTrue([&] { return ProcessesWith(seconds).empty(); }));
  kill(tool.pid, SIGKILL);
  waitpid(tool.pid, nullptr, 0);
}

TEST(Keeper, AndWardensDoNotCarryTheToolsNameOrArguments) {
  const std::string seconds = UniqueSleep();
  const Tool tool = StartTool("exec sleep " + seconds, 1);
  const std::string own = *ProcRoot::Real().Read("proc/self/cmdline");
  const std::string own_name = own.substr(0, own.find('\0'));
  for (const int pid : {tool.keeper_pid, tool.warden_pid}) {
    EXPECT_THAT(*ProcRoot::Real().ReadOf(pid, "cmdline"), Not(HasSubstr(own_name)));
    EXPECT_THAT(*ProcRoot::Real().ReadOf(pid, "comm"), HasSubstr("rouse-"));
  }
  kill(tool.pid, SIGKILL);
  waitpid(tool.pid, nullptr, 0);
}

TEST(Keeper, IsStartedAgainAfterItWasKilled) {
  Result<Child> first = Spawn(Shell("exec sleep 100"));
  ASSERT_TRUE(first.ok());
  int keeper = 0;
  const auto links = internal::ReadProcessLinks(ProcRoot::Real());
  for (const auto& link : links) {
    if (link.pid == first->pid()) keeper = link.parent_pid;  // the warden
  }
  for (const auto& link : links) {
    if (link.pid == keeper) {
      keeper = link.parent_pid;
      break;
    }
  }
  ASSERT_EQ(kill(keeper, SIGKILL), 0);
  ASSERT_EQ(waitpid(keeper, nullptr, 0), keeper);
  Result<Child> second = Spawn(Shell("exit 3"));
  ASSERT_TRUE(second.ok()) << second.error().message();
  EXPECT_EQ(second->Wait(In(10 * kNsPerSecond))->status, 3);
  // The first one is still in its warden's hands.
  EXPECT_EQ(first->KillTree()->signal, SIGKILL);
}

TEST(ProcessTree, FindsDescendantsByTheirParents) {
  Result<Child> child = Spawn(Shell("sleep 100 & sleep 100 & wait"));
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE(EventuallyTrue([&] { return ProcessTree(child->pid()).size() == 3; }));
  EXPECT_EQ(ProcessTree(child->pid())[0], child->pid());
}

TEST(ProcessTree, IsEmptyForAProcessThatIsGone) {
  Result<Child> child = Spawn(Shell("exit 0"));
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE(child->Wait(In(10 * kNsPerSecond)).ok());
  EXPECT_THAT(ProcessTree(child->pid()), ElementsAre());
  EXPECT_EQ(ProcessStartTicks(child->pid()).error().code(), ErrorCode::kNotFound);
}

TEST(ProcessStartTicks, DoesNotTakeAProcessThatWaitsToBeReapedForALivingOne) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  ASSERT_GT(pid, 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ProcessStartTicks(pid).error().code(), ErrorCode::kNotFound);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(PidListeningOn, FindsOurOwnSocketAndNothingOnAFreePort) {
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  EXPECT_EQ(PidListeningOn(port), std::nullopt);  // bound, but not listening
  ASSERT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(PidListeningOn(port), getpid());
}

TEST(ReadTail, BeginsAtALineAndIsEmptyForAMissingFile) {
  const Directory directory;
  std::ofstream(directory / "log") << "first line\nsecond line\nthird line\n";
  EXPECT_EQ(ReadTail(directory / "log", 1000), "first line\nsecond line\nthird line\n");
  EXPECT_EQ(ReadTail(directory / "log", 15), "third line\n");
  EXPECT_EQ(ReadTail(directory / "missing", 15), "");
}

}  // namespace
}  // namespace rouse::os
