// On real files that were evicted before: what is read is counted by the kernel (read_bytes of
// /proc/self/io, residency by os/page_cache.h), not by the reader itself.
#include "loader/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "base/strings.h"
#include "gguf/test_bytes.h"
#include "os/page_cache.h"

namespace rouse::loader {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kFileBytes = 10'000'001;  // not a multiple of a page or window

int64_t ReadBytesOfThisProcess() {
  const Result<std::string> text = ReadSmallFile("/proc/self/io");
  EXPECT_TRUE(text.ok());
  for (std::string_view line : SplitAt(*text, '\n')) {
    if (!line.starts_with("read_bytes: ")) continue;
    return ParseInt64(line.substr(12)).value_or(-1);
  }
  return -1;
}

class ReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_.Write("model", std::string(static_cast<size_t>(kFileBytes), 'x'));
    const Result<os::EvictReport> evicted = os::EvictFile(path_);
    ASSERT_TRUE(evicted.ok()) << evicted.error().message();
    if (!evicted->Cold()) GTEST_SKIP() << "files can't be evicted here: " << evicted->WhyNot();
  }

  double ResidentRatio() const {
    const Result<os::Residency> residency = os::ReadResidency(path_);
    EXPECT_TRUE(residency.ok());
    return residency->Ratio();
  }

  gguf::TestFolder folder_;
  std::string path_;
};

class ReaderMethodTest : public ReaderTest, public ::testing::WithParamInterface<ReadMethod> {};

TEST_P(ReaderMethodTest, BringsTheWholeFileInAndReadsItOnce) {
  const int64_t before = ReadBytesOfThisProcess();
  const Result<WarmReport> report = WarmFile(path_, 1.0, {.method = GetParam()});
  ASSERT_TRUE(report.ok()) << report.error().message();
  const int64_t read_bytes = ReadBytesOfThisProcess() - before;
  EXPECT_EQ(ResidentRatio(), 1.0);
  EXPECT_EQ(report->method, GetParam());
  EXPECT_EQ(report->wanted_bytes, kFileBytes);
  EXPECT_EQ(report->resident_before_bytes, 0);
  EXPECT_EQ(report->ReadBytes(), kFileBytes);
  EXPECT_GT(report->duration_ns, 0);
  // In whole pages; metadata of the file system may come on top.
  EXPECT_GE(read_bytes, kFileBytes);
  EXPECT_LE(read_bytes, kFileBytes + 256 * 1024);
}

TEST_P(ReaderMethodTest, ReadsNothingThatIsResident) {
  ASSERT_TRUE(WarmFile(path_, 1.0, {.method = GetParam()}).ok());
  const int64_t before = ReadBytesOfThisProcess();
  const Result<WarmReport> again = WarmFile(path_, 1.0, {.method = GetParam()});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(ReadBytesOfThisProcess() - before, 0);
  EXPECT_EQ(again->ReadBytes(), 0);
}

TEST_P(ReaderMethodTest, WorksWithSeveralThreads) {
  const Result<WarmReport> report =
      WarmFile(path_, 1.0, {.threads = 3, .window_bytes = 512 * 1024, .method = GetParam()});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(ResidentRatio(), 1.0);
  EXPECT_EQ(report->threads, 3);
}

TEST_P(ReaderMethodTest, StopsExactlyAtTheLeadingFraction) {
  // The kernel's read-ahead (8 MiB on some devices) must not carry the reader past the end.
  const Result<WarmReport> report = WarmFile(path_, 0.5, {.method = GetParam()});
  ASSERT_TRUE(report.ok()) << report.error().message();
  const Result<os::Residency> residency = os::ReadResidency(path_);
  ASSERT_TRUE(residency.ok());
  EXPECT_EQ(residency->resident_bytes, report->wanted_bytes);
  EXPECT_GE(report->wanted_bytes, kFileBytes / 2);
  EXPECT_LE(report->wanted_bytes, kFileBytes / 2 + 4096);
  const std::vector<os::ByteRange> half = {{0, kFileBytes / 2}};
  EXPECT_EQ(os::ReadResidencyRanges(path_, half)->front().Ratio(), 1.0);
}

INSTANTIATE_TEST_SUITE_P(Methods, ReaderMethodTest,
                         ::testing::Values(ReadMethod::kPopulate, ReadMethod::kPread),
                         [](const auto& method) {
                           return std::string(ReadMethodName(method.param));
                         });

TEST_F(ReaderTest, ReadsOnlyTheRangesAskedFor) {
  const std::vector<gguf::FileRange> ranges = {{8'000'000, 100'000}, {0, 50'000}};
  const Result<WarmReport> report = WarmRanges(path_, ranges, {});
  ASSERT_TRUE(report.ok()) << report.error().message();
  const std::vector<os::ByteRange> asked = {{8'000'000, 100'000}, {0, 50'000}};
  const Result<std::vector<os::Residency>> residencies = os::ReadResidencyRanges(path_, asked);
  ASSERT_EQ(residencies.value().size(), 2U);
  for (const os::Residency& residency : residencies.value()) EXPECT_EQ(residency.Ratio(), 1.0);
  EXPECT_LT(ResidentRatio(), 0.02);
}

TEST_F(ReaderTest, ReadsNothingWhenItIsCancelledBeforeItBegins) {
  std::atomic<bool> cancel{false};
  WarmOptions options;
  options.window_bytes = 1 << 20;
  options.cancel = &cancel;
  cancel = true;
  const Result<WarmReport> report = WarmFile(path_, 1.0, options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), ErrorCode::kInterrupted);
  EXPECT_EQ(ResidentRatio(), 0.0);
}

TEST_F(ReaderTest, RefusesWhatWouldNotFitAndReadsNothing) {
  WarmOptions options;
  options.reserve_bytes = std::numeric_limits<int64_t>::max() / 2;
  const Result<WarmReport> report = WarmFile(path_, 1.0, options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), ErrorCode::kExhausted);
  EXPECT_THAT(report.error().message(), HasSubstr("not enough memory to hold " + path_));
  EXPECT_EQ(ResidentRatio(), 0.0);
  options.within_available_memory = false;
  EXPECT_TRUE(WarmFile(path_, 1.0, options).ok());
}

TEST_F(ReaderTest, FillsAMappingOfTheCallersSoThatUsingItTakesNoFaults) {
  const Result<os::MappedFile> map = os::MappedFile::Map(path_);
  ASSERT_TRUE(map.ok());
  const std::vector<gguf::FileRange> all = {{0, kFileBytes}};
  const Result<WarmReport> report = WarmMapping(map->data(), map->bytes(), all, {});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->wanted_bytes, kFileBytes);
  EXPECT_EQ(report->ReadBytes(), std::nullopt);
  EXPECT_EQ(ResidentRatio(), 1.0);
}

TEST_F(ReaderTest, AFileThatWasCutUnderItsMappingIsAnErrorAndNoSignal) {
  const Result<os::MappedFile> map = os::MappedFile::Map(path_);
  ASSERT_TRUE(map.ok());
  ASSERT_EQ(truncate(path_.c_str(), 4096), 0);
  const std::vector<gguf::FileRange> all = {{0, kFileBytes}};
  const Result<WarmReport> report = WarmMapping(map->data(), map->bytes(), all, {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), ErrorCode::kCorrupt);
}

TEST_F(ReaderTest, ProgressGrowsAndEndsAtEverything) {
  std::vector<int64_t> done;
  WarmOptions options;
  options.window_bytes = 256 * 1024;
  const Result<WarmReport> report =
      WarmFile(path_, 1.0, options, [&done](const WarmProgress& progress) {
        EXPECT_EQ(progress.wanted_bytes, kFileBytes);
        done.push_back(progress.done_bytes);
      });
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_EQ(done.back(), kFileBytes);
}

TEST(Reader, AnEmptyFileIsDoneAndAFolderOrAMissingFileIsAnError) {
  const gguf::TestFolder folder;
  const Result<WarmReport> empty = WarmFile(folder.Write("empty", ""), 1.0, {});
  ASSERT_TRUE(empty.ok()) << empty.error().message();
  EXPECT_EQ(empty->wanted_bytes, 0);
  EXPECT_EQ(WarmFile(folder.path(), 1.0, {}).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(WarmFile(folder.path() + "/none", 1.0, {}).error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace rouse::loader
