// Known workloads: a child process reads exactly N bytes from the disk, takes exactly 23 major
// faults, holds exactly X bytes, switches context, burns CPU; and the readers of os/ must agree.
// What a kernel or file system cannot give is skipped with the reason.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/time.h"
#include "os/block_device.h"
#include "os/delay_accounting.h"
#include "os/diskstats.h"
#include "os/meminfo.h"
#include "os/page_cache.h"
#include "os/process_tree_counters.h"
#include "os/smaps_rollup.h"
#include "os/vmstat.h"

namespace rouse::os {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kPageBytes = 4096;
constexpr long kTmpfsMagic = 0x01021994;

// A child process that does one thing when told, and lives until the test is done: its counters can
// be read before and after from outside, as a server's are.
class Worker {
 public:
  // `work` runs between the two stops; `prepare` before the first.
  Worker(const std::function<void()>& prepare, const std::function<void()>& work) {
    if (pipe(to_child_) != 0 || pipe(from_child_) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      // Everything that could fault later is touched once.
      prepare();
      Tell(from_child_[1]);
      Hear(to_child_[0]);
      work();
      Tell(from_child_[1]);
      Hear(to_child_[0]);
      _exit(0);
    }
    Hear(from_child_[0]);
    before_ = Read();
  }
  ~Worker() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (const int fd : {to_child_[0], to_child_[1], from_child_[0], from_child_[1]}) close(fd);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Lets it work; what it used meanwhile.
  ProcessTreeCounters Run() {
    Tell(to_child_[1]);
    Hear(from_child_[0]);
    return CountersBetween(before_, Read());
  }

  ProcessTreeCounters Read() const { return ReadProcessTreeCounters(ProcRoot::Real(), {&pid_, 1}); }
  const ProcessTreeCounters& before() const { return before_; }
  int pid() const { return pid_; }

 private:
  static void Tell(int fd) {
    if (write(fd, "x", 1) != 1) _exit(90);
  }
  static void Hear(int fd) {
    char byte = 0;
    if (read(fd, &byte, 1) != 1) _exit(91);
  }

  int to_child_[2];
  int from_child_[2];
  int pid_ = 0;
  ProcessTreeCounters before_;
};

class KnownWorkload : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "rouse_known_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // A cold file. Skips the test where files have no storage below them.
  void MakeColdFile(int64_t bytes) {
    struct statfs facts{};
    ASSERT_EQ(statfs(directory_.c_str(), &facts), 0);
    if (facts.f_type == kTmpfsMagic) GTEST_SKIP() << directory_ << " is tmpfs: set TMPDIR";
    {
      std::ofstream file(path(), std::ios::binary);
      std::string block(static_cast<size_t>(kMiB), 'x');
      for (int64_t done = 0; done < bytes; done += kMiB) {
        std::memcpy(block.data(), &done, sizeof done);
        file.write(block.data(), std::min(kMiB, bytes - done));
      }
    }
    Evict();
  }

  void Evict() {
    const Result<EvictReport> report = EvictFile(path());
    ASSERT_TRUE(report.ok()) << report.error().message();
    ASSERT_EQ(report->after.resident_bytes, 0) << report->WhyNot();
  }

  std::string path() const { return directory_ + "/file"; }

  std::string directory_;
};

TEST_F(KnownWorkload, ReadBytesCountsExactlyWhatWasReadPastThePageCache) {
  MakeColdFile(16 * kMiB);
  if (IsSkipped()) return;
  constexpr int64_t kBytes = 7 * kMiB;
  int fd = open(path().c_str(), O_RDONLY | O_DIRECT);
  if (fd < 0) GTEST_SKIP() << "this file system has no O_DIRECT";
  void* const buffer = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  Worker worker([] {},
                [fd, buffer] {
                  for (int64_t done = 0; done < kBytes; done += kMiB) {
                    if (pread(fd, buffer, kMiB, done) != kMiB) _exit(92);
                  }
                });
  const ProcessTreeCounters used = worker.Run();
  EXPECT_EQ(used.read_bytes, kBytes);
  EXPECT_EQ(used.read_syscall_bytes, kBytes + 1);  // and the byte that told it to begin
  EXPECT_EQ(ReadResidency(path())->resident_bytes, 0);
  close(fd);
  munmap(buffer, kMiB);
}

TEST_F(KnownWorkload, ReadBytesCountsAColdFileOnceAndAWarmOneNotAtAll) {
  constexpr int64_t kBytes = 24 * kMiB;
  MakeColdFile(kBytes);
  if (IsSkipped()) return;
  const std::string file = path();
  const auto read_all = [file] {
    const int fd = open(file.c_str(), O_RDONLY);
    std::string buffer(64 * 1024, '\0');
    while (read(fd, buffer.data(), buffer.size()) > 0) {
    }
    close(fd);
  };
  Worker cold([] {}, read_all);
  // A cold file's metadata (its extents) may be read along with it.
  const ProcessTreeCounters first = cold.Run();
  EXPECT_GE(*first.read_bytes, kBytes);
  EXPECT_LE(*first.read_bytes, kBytes + 64 * 1024);
  Worker warm([] {}, read_all);
  const ProcessTreeCounters second = warm.Run();
  EXPECT_EQ(second.read_bytes, 0);
  EXPECT_EQ(second.read_syscall_bytes, kBytes + 1);
}

TEST_F(KnownWorkload, Exactly23MajorFaultsAreCounted) {
  MakeColdFile(23 * 16 * kPageBytes);
  if (IsSkipped()) return;
  const Result<MappedFile> mapped = MappedFile::Map(path());
  ASSERT_TRUE(mapped.ok());
  auto* const bytes = const_cast<std::byte*>(mapped->data());
  // No read-around: each page that is touched is one fault, and one page read.
  ASSERT_EQ(madvise(bytes, static_cast<size_t>(mapped->bytes()), MADV_RANDOM), 0);
  Worker worker([] {},
                [bytes] {
                  for (int i = 0; i < 23; ++i) {
                    const volatile auto byte = bytes[i * 16 * kPageBytes];
                    (void)byte;
                  }
                });
  const Result<Vmstat> machine_before = ReadVmstat(ProcRoot::Real());
  const ProcessTreeCounters used = worker.Run();
  const Result<Vmstat> machine_after = ReadVmstat(ProcRoot::Real());
  EXPECT_EQ(used.major_faults, 23);
  EXPECT_EQ(used.read_bytes, 23 * kPageBytes);
  EXPECT_EQ(ReadResidency(path())->resident_bytes, 23 * kPageBytes);
  EXPECT_GE(*machine_after->major_faults - *machine_before->major_faults, 23);
}

TEST_F(KnownWorkload, TouchingResidentPagesOfAFileIsMinorFaultsOnly) {
  MakeColdFile(kMiB);
  if (IsSkipped()) return;
  const Result<MappedFile> mapped = MappedFile::Map(path());
  ASSERT_TRUE(mapped.ok());
  ASSERT_TRUE(PopulateRange(mapped->data(), mapped->bytes()).ok());
  const std::byte* const bytes = mapped->data();
  Worker worker([] {},
                [bytes] {
                  for (int64_t offset = 0; offset < kMiB; offset += kPageBytes) {
                    const volatile auto byte = bytes[offset];
                    (void)byte;
                  }
                });
  const ProcessTreeCounters used = worker.Run();
  EXPECT_EQ(used.major_faults, 0);
  EXPECT_EQ(used.read_bytes, 0);
  EXPECT_GT(*used.minor_faults, 0);
}

TEST_F(KnownWorkload, HeldMemoryIsSeenInRssAndPss) {
  constexpr int64_t kBytes = 64 * kMiB;
  const Result<SmapsRollup> own = ReadSmapsRollup(ProcRoot::Real(), getpid());
  Worker worker([] {},
                [] {
                  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                  if (memory == MAP_FAILED) _exit(93);
                  std::memset(memory, 1, kBytes);
                });
  const int64_t anon_before = *worker.before().rss_anon_bytes;
  const ProcessTreeCounters used = worker.Run();
  EXPECT_NEAR(static_cast<double>(*used.rss_anon_bytes - anon_before), kBytes, kMiB);
  // One minor fault a page, or fewer with huge pages; the memset itself and little else.
  EXPECT_GT(*used.minor_faults, 0);
  EXPECT_LE(*used.minor_faults, kBytes / kPageBytes + 300);
  ASSERT_TRUE(own.ok()) << own.error().message();
  const Result<SmapsRollup> rollup = ReadSmapsRollup(ProcRoot::Real(), worker.pid());
  ASSERT_TRUE(rollup.ok());
  EXPECT_GE(*rollup->pss_bytes, kBytes);
  EXPECT_LE(*rollup->pss_bytes, kBytes + 16 * kMiB);
}

TEST_F(KnownWorkload, LockedMemoryIsSeenInVmLckAndMlocked) {
  constexpr int64_t kBytes = 4 * kMiB;
  const Result<Meminfo> before = ReadMeminfo(ProcRoot::Real());
  Worker worker([] {},
                [] {
                  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                  if (mlock(memory, kBytes) != 0) _exit(94);
                });
  const ProcessTreeCounters used = worker.Run();
  EXPECT_EQ(used.locked_bytes, kBytes);
  EXPECT_EQ(ReadSmapsRollup(ProcRoot::Real(), worker.pid())->locked_bytes, kBytes);
  EXPECT_GE(*ReadMeminfo(ProcRoot::Real())->locked_bytes, *before->locked_bytes);
}

TEST_F(KnownWorkload, WrittenBytesAndDirtyPagesAreCounted) {
  MakeColdFile(kMiB);
  if (IsSkipped()) return;
  const std::string file = path();
  Worker worker([] {},
                [file] {
                  const int fd = open(file.c_str(), O_WRONLY);
                  const std::string block(512 * 1024, 'z');
                  if (pwrite(fd, block.data(), block.size(), 0) != 512 * 1024) _exit(95);
                });
  const ProcessTreeCounters used = worker.Run();
  EXPECT_EQ(used.write_bytes, 512 * 1024);
  const Result<Residency> residency = ReadResidency(file);
  ASSERT_TRUE(residency.ok());
  if (!residency->dirty_bytes) GTEST_SKIP() << "only cachestat tells dirty pages";
  EXPECT_EQ(*residency->dirty_bytes + *residency->writeback_bytes, 512 * 1024);
}

TEST_F(KnownWorkload, CpuTimeAgreesWithWhatTheProcessSpun) {
  constexpr int64_t kSpinNs = 300 * kNsPerMs;
  Worker worker([] {},
                [] {
                  timespec now{};
                  do {
                    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
                  } while (now.tv_sec * kNsPerSecond + now.tv_nsec < kSpinNs);
                });
  const ProcessTreeCounters used = worker.Run();
  EXPECT_NEAR(static_cast<double>(*used.cpu_ns), kSpinNs, 20.0 * kNsPerMs);
  EXPECT_NEAR(static_cast<double>(*used.user_cpu_ns + *used.system_cpu_ns), kSpinNs,
              40.0 * kNsPerMs);
}

TEST_F(KnownWorkload, WaitingForTheCpuIsSeenInTheRunQueue) {
  constexpr int64_t kSpinNs = 200 * kNsPerMs;
  const auto spin = [] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    timespec now{};
    do {
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * kNsPerSecond + now.tv_nsec < kSpinNs);
  };
  // Two that spin on one CPU: each waits about as long as it runs.
  Worker worker([] {},
                [spin] {
                  std::thread other(spin);
                  spin();
                  other.join();
                });
  const ProcessTreeCounters used = worker.Run();
  // The spinner that is left when the other has ended is counted; the ended thread's share is not.
  EXPECT_GE(*used.run_queue_wait_ns, kSpinNs / 3);
  EXPECT_GE(*used.involuntary_context_switches, 2);
}

TEST_F(KnownWorkload, SleepingIsCountedAsVoluntarySwitches) {
  Worker worker([] {},
                [] {
                  for (int i = 0; i < 50; ++i) usleep(1000);
                });
  const ProcessTreeCounters used = worker.Run();
  EXPECT_GE(*used.voluntary_context_switches, 50);
  EXPECT_LE(*used.voluntary_context_switches, 50 + 5);
}

TEST_F(KnownWorkload, ReapedChildrenStayInTheSums) {
  MakeColdFile(8 * kMiB);
  if (IsSkipped()) return;
  const std::string file = path();
  Worker worker([] {},
                [file] {
                  const pid_t pid = fork();
                  if (pid == 0) {
                    const int fd = open(file.c_str(), O_RDONLY);
                    std::string buffer(64 * 1024, '\0');
                    while (read(fd, buffer.data(), buffer.size()) > 0) {
                    }
                    _exit(0);
                  }
                  waitpid(pid, nullptr, 0);
                });
  const ProcessTreeCounters used = worker.Run();
  EXPECT_GE(*used.read_bytes, 8 * kMiB);
  EXPECT_LE(*used.read_bytes, 8 * kMiB + 64 * 1024);
}

TEST_F(KnownWorkload, TheDiskSawAtLeastWhatTheProcessRead) {
  MakeColdFile(16 * kMiB);
  if (IsSkipped()) return;
  const Result<Storage> storage = ReadStorage(ProcRoot::Real(), path());
  ASSERT_TRUE(storage.ok());
  if (!storage->device) GTEST_SKIP() << storage->no_device_reason;
  const std::string device = storage->device->name;
  const Result<Diskstats> before = ReadDiskstats(ProcRoot::Real(), device);
  const Result<MappedFile> mapped = MappedFile::Map(path());
  ASSERT_TRUE(PopulateRange(mapped->data(), mapped->bytes()).ok());
  const Result<Diskstats> after = ReadDiskstats(ProcRoot::Real(), device);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_GE(*after->read_bytes - *before->read_bytes, 16 * kMiB);
}

// Switches delay accounting on for the test, and back.
class DelayAccountingOn {
 public:
  DelayAccountingOn() : was_(DelayAccountingIsOn(ProcRoot::Real())) { Set(true); }
  ~DelayAccountingOn() { Set(was_); }
  bool on() const { return DelayAccountingIsOn(ProcRoot::Real()); }

 private:
  static void Set(bool on) { std::ofstream("/proc/sys/kernel/task_delayacct") << (on ? "1" : "0"); }
  bool was_;
};

TEST_F(KnownWorkload, WaitingForTheDiskIsSeenInDelayAccounting) {
  MakeColdFile(32 * kMiB);
  if (IsSkipped()) return;
  const DelayAccountingOn accounting;
  if (!accounting.on()) {
    GTEST_SKIP() << "kernel.task_delayacct cannot be switched on (root, and a kernel that has it)";
  }
  const Result<MappedFile> mapped = MappedFile::Map(path());
  auto* const bytes = const_cast<std::byte*>(mapped->data());
  madvise(bytes, static_cast<size_t>(mapped->bytes()), MADV_RANDOM);
  Worker worker([] {},
                [bytes] {
                  for (int64_t offset = 0; offset < 32 * kMiB; offset += 32 * kPageBytes) {
                    const volatile auto byte = bytes[offset];
                    (void)byte;
                  }
                });
  const Result<DelayAccounting> before = ReadDelayAccounting(worker.pid());
  if (!before.ok()) GTEST_SKIP() << before.error().message();
  const MonoTime start = MonoNow();
  const ProcessTreeCounters used = worker.Run();
  const int64_t wall_ns = MonoNow() - start;
  const Result<DelayAccounting> after = ReadDelayAccounting(worker.pid());
  ASSERT_TRUE(after.ok()) << after.error().message();
  const int64_t waited_ns = *after->block_io_ns - *before->block_io_ns;
  EXPECT_GT(waited_ns, 0);
  EXPECT_LE(waited_ns, wall_ns);
  // The ticks of /proc/PID/stat are the same sum, in steps of 10 ms.
  EXPECT_NEAR(static_cast<double>(*used.block_io_delay_ns), static_cast<double>(waited_ns),
              20.0 * kNsPerMs);
}

TEST(DelayAccounting, SaysWhyItIsNotThere) {
  if (DelayAccountingIsOn(ProcRoot::Real())) GTEST_SKIP() << "it is on here";
  const Result<DelayAccounting> delays = ReadDelayAccounting(getpid());
  ASSERT_FALSE(delays.ok());
  EXPECT_EQ(delays.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(delays.error().message(), testing::HasSubstr("kernel.task_delayacct"));
}

}  // namespace
}  // namespace rouse::os
