#include "lab/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "os/fake_root.h"
#include "results/metrics.h"
#include "results/samples.h"

namespace rouse::lab {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

constexpr int64_t kPeriodNs = 5 * kNsPerMs;

results::Samples Taken(const results::Attempt& attempt) {
  const Result<results::Samples> samples = results::ParseSamples(attempt.samples_json);
  EXPECT_TRUE(samples.ok()) << samples.error().message() << attempt.samples_json;
  return samples.ok() ? *samples : results::Samples();
}

// A process that has read so many bytes and had so many faults.
void WriteProcess(os::FakeRoot& root, int pid, int64_t minor, int64_t major, int64_t read) {
  const std::string folder = "proc/" + std::to_string(pid);
  root.Write(folder + "/stat", std::to_string(pid) + " (x) S 1 1 1 0 -1 0 " +
                                   std::to_string(minor) + " 0 " + std::to_string(major) +
                                   " 0 1 1 0 0 20 0 1 0 77 1 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 0 0 "
                                   "0 0 0 0 0 0 0 0 0 0 0 0\n");
  root.Write(folder + "/io",
             "rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: " + std::to_string(read) +
                 "\nwrite_bytes: 0\ncancelled_write_bytes: 0\n");
}

void WritePressure(os::FakeRoot& root, const std::string& name, int64_t some, int64_t full) {
  const std::string averages = " avg10=0.00 avg60=0.00 avg300=0.00 total=";
  root.Write("proc/pressure/" + name, "some" + averages + std::to_string(some) + "\nfull" +
                                          averages + std::to_string(full) + "\n");
}

TEST(Sampler, TellsTotalsSinceItsFirstSampleOnTheTimeOfTheSend) {
  os::FakeRoot root;
  WriteProcess(root, 7, 1000, 50, 4096);
  WritePressure(root, "cpu", 10, 0);
  WritePressure(root, "io", 500, 400);
  const os::ProcRoot proc = root.Open();
  const auto sampler = MakeSampler(proc, kNsPerSecond);
  const std::vector<int> pids = {7};
  const MonoTime before = MonoNow();
  sampler->Begin(pids, "");
  const MonoTime intended = MonoNow();
  WriteProcess(root, 7, 1004, 53, 8192);
  WritePressure(root, "cpu", 17, 0);
  WritePressure(root, "io", 512, 409);
  results::Attempt attempt;
  sampler->End(intended, attempt);
  const results::Samples samples = Taken(attempt);
  ASSERT_THAT(samples.at_ns, SizeIs(2));
  EXPECT_GE(samples.at_ns[0], before - intended);
  EXPECT_LE(samples.at_ns[0], 0);
  EXPECT_GE(samples.at_ns[1], 0);
  EXPECT_THAT(samples.totals.at("target_minor_faults"), ElementsAre(0, 4));
  EXPECT_THAT(samples.totals.at("target_major_faults"), ElementsAre(0, 3));
  EXPECT_THAT(samples.totals.at("target_read_bytes"), ElementsAre(0, 4096));
  EXPECT_THAT(samples.totals.at("psi_cpu_some_us"), ElementsAre(0, 7));
  EXPECT_THAT(samples.totals.at("psi_io_full_us"), ElementsAre(0, 9));
  // There is no memory pressure in this kernel, and no file: left out, with the reason for the
  // file.
  EXPECT_FALSE(samples.totals.contains("psi_memory_some_us"));
  EXPECT_TRUE(samples.page_cache.empty());
  EXPECT_TRUE(attempt.null_reasons.contains("samples.page_cache"));
  for (const auto& [name, column] : samples.totals) {
    EXPECT_NE(results::FindMetric(name), nullptr) << name;
  }
}

TEST(Sampler, CountsANewProcessFromItsStartAndKeepsWhatOneThatEndedHad) {
  os::FakeRoot root;
  const os::ProcRoot proc = root.Open();
  const auto sampler = MakeSampler(proc, kPeriodNs);
  sampler->Begin({}, "");
  WriteProcess(root, 8, 20, 2, 100);
  WriteProcess(root, 9, 300, 30, 1000);
  root.Write("proc/8/task/8/children", "9 ");
  sampler->Follow(8);
  RealClock().SleepFor(20 * kPeriodNs);
  root.Remove("proc/9");
  RealClock().SleepFor(4 * kPeriodNs);
  results::Attempt attempt;
  sampler->End(MonoNow(), attempt);
  const auto faults = Taken(attempt).totals.at("target_minor_faults");
  EXPECT_EQ(faults.front(), 0);
  EXPECT_EQ(faults.back(), 320);
  EXPECT_TRUE(std::is_sorted(faults.begin(), faults.end()));
}

TEST(Sampler, KeepsAsManyAsAPictureShowsHoweverLongItTakes) {
  os::FakeRoot root;
  const os::ProcRoot proc = root.Open();
  const auto sampler = MakeSampler(proc, kNsPerMs);
  sampler->Begin({}, "");
  const MonoTime intended = MonoNow();
  RealClock().SleepFor(400 * kNsPerMs);
  results::Attempt attempt;
  sampler->End(intended, attempt);
  const std::vector<int64_t> times = Taken(attempt).at_ns;
  EXPECT_GT(times.size(), 20U);
  EXPECT_LE(times.size(), 129U);
  EXPECT_LE(times.front(), 0);
  EXPECT_GE(times.back(), 400 * kNsPerMs);
  EXPECT_GT(std::get<int64_t>(*attempt.counters.at("sampler_cpu_ns")), 0);
}

TEST(Sampler, StoresNothingWithoutBeginAndEndsWithItself) {
  const auto sampler = MakeSampler(os::ProcRoot::Real(), kPeriodNs);
  results::Attempt attempt;
  sampler->End(MonoNow(), attempt);
  EXPECT_EQ(attempt.samples_json, "");
  sampler->Begin({}, "");  // and is destroyed while it runs
}

TEST(Sampler, SeesTheFaultsOfThisProcessAndTheFileComeIn) {
  const std::string path = std::filesystem::temp_directory_path() / "rouse_sampled";
  std::ofstream(path, std::ios::binary) << std::string(1U << 20U, 'x');
  const auto sampler = MakeSampler(os::ProcRoot::Real(), kPeriodNs);
  const std::vector<int> pids = {getpid()};
  sampler->Begin(pids, path);
  constexpr size_t kPages = 500;
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, kPages * page_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(madvise(memory, kPages * page_bytes, MADV_NOHUGEPAGE), 0);
  for (size_t page = 0; page < kPages; ++page) {
    static_cast<volatile char*>(memory)[page * page_bytes] = 1;
  }
  results::Attempt attempt;
  sampler->End(MonoNow(), attempt);
  munmap(memory, kPages * page_bytes);
  std::filesystem::remove(path);
  const results::Samples samples = Taken(attempt);
  EXPECT_GE(samples.totals.at("target_minor_faults").back(), static_cast<int64_t>(kPages));
  if (!samples.page_cache.empty()) {
    EXPECT_THAT(samples.page_cache, Each(std::string(32, '9')));
  }
}

}  // namespace
}  // namespace rouse::lab
