#include "os/read_limit.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/fd.h"
#include "base/time.h"
#include "os/fake_root.h"
#include "os/loop_file_system.h"
#include "os/own_cgroup.h"
#include "os/process.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

constexpr const char* kV1 =
    "30 1 0:26 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
    "31 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
constexpr const char* kV2 = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

TEST(ReadLimit, IsMadeInOurOwnGroupOfVersion1) {
  FakeRoot fake;
  fake.Write("proc/self/mountinfo", kV1).Write("proc/71/cgroup", "7:blkio:/box\n0::/box\n");
  const Result<LimitParent> parent = FindLimitParent(fake.Open(), 71);
  ASSERT_TRUE(parent.ok()) << parent.error().message();
  EXPECT_EQ(*parent, (LimitParent{"sys/fs/cgroup/blkio/box", false}));
}

TEST(ReadLimit, IsMadeBelowTheNearestGroupOfVersion2ThatHandsIoOn) {
  FakeRoot fake;
  fake.Write("proc/self/mountinfo", kV2).Write("proc/71/cgroup", "0::/user.slice/a/b\n");
  const std::string top = "sys/fs/cgroup";
  for (const char* const each : {"", "/user.slice", "/user.slice/a", "/user.slice/a/b"}) {
    fake.Write(top + each + "/cgroup.controllers", "cpu io memory\n");
    fake.Write(top + each + "/cgroup.subtree_control", "cpu memory\n");
  }
  const Result<LimitParent> none = FindLimitParent(fake.Open(), 71);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message(), HasSubstr("io controller"));
  fake.Write(top + "/cgroup.subtree_control", "cpu io memory\n");
  EXPECT_EQ(FindLimitParent(fake.Open(), 71)->directory, top);
  fake.Write(top + "/user.slice/cgroup.subtree_control", "io\n");
  EXPECT_EQ(*FindLimitParent(fake.Open(), 71), (LimitParent{top + "/user.slice", true}));
}

TEST(ReadLimit, IsReadBackOfTheGroupThatAProcessIsIn) {
  FakeRoot old;
  old.Write("proc/self/mountinfo", kV1).Write("proc/71/cgroup", "7:blkio:/t\n0::/\n");
  old.Write("sys/fs/cgroup/blkio/t/blkio.throttle.read_bps_device", "8:0 5\n254:0 2000000\n");
  EXPECT_EQ(ReadLimitOf(old.Open(), 71, "254:0"), 2'000'000);
  EXPECT_EQ(ReadLimitOf(old.Open(), 71, "254:16"), std::nullopt);
  FakeRoot unified;
  unified.Write("proc/self/mountinfo", kV2).Write("proc/71/cgroup", "0::/t\n");
  unified.Write("sys/fs/cgroup/t/io.max",
                "8:0 rbps=max wbps=9 riops=max wiops=max\n"
                "254:0 rbps=3000000 wbps=max riops=max wiops=max\n");
  EXPECT_EQ(ReadLimitOf(unified.Open(), 71, "254:0"), 3'000'000);
  EXPECT_EQ(ReadLimitOf(unified.Open(), 71, "8:0"), std::nullopt) << "max is no limit";
}

TEST(ReadLimit, NeedsABlockDeviceUnderThePath) {
  const Result<std::string> memory = DeviceUnder(ProcRoot::Real(), "/proc");
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code(), ErrorCode::kUnsupported);
}

// How long dd takes to read the file past the page cache in a group with this limit.
Result<int64_t> ReadWithin(const ReadLimit& limit, const std::string& file) {
  ASSIGN_OR_RETURN(const std::string group, MakeReadLimitGroup(limit));
  SpawnOptions options;
  options.argv = {"dd", "if=" + file, "of=/dev/null", "bs=1M", "iflag=direct"};
  options.stderr_to = OutputTo::Null();
  options.cgroup_directory = group;
  options.remove_cgroup = true;
  const MonoTime from = MonoNow();
  ASSIGN_OR_RETURN(Child child, Spawn(options));
  ASSIGN_OR_RETURN(const ExitInfo exit, child.Wait(from + 60 * kNsPerSecond));
  if (exit.status != 0) return Error(ErrorCode::kIo, "dd " + exit.Describe());
  const int64_t took_ns = MonoNow() - from;
  child = Child();
  for (int i = 0; i < 100 && access(group.c_str(), F_OK) == 0; ++i) usleep(10'000);
  if (access(group.c_str(), F_OK) == 0) return Error(ErrorCode::kState, group + " stayed");
  return took_ns;
}

Status WriteSome(const std::string& file, int64_t bytes) {
  const Fd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  RETURN_IF_ERROR(WriteAll(fd.get(), std::string(static_cast<size_t>(bytes), 'x')));
  return fsync(fd.get()) == 0 ? Status() : Status(Error::FromErrno(errno, file));
}

constexpr int64_t kFileBytes = 8 << 20;

TEST(ReadLimit, SlowsWhoIsInTheGroupAndLeavesNoGroup) {
  const std::string file = testing::TempDir() + "limited-" + std::to_string(getpid());
  ASSERT_TRUE(WriteSome(file, kFileBytes).ok());
  const Result<std::string> device = DeviceUnder(ProcRoot::Real(), file);
  const Status permitted = device.ok() ? TryReadLimit(*device) : Status(device.error());
  if (!permitted.ok()) {
    unlink(file.c_str());
    GTEST_SKIP() << permitted.error().message();
  }
  // 16 MB/s: half a second at least, however fast the disk.
  const Result<int64_t> took = ReadWithin({*device, 2 * kFileBytes}, file);
  unlink(file.c_str());
  ASSERT_TRUE(took.ok()) << took.error().message();
  EXPECT_GE(*took, 350 * kNsPerMs);
}

TEST(LoopFileSystem, HasADeviceOfItsOwnToLimitAlsoOverMemory) {
  const std::string why = WhyNoLoopFileSystem();
  if (!why.empty()) GTEST_SKIP() << why;
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "/dev/shm cannot be written";
  Result<LoopFileSystem> made = LoopFileSystem::Make("/dev/shm", kFileBytes);
  ASSERT_TRUE(made.ok()) << made.error().message();
  const std::string file = made->path() + "/data";
  ASSERT_TRUE(WriteSome(file, kFileBytes).ok());
  const Status permitted = TryReadLimit(made->device());
  if (!permitted.ok()) GTEST_SKIP() << permitted.error().message();
  const Result<int64_t> took = ReadWithin({made->device(), 2 * kFileBytes}, file);
  ASSERT_TRUE(took.ok()) << took.error().message();
  EXPECT_GE(*took, 350 * kNsPerMs);
}

std::string Backing(const std::string& device) {
  const std::string file = "/sys/dev/block/" + device + "/loop/backing_file";
  const Result<std::string> text = ProcRoot::Real().Read(file.substr(1));
  return text.ok() ? *text : "";
}

TEST(LoopFileSystem, IsGoneWhenItsMakerIsKilled) {
  const std::string why = WhyNoLoopFileSystem();
  if (!why.empty()) GTEST_SKIP() << why;
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t maker = fork();
  if (maker == 0) {
    const Result<LoopFileSystem> made = LoopFileSystem::Make(testing::TempDir(), kFileBytes);
    const std::string told = made.ok() ? made->device() : "";
    [[maybe_unused]] const ssize_t count = write(pipe_fds[1], told.data(), told.size());
    close(pipe_fds[1]);
    pause();
  }
  close(pipe_fds[1]);
  char told[32] = {};
  const ssize_t count = read(pipe_fds[0], told, sizeof told - 1);
  close(pipe_fds[0]);
  EXPECT_GT(count, 0);
  const std::string device(told);
  EXPECT_THAT(Backing(device), HasSubstr("(deleted)"));
  kill(maker, SIGKILL);
  waitpid(maker, nullptr, 0);
  for (int i = 0; i < 300 && !Backing(device).empty(); ++i) usleep(10'000);
  EXPECT_EQ(Backing(device), "");
}

TEST(OwnCgroup, OfADeadToolIsRemovedAndOthersAreLeft) {
  std::string folder = testing::TempDir() + "own-groups-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const std::string stale = folder + "/rouse-x-" + std::to_string(dead) + "-1";
  std::filesystem::create_directory(stale);
  std::filesystem::create_directory(folder + "/rouse-xy-" + std::to_string(dead) + "-1");
  const Result<std::string> ours = MakeCgroup(folder, "rouse-x");
  ASSERT_TRUE(ours.ok());
  EXPECT_THAT(RemoveStaleCgroups(folder, "rouse-x"), testing::ElementsAre(stale));
  EXPECT_EQ(access(ours->c_str(), F_OK), 0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rouse::os
