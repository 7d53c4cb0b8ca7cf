// The real load processes: this test binary stands in for `rouse worker`.
#include "lab/contention.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/fd.h"
#include "lab/worker.h"
#include "os/process.h"

namespace rouse::lab {
namespace {

// Before gtest sees the arguments.
__attribute__((constructor)) void BeWorker(int argc, char** argv, char** /*environment*/) {
  if (argc < 2 || std::strcmp(argv[1], "worker") != 0) return;
  _exit(RunWorker(std::vector<std::string>(argv + 2, argv + argc)));
}

constexpr int64_t kMiB = 1 << 20;

MonoTime Soon() { return MonoNow() + 60 * kNsPerSecond; }

void Wait(int64_t ms) { RealClock().SleepFor(ms * kNsPerMs); }

// The directory in "in control group /sys/...", or "".
std::string GroupOf(const Loads& loads) {
  const std::string text = loads.BallastGroup();
  const std::string word = "in control group ";
  return text.starts_with(word) ? text.substr(word.size()) : "";
}

bool GoneSoon(const std::string& path) {
  for (int i = 0; i < 500; ++i) {
    if (access(path.c_str(), F_OK) != 0) return true;
    Wait(10);
  }
  return false;
}

TEST(Ballast, HoldsTheBytesThatWereAskedForAndGivesThemBack) {
  LoadSpec spec;
  spec.ballast_bytes = 64 * kMiB;
  Result<std::unique_ptr<Loads>> loads = RealLoadMaker().StartLoads(spec, Soon());
  ASSERT_TRUE(loads.ok()) << loads.error().message();
  const std::optional<int64_t> held = (*loads)->Read().ballast_bytes;
  ASSERT_TRUE(held.has_value());
  EXPECT_GE(*held, 64 * kMiB);
  EXPECT_LE(*held, 80 * kMiB);
  const std::string group = GroupOf(**loads);
  EXPECT_TRUE(geteuid() != 0 || !group.empty()) << (*loads)->BallastGroup();
  ASSERT_TRUE((*loads)->Finish(Soon()).ok());
  EXPECT_FALSE((*loads)->Read().ballast_bytes.has_value());
  EXPECT_TRUE(group.empty() || GoneSoon(group)) << group;
}

TEST(Ballast, BeyondTheAddressSpaceSaysSo) {
  LoadSpec spec;
  spec.ballast_bytes = int64_t{1} << 60;
  const auto loads = RealLoadMaker().StartLoads(spec, Soon());
  ASSERT_FALSE(loads.ok());
  EXPECT_NE(loads.error().message().find("the load \"ballast\" did not start: cannot map"),
            std::string::npos)
      << loads.error().message();
}

TEST(Ballast, OfAKilledToolLeavesNeitherProcessNorControlGroup) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t tool = fork();
  if (tool == 0) {
    LoadSpec spec;
    spec.ballast_bytes = 16 * kMiB;
    // A keeper of its own: the one of the test belongs to the test.
    const auto loads = RealLoadMaker().StartLoads(spec, Soon());
    const std::string text = loads.ok() ? GroupOf(**loads) + "\n" : "failed\n";
    [[maybe_unused]] const ssize_t count = write(ends[1], text.data(), text.size());
    pause();
    _exit(1);
  }
  char text[4096] = {};
  ASSERT_GT(read(ends[0], text, sizeof text - 1), 0);
  const std::string group(text, std::strlen(text) - 1);
  ASSERT_NE(group, "failed");
  kill(tool, SIGKILL);
  waitpid(tool, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  if (group.empty()) GTEST_SKIP() << "no control group could be made here";
  EXPECT_TRUE(GoneSoon(group)) << group;
}

TEST(StaleBallastGroups, OfDeadToolsAreRemovedAndOthersLeft) {
  std::string folder = ::testing::TempDir() + "groups-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const std::string stale = folder + "/rouse-ballast-" + std::to_string(dead) + "-1";
  const std::string alive = folder + "/rouse-ballast-" + std::to_string(getpid()) + "-1";
  const std::string other = folder + "/user.slice";
  for (const std::string& each : {stale, alive, other}) ASSERT_EQ(mkdir(each.c_str(), 0755), 0);
  RemoveStaleBallastGroups(folder);
  EXPECT_NE(access(stale.c_str(), F_OK), 0);
  EXPECT_EQ(access(alive.c_str(), F_OK), 0);
  EXPECT_EQ(access(other.c_str(), F_OK), 0);
  std::filesystem::remove_all(folder);
}

TEST(CpuLoad, UsesTheProcessors) {
  LoadSpec spec;
  spec.background = "cpu";
  Result<std::unique_ptr<Loads>> loads = RealLoadMaker().StartLoads(spec, Soon());
  ASSERT_TRUE(loads.ok()) << loads.error().message();
  const std::optional<int64_t> before = (*loads)->Read().cpu_ns;
  Wait(300);
  const std::optional<int64_t> after = (*loads)->Read().cpu_ns;
  ASSERT_TRUE(before && after);
  EXPECT_GT(*after - *before, 50 * kNsPerMs);
  EXPECT_TRUE((*loads)->Finish(Soon()).ok());
}

TEST(DiskLoad, ReadsFromTheDiskAndNotFromThePageCache) {
  std::string path = ::testing::TempDir() + "disk-XXXXXX";
  {
    const Fd fd(mkstemp(path.data()));
    ASSERT_TRUE(WriteAll(fd.get(), std::string(8 * kMiB, 'x')).ok());
    ASSERT_EQ(fsync(fd.get()), 0);
  }
  LoadSpec spec;
  spec.background = "disk";
  spec.disk_file = path;
  Result<std::unique_ptr<Loads>> loads = RealLoadMaker().StartLoads(spec, Soon());
  if (!loads.ok()) GTEST_SKIP() << loads.error().message();
  const std::optional<int64_t> before = (*loads)->Read().read_bytes;
  Wait(200);
  const std::optional<int64_t> after = (*loads)->Read().read_bytes;
  ASSERT_TRUE(before && after);
  EXPECT_GT(*after, *before);
  EXPECT_TRUE((*loads)->Finish(Soon()).ok());
  unlink(path.c_str());
}

TEST(DiskLoad, OfAFileThatIsNotThereSaysSo) {
  LoadSpec spec;
  spec.background = "disk";
  spec.disk_file = "/nowhere/model.gguf";
  const auto loads = RealLoadMaker().StartLoads(spec, Soon());
  ASSERT_FALSE(loads.ok());
  EXPECT_NE(loads.error().message().find("/nowhere/model.gguf"), std::string::npos);
}

TEST(RequestLoad, OfAServerThatIsNotThereAnswersNothing) {
  LoadSpec spec;
  spec.background = "requests";
  spec.url = "http://127.0.0.1:1";
  spec.api = "openai-chat";
  spec.model = "m";
  Result<std::unique_ptr<Loads>> loads = RealLoadMaker().StartLoads(spec, Soon());
  ASSERT_TRUE(loads.ok()) << loads.error().message();
  Wait(50);
  const Result<LoadReport> report = (*loads)->Finish(Soon());
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->requests_answered, 0);
}

TEST(RealSentinel, ComparesItsUnitsBeforeAndDuring) {
  Result<std::unique_ptr<Sentinel>> sentinel = RealLoadMaker().StartSentinel(Soon());
  ASSERT_TRUE(sentinel.ok()) << sentinel.error().message();
  Wait(450);
  const MonoTime from = MonoNow();
  Wait(400);
  const Result<SentinelReading> reading = (*sentinel)->Finish(from, MonoNow(), Soon());
  ASSERT_TRUE(reading.ok()) << reading.error().message();
  EXPECT_GE(reading->before_count, 5);
  EXPECT_GE(reading->during_count, 3);
  // Above a timer tick: a shorter unit would not notice who else wants the core (lab/worker.cc).
  EXPECT_GT(reading->before_median_ns, 4 * kNsPerMs);
}

TEST(SentinelUnits, GiveTheRatioOfTheirMedians) {
  const std::vector<int64_t> start = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90};
  const std::vector<int64_t> took = {9, 10, 10, 10, 99, 20, 20, 25, 20, 1};
  const Result<SentinelReading> reading =
      CompareSentinelUnits(start, took, MonoTime{50}, MonoTime{100});
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(reading->before_median_ns, 10);
  EXPECT_EQ(reading->during_median_ns, 20);
  EXPECT_DOUBLE_EQ(reading->slowdown, 1.0);
}

TEST(SentinelUnits, BelowFiveBeforeOrThreeDuringSayNothing) {
  const std::vector<int64_t> start = {0, 1, 2, 3, 4, 10, 11};
  const std::vector<int64_t> took(start.size(), 5);
  const auto reading = CompareSentinelUnits(start, took, MonoTime{10}, MonoTime{100});
  ASSERT_FALSE(reading.ok());
  EXPECT_NE(reading.error().message().find("5 units before and 2 during"), std::string::npos);
  // A unit that began after the request does not count.
  EXPECT_FALSE(CompareSentinelUnits(start, took, MonoTime{5}, MonoTime{11}).ok());
  EXPECT_FALSE(CompareSentinelUnits(start, took, MonoTime{3}, MonoTime{100}).ok());
}

TEST(Worker, RefusesArgumentsThatItDoesNotKnow) {
  EXPECT_EQ(RunWorker({"sentinel", "-5"}), 2);
  EXPECT_EQ(RunWorker({"nonsense", "1"}), 2);
  EXPECT_EQ(RunWorker({}), 2);
}

}  // namespace
}  // namespace rouse::lab
