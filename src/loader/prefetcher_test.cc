// On real files that were evicted before; what is resident is told by the kernel.
#include "loader/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gguf/test_bytes.h"
#include "os/as_nobody.h"
#include "os/page_cache.h"

namespace rouse::loader {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kFileBytes = 20'000'001;

class PrefetcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_.Write("model", std::string(static_cast<size_t>(kFileBytes), 'x'));
    Evict(path_);
  }

  void Evict(const std::string& path) {
    const Result<os::EvictReport> evicted = os::EvictFile(path);
    ASSERT_TRUE(evicted.ok()) << evicted.error().message();
    if (!evicted->Cold()) GTEST_SKIP() << "files can't be evicted here: " << evicted->WhyNot();
  }

  Prefetcher::Options Options() const {
    Prefetcher::Options options;
    options.parts = {path_};
    options.profiles_path = folder_.path() + "/devices";
    return options;
  }

  static double Ratio(const std::string& path) {
    const Result<os::Residency> residency = os::ReadResidency(path);
    return residency.ok() ? residency->Ratio() : -1;
  }

  gguf::TestFolder folder_;
  std::string path_;
};

TEST_F(PrefetcherTest, BringsAllPartsInAndThenFindsThemResident) {
  const std::string second = folder_.Write("second", std::string(3'000'000, 'y'));
  Evict(second);
  Prefetcher::Options options = Options();
  options.parts.push_back(second);
  const auto reader = Prefetcher::Start(options);
  reader->Wait();
  const PrefetchReport report = reader->Report();
  EXPECT_EQ(report.end, PrefetchEnd::kDone) << report.problem;
  EXPECT_EQ(Ratio(path_), 1.0);
  EXPECT_EQ(Ratio(second), 1.0);
  EXPECT_EQ(report.file_bytes, kFileBytes + 3'000'000);
  EXPECT_EQ(report.read_bytes, kFileBytes + 3'000'000);
  EXPECT_EQ(report.mapped_bytes, 0);
  EXPECT_GT(report.ended, report.started);

  const auto again = Prefetcher::Start(options);
  again->Wait();
  EXPECT_EQ(again->Report().read_bytes, 0);
  EXPECT_EQ(again->Report().resident_bytes, kFileBytes + 3'000'000);
}

TEST_F(PrefetcherTest, GoesThroughTheMappingThatExists) {
  const Result<os::MappedFile> map = os::MappedFile::Map(path_);
  ASSERT_TRUE(map.ok());
  Prefetcher::Options options = Options();
  // Only the second half is mapped, as when a model's header is left out.
  constexpr int64_t kHalf = int64_t{8} << 20;
  options.mappings = {{path_, map->data() + kHalf, kHalf, map->bytes() - kHalf}};
  const auto reader = Prefetcher::Start(options);
  reader->Wait();
  EXPECT_EQ(reader->Report().end, PrefetchEnd::kDone);
  EXPECT_EQ(reader->Report().read_bytes, kFileBytes);
  EXPECT_EQ(reader->Report().mapped_bytes, kFileBytes - kHalf);
  EXPECT_EQ(Ratio(path_), 1.0);
}

TEST_F(PrefetcherTest, AfterDetachNoMappingIsTouched) {
  Prefetcher::Options options = Options();
  const auto reader = Prefetcher::Start(options);
  {
    const Result<os::MappedFile> map = os::MappedFile::Map(path_);
    ASSERT_TRUE(map.ok());
    reader->Attach({{path_, map->data(), 0, map->bytes()}});
    reader->Detach();
  }  // unmapped: a window through it would fail
  reader->Wait();
  EXPECT_EQ(reader->Report().end, PrefetchEnd::kDone) << reader->Report().problem;
  EXPECT_EQ(Ratio(path_), 1.0);
}

TEST_F(PrefetcherTest, ReadsOnlyWhatFitsIntoMemoryAndSaysWhatItLeftOut) {
  Prefetcher::Options options = Options();
  options.reserve_bytes = int64_t{1} << 60;
  std::optional<int64_t> memory_bytes = -1;
  options.on_fit = [&](std::optional<int64_t> bytes) { memory_bytes = bytes; };
  const auto reader = Prefetcher::Start(options);
  reader->Wait();
  const PrefetchReport report = reader->Report();
  EXPECT_EQ(report.end, PrefetchEnd::kMemory);
  EXPECT_EQ(report.read_bytes, 0);
  EXPECT_EQ(report.omitted_bytes, kFileBytes);
  EXPECT_EQ(memory_bytes, 0);
  EXPECT_EQ(Ratio(path_), 0.0);
  options.within_memory = false;
  const auto regardless = Prefetcher::Start(options);
  regardless->Wait();
  EXPECT_EQ(regardless->Report().end, PrefetchEnd::kDone);
  EXPECT_EQ(memory_bytes, std::nullopt);
}

// The kernel says that 15 MB are left, the file's own pages in the page cache among them.
TEST_F(PrefetcherTest, AFileThatIsTooLargeStaysSoWhenPartOfItIsResident) {
  ASSERT_TRUE(WarmFile(path_, 0.7, {}).ok());
  MemoryBudget budget;
  budget.machine_bytes = 15'000'000;
  budget.machine_file_bytes = 14'500'000;
  Prefetcher::Options options = Options();
  options.reserve_bytes = 0;
  options.read_memory = [&] { return budget; };
  std::optional<int64_t> memory_bytes = -1;
  options.on_fit = [&](std::optional<int64_t> bytes) { memory_bytes = bytes; };
  auto reader = Prefetcher::Start(options);
  reader->Wait();
  EXPECT_EQ(reader->Report().end, PrefetchEnd::kMemory);
  EXPECT_GT(reader->Report().omitted_bytes, 0);
  EXPECT_EQ(memory_bytes, 15'000'000);

  // Locked pages, and those that another group pays for, are in no such number.
  budget.locked_bytes = 6'000'000;
  reader = Prefetcher::Start(options);
  reader->Wait();
  EXPECT_EQ(reader->Report().end, PrefetchEnd::kDone) << reader->Report().problem;
  EXPECT_EQ(memory_bytes, std::nullopt);
  EXPECT_EQ(Ratio(path_), 1.0);
}

TEST_F(PrefetcherTest, CountsPagesThatAnotherGroupPaysForAsRoomForTheFile) {
  ASSERT_TRUE(WarmFile(path_, 0.7, {}).ok());
  MemoryBudget budget;
  budget.machine_bytes = int64_t{1} << 40;
  budget.group_bytes = 8'000'000;  // of which an eighth is left to others
  budget.group_file_bytes = 0;
  Prefetcher::Options options = Options();
  options.read_memory = [&] { return budget; };
  const auto reader = Prefetcher::Start(options);
  reader->Wait();
  EXPECT_EQ(reader->Report().end, PrefetchEnd::kDone) << reader->Report().problem;
  EXPECT_EQ(Ratio(path_), 1.0);
}

TEST_F(PrefetcherTest, JudgesASplitModelByAllOfItsParts) {
  constexpr int64_t kSecondBytes = 20'000'000;
  constexpr int64_t kKeptOfSecond = int64_t{8} << 20;  // whole windows of 4 MiB
  const std::string second =
      folder_.Write("second", std::string(static_cast<size_t>(kSecondBytes), 'y'));
  Evict(second);
  Prefetcher::Options options = Options();
  options.parts.push_back(second);
  options.reserve_bytes = 0;
  options.read_memory = [] {
    MemoryBudget budget;
    budget.machine_bytes = 30'000'000;  // enough for either, not for both
    return budget;
  };
  const auto reader = Prefetcher::Start(options);
  reader->Wait();
  EXPECT_EQ(reader->Report().end, PrefetchEnd::kMemory);
  EXPECT_EQ(Ratio(path_), 1.0);
  EXPECT_EQ(reader->Report().read_bytes, kFileBytes + kKeptOfSecond);
  EXPECT_EQ(reader->Report().omitted_bytes, kSecondBytes - kKeptOfSecond);
}

TEST_F(PrefetcherTest, EndsWhenCancelled) {
  Prefetcher::Options options = Options();
  options.setup = ReadSetup{ReadMethod::kPopulate, 1, 64 * 1024};
  const auto reader = Prefetcher::Start(options);
  reader->Cancel();
  reader->Wait();
  EXPECT_EQ(reader->Report().end, PrefetchEnd::kCancelled);
  EXPECT_LT(reader->Report().read_bytes, kFileBytes);
}

TEST_F(PrefetcherTest, SaysWhichFileCantBeRead) {
  Prefetcher::Options options = Options();
  options.parts = {folder_.path() + "/gone"};
  const auto gone = Prefetcher::Start(options);
  gone->Wait();
  EXPECT_EQ(gone->Report().end, PrefetchEnd::kFailed);
  EXPECT_THAT(gone->Report().problem, HasSubstr("/gone"));

  const Result<os::MappedFile> map = os::MappedFile::Map(path_);
  ASSERT_TRUE(map.ok());
  options.parts = {path_};
  // Mapped longer than the file is by the time it is read.
  options.mappings = {{path_, map->data(), 0, map->bytes()}};
  std::filesystem::resize_file(path_, 4096);
  const auto cut = Prefetcher::Start(options);
  cut->Wait();
  EXPECT_EQ(cut->Report().end, PrefetchEnd::kDone);  // there are only 4096 bytes to read
  EXPECT_EQ(cut->Report().file_bytes, 4096);
}

TEST_F(PrefetcherTest, ReadsSmallFilesByTheDefaultAndProbesNothing) {
  const auto reader = Prefetcher::Start(Options());
  reader->Wait();
  EXPECT_TRUE(reader->Report().probed.empty());
  EXPECT_EQ(reader->Report().setup, ReadSetup());
  EXPECT_TRUE(ReadProfiles(Options().profiles_path).empty());
}

TEST_F(PrefetcherTest, UsesWhatIsRememberedOfTheDevice) {
  DeviceProfile profile = {DeviceKey(os::ProcRoot::Real(), path_),
                           {ReadMethod::kPread, 2, int64_t{1} << 20},
                           1'000'000'000,
                           WallNowNs() / kNsPerSecond,
                           0};
  ASSERT_TRUE(SaveProfile(Options().profiles_path, profile).ok());
  const auto reader = Prefetcher::Start(Options());
  reader->Wait();
  EXPECT_EQ(reader->Report().setup, profile.setup);
  EXPECT_EQ(reader->Report().end, PrefetchEnd::kDone);
  EXPECT_EQ(Ratio(path_), 1.0);
}

// Such a user is told of no page whether it is resident (since Linux 6.14), so all of it is walked
// through, and what memory gave at once is no rate of the device.
TEST_F(PrefetcherTest, CountsOnlyWhatTheDiskReadForAUserWhoDoesNotOwnTheFile) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  constexpr int64_t kLargeBytes = int64_t{80} << 20;  // enough to learn a rate from
  const std::string large = folder_.Write("large", std::string(kLargeBytes, 'z'));
  for (const std::string& each : {folder_.path(), large}) ASSERT_EQ(chmod(each.c_str(), 0755), 0);
  const std::string profiles = folder_.path() + "/nobodys/devices";
  ASSERT_EQ(mkdir((folder_.path() + "/nobodys").c_str(), 0777), 0);
  ASSERT_EQ(chmod((folder_.path() + "/nobodys").c_str(), 0777), 0);
  const auto read_as_nobody = [&](int64_t least_bytes, int64_t most_bytes) {
    return os::AsNobody([&] {
      const DeviceProfile profile = {DeviceKey(os::ProcRoot::Real(), large), ReadSetup(), 1'000'000,
                                     WallNowNs() / kNsPerSecond, 0};
      if (!SaveProfile(profiles, profile).ok()) return 1;
      Prefetcher::Options options;
      options.parts = {large};
      options.profiles_path = profiles;
      const auto reader = Prefetcher::Start(options);
      reader->Wait();
      const PrefetchReport report = reader->Report();
      if (report.end != PrefetchEnd::kDone || report.resident_bytes) return 2;
      if (report.read_bytes < least_bytes) return 3;
      if (report.read_bytes > most_bytes) return 4;
      // The rate is learned from a cold read only.
      const bool learned = ReadProfiles(profiles).front().bytes_per_s != profile.bytes_per_s;
      return learned == (least_bytes > 0) ? 0 : 5;
    });
  };
  EXPECT_EQ(read_as_nobody(0, 0), 0);
  Evict(large);
  EXPECT_EQ(read_as_nobody(kLargeBytes * 9 / 10, kLargeBytes * 11 / 10), 0);
  EXPECT_EQ(Ratio(large), 1.0);
}

// The probe needs a file that is worth it.
TEST_F(PrefetcherTest, ProbesALargeColdFileOnceAndRemembersTheDevice) {
  const std::string large = folder_.path() + "/large";
  {
    const std::string piece(16U << 20U, 'z');
    std::ofstream file(large, std::ios::binary);
    for (int i = 0; i < 20; ++i) file << piece;
  }
  Evict(large);
  Prefetcher::Options options = Options();
  options.parts = {large};
  const auto reader = Prefetcher::Start(options);
  reader->Wait();
  const PrefetchReport report = reader->Report();
  ASSERT_EQ(report.end, PrefetchEnd::kDone) << report.problem;
  EXPECT_EQ(Ratio(large), 1.0);
  ASSERT_FALSE(report.probed.empty());
  EXPECT_EQ(report.probed.front().setup, CandidateSetups().front());
  // Nothing twice; what the kernel read ahead of a probe's slice is not read again.
  EXPECT_LE(report.read_bytes, report.file_bytes);
  EXPECT_GT(report.read_bytes, report.file_bytes / 2);
  const std::vector<DeviceProfile> profiles = ReadProfiles(options.profiles_path);
  ASSERT_EQ(profiles.size(), 1U);
  EXPECT_GT(profiles[0].bytes_per_s, 0);
  EXPECT_EQ(profiles[0].setup, report.setup);

  Evict(large);
  const auto again = Prefetcher::Start(options);
  again->Wait();
  EXPECT_TRUE(again->Report().probed.empty());
}

}  // namespace
}  // namespace rouse::loader
