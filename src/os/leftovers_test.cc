// What a killed rouse has left is found by the mark in its environment, and nothing else is.
#include "os/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>

#include "base/time.h"
#include "os/fake_root.h"
#include "os/process.h"
#include "os/process_table.h"

namespace rouse::os {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;

std::string Stat(int pid, char state, int64_t start_ticks) {
  std::string text = std::to_string(pid) + " (some (odd) name) " + state + " 1";
  for (int field = 5; field < 22; ++field) text += " 0";
  return text + " " + std::to_string(start_ticks) + " 0 0\n";
}

class FindLeftoversTest : public testing::Test {
 protected:
  FindLeftoversTest() { fake_.Link("proc/self/ns/pid", "pid:[77]"); }

  void Process(int pid, const std::string& mark, char state = 'S', int64_t start_ticks = 5) {
    const std::string folder = "proc/" + std::to_string(pid) + "/";
    std::string environment = std::string("HOME=/root") + '\0';
    if (!mark.empty()) environment += "ROUSE_STARTED_BY=" + mark + '\0';
    fake_.Write(folder + "environ", environment + "A=b" + '\0');
    fake_.Write(folder + "stat", Stat(pid, state, start_ticks)).Write(folder + "comm", "server\n");
  }
  std::vector<int> Found() {
    std::vector<int> pids;
    for (const Leftover& each : FindLeftovers(fake_.Open())) pids.push_back(each.pid);
    return pids;
  }

  FakeRoot fake_;
};

TEST_F(FindLeftoversTest, FindsWhatAnEndedOwnerHasStarted) {
  Process(900, "77:899:5");
  EXPECT_THAT(Found(), ElementsAre(900));
  const std::vector<Leftover> found = FindLeftovers(fake_.Open());
  EXPECT_EQ(found[0].comm, "server");
  EXPECT_EQ(found[0].owner_pid, 899);
}

TEST_F(FindLeftoversTest, LeavesWhatHasALivingOwner) {
  Process(899, "");
  Process(900, "77:899:5");
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(FindLeftoversTest, KnowsAReusedPidByItsStartTime) {
  Process(899, "", 'S', 6);
  Process(900, "77:899:5");
  EXPECT_THAT(Found(), ElementsAre(900));
}

TEST_F(FindLeftoversTest, TakesAZombieForEnded) {
  Process(899, "", 'Z');
  Process(900, "77:899:5");
  EXPECT_THAT(Found(), ElementsAre(900));
}

TEST_F(FindLeftoversTest, LeavesOtherNamespacesOtherMarksAndNone) {
  Process(900, "78:899:5");
  Process(901, "77:899");
  Process(902, "77:many:5");
  Process(903, "");
  Process(904, "77:-1:5");
  fake_.Write("proc/905/environ", "NOT_ROUSE_STARTED_BY=77:899:5");
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(FindLeftoversTest, FindsNothingWhereTheNamespaceIsNotTold) {
  Process(900, "77:899:5");
  fake_.Remove("proc/self/ns/pid");
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_FALSE(OwnerToken(fake_.Open(), 900).ok());
}

TEST_F(FindLeftoversTest, SparesOurselvesAndThoseAboveUs) {
  Process(getpid(), "77:899:5");
  EXPECT_THAT(Found(), IsEmpty());
}

// --- real processes ------------------------------------------------------------------------------

bool EventuallyTrue(const std::function<bool()>& condition) {
  const MonoTime deadline = MonoNow() + 10 * kNsPerSecond;
  while (!condition()) {
    if (MonoNow() >= deadline) return false;
    RealClock().SleepFor(5 * kNsPerMs);
  }
  return true;
}

std::vector<int> Sleeping(const std::string& seconds) {
  std::vector<int> pids;
  for (const int pid : ProcRoot::Real().Pids()) {
    const Result<std::string> arguments = ProcRoot::Real().ReadOf(pid, "cmdline");
    if (!arguments.ok() || !arguments->ends_with(std::string(1, '\0') + seconds + '\0')) continue;
    if (arguments->starts_with("sleep")) pids.push_back(pid);
  }
  return pids;
}

SpawnOptions Family(const std::string& seconds) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c",
                  "sleep " + seconds + " & setsid sleep " + seconds + " & (setsid sleep " +
                      seconds + " &) ; exec sleep " + seconds};
  return options;
}
constexpr size_t kFamily = 4;

// A process that starts a family as the tool does. Killed with its keeper and the family's warden,
// in such a way that none of the three can act on the death of another.
void StartFamilyAndKillAllThatGuardsIt(const std::string& seconds) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t tool = fork();
  if (tool == 0) {
    const Result<Child> child = Spawn(Family(seconds));
    if (!child.ok() || !EventuallyTrue([&] { return child->Tree().size() == kFamily; })) _exit(1);
    std::array<int, 2> guards{};  // warden, keeper
    const auto links = internal::ReadProcessLinks(ProcRoot::Real());
    int below = child->pid();
    for (int& guard : guards) {
      for (const auto& link : links) {
        if (link.pid == below) guard = link.parent_pid;
      }
      below = guard;
    }
    if (write(ends[1], guards.data(), sizeof guards) != sizeof guards) _exit(2);
    while (true) pause();
  }
  close(ends[1]);
  std::array<int, 2> guards{};
  ASSERT_EQ(read(ends[0], guards.data(), sizeof guards), static_cast<ssize_t>(sizeof guards));
  close(ends[0]);
  const std::array<int, 3> all = {guards[0], guards[1], tool};
  for (const int pid : all) ASSERT_EQ(kill(pid, SIGSTOP), 0);
  for (const int pid : all) ASSERT_EQ(kill(pid, SIGKILL), 0);
  waitpid(tool, nullptr, 0);
}

TEST(EndLeftovers, EndsWhatSurvivedToolKeeperAndWarden) {
  const std::string seconds = std::to_string(50'000'000 + getpid() * 10 + 1);
  const std::string others = std::to_string(50'000'000 + getpid() * 10 + 2);
  const Result<Child> living = Spawn(Family(others));
  ASSERT_TRUE(living.ok()) << living.error().message();
  ASSERT_TRUE(EventuallyTrue([&] { return Sleeping(others).size() == kFamily; }));
  StartFamilyAndKillAllThatGuardsIt(seconds);
  // The command itself goes with its warden; its children stay.
  ASSERT_TRUE(EventuallyTrue([&] { return Sleeping(seconds).size() == kFamily - 1; }));
  const std::vector<int> survivors = Sleeping(seconds);

  std::vector<int> ended;
  for (const Leftover& each : EndLeftovers()) ended.push_back(each.pid);
  EXPECT_THAT(ended, IsSupersetOf(survivors));
  EXPECT_TRUE(EventuallyTrue([&] { return Sleeping(seconds).empty(); }));
  EXPECT_EQ(Sleeping(others).size(), kFamily) << "those of a living owner are not touched";
}

TEST(EndLeftovers, AChildThatReplacesItsMarkWithAnotherOwnersStillHasOurs) {
  SpawnOptions options;
  options.argv = {"sleep", "100"};
  options.environment = {{kOwnerVariable, "1:2:3"}};
  const Result<Child> child = Spawn(options);
  ASSERT_TRUE(child.ok());
  const Result<std::string> environment = ProcRoot::Real().ReadOf(child->pid(), "environ");
  ASSERT_TRUE(environment.ok());
  const std::string mark =
      std::string(kOwnerVariable) + "=" + *OwnerToken(ProcRoot::Real(), getpid()) + '\0';
  EXPECT_NE(environment->find(mark), std::string::npos);
  EXPECT_EQ(environment->find("1:2:3"), std::string::npos);
}

}  // namespace
}  // namespace rouse::os
