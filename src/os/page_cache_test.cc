// The real page cache of the file system under the test's temporary directory. Tests that need a
// file system with storage below skip on tmpfs, and say so.
#include "os/page_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "os/as_nobody.h"
#include "os/process.h"

namespace rouse::os {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kFileBytes = 8 * kMiB;
constexpr long kTmpfsMagic = 0x01021994;

class PageCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "rouse_pages_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
    struct statfs facts{};
    ASSERT_EQ(statfs(directory_.c_str(), &facts), 0);
    if (facts.f_type == kTmpfsMagic) {
      GTEST_SKIP() << directory_ << " is tmpfs, whose pages cannot be dropped: set TMPDIR";
    }
    WriteFile(kFileBytes);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void WriteFile(int64_t bytes) {
    std::ofstream file(path(), std::ios::binary);
    const std::string block(static_cast<size_t>(kMiB), 'x');
    for (int64_t done = 0; done < bytes; done += kMiB) {
      file.write(block.data(), std::min(kMiB, bytes - done));
    }
    file.close();
    const Result<Fd> fd = OpenFile(path(), O_RDONLY);
    ASSERT_TRUE(fd.ok());
    ASSERT_EQ(fsync(fd->get()), 0);
  }

  std::string path() const { return directory_ + "/file"; }

  std::string directory_;
};

Result<Residency> By(ResidencyProof proof, const std::string& path,
                     ByteRange range = {0, std::numeric_limits<int64_t>::max()}) {
  const Result<std::vector<Residency>> answers =
      ReadResidencyRangesBy(path, {&range, 1}, {&proof, 1});
  if (!answers.ok()) return answers.error();
  return (*answers)[0];
}

TEST_F(PageCache, IsWholeAfterWritingAndEmptyAfterEvicting) {
  const Result<Residency> written = ReadResidency(path());
  ASSERT_TRUE(written.ok()) << written.error().message();
  EXPECT_EQ(written->file_bytes, kFileBytes);
  EXPECT_EQ(written->resident_bytes, kFileBytes);
  EXPECT_DOUBLE_EQ(written->Ratio(), 1.0);
  const Result<EvictReport> report = EvictFile(path());
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->before.resident_bytes, kFileBytes);
  EXPECT_EQ(report->after.resident_bytes, 0);
  EXPECT_TRUE(report->Cold());
  EXPECT_EQ(report->WhyNot(), "");
}

TEST_F(PageCache, ReadingTheStateOfAColdFileLeavesItCold) {
  ASSERT_TRUE(EvictFile(path())->Cold());
  for (const ResidencyProof proof :
       {ResidencyProof::kCachestat, ResidencyProof::kMincore, ResidencyProof::kSampled}) {
    // Often enough to meet the cold page that the disk brings while the sample asks for it.
    const int times = proof == ResidencyProof::kSampled ? 60 : 3;
    for (int i = 0; i < times; ++i) {
      const Result<Residency> residency = By(proof, path());
      if (!residency.ok() && proof == ResidencyProof::kCachestat) continue;  // before 6.5
      ASSERT_TRUE(residency.ok()) << residency.error().message();
      EXPECT_EQ(residency->resident_bytes, 0) << ResidencyProofName(proof);
    }
    EXPECT_EQ(By(ResidencyProof::kMincore, path())->resident_bytes, 0) << ResidencyProofName(proof);
  }
}

// Dropped by the sample, such a page would be a hole in what the other one has read.
TEST_F(PageCache, ASampleLeavesThePagesAloneThatSomebodyElseIsReadingIn) {
  const Result<Fd> fd = OpenFile(path(), O_RDONLY);
  ASSERT_TRUE(fd.ok());
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(EvictFile(path())->Cold());
    // Asked for, and on its way from the disk.
    for (int64_t at = 0; at < kFileBytes; at += 128 << 10) {
      ASSERT_EQ(posix_fadvise(fd->get(), at, 128 << 10, POSIX_FADV_WILLNEED), 0);
    }
    ASSERT_TRUE(By(ResidencyProof::kSampled, path()).ok());
    const auto resident_bytes = [&] {
      return By(ResidencyProof::kMincore, path())->resident_bytes;  // when they have come
    };
    for (int tries = 0; tries < 500 && resident_bytes() < kFileBytes; ++tries) usleep(2000);
    ASSERT_EQ(resident_bytes(), kFileBytes);
  }
}

TEST_F(PageCache, AllProofsAgreeOnAPartlyResidentFile) {
  ASSERT_TRUE(EvictFile(path())->Cold());
  const Result<Fd> fd = OpenFile(path(), O_RDONLY);
  ASSERT_TRUE(fd.ok());
  posix_fadvise(fd->get(), 0, 0, POSIX_FADV_RANDOM);  // no read-ahead beyond what we read
  std::string buffer(static_cast<size_t>(kFileBytes / 4), '\0');
  ASSERT_EQ(pread(fd->get(), buffer.data(), buffer.size(), 0), kFileBytes / 4);
  const Result<Residency> cachestat = By(ResidencyProof::kCachestat, path());
  const Result<Residency> mincore_read = By(ResidencyProof::kMincore, path());
  const Result<Residency> sampled = By(ResidencyProof::kSampled, path());
  ASSERT_TRUE(mincore_read.ok() && sampled.ok());
  EXPECT_EQ(mincore_read->resident_bytes, kFileBytes / 4);
  EXPECT_NEAR(sampled->Ratio(), 0.25, 0.01);  // stratified: a contiguous part is met exactly
  EXPECT_EQ(sampled->sampled_pages, 512);
  EXPECT_FALSE(mincore_read->dirty_bytes.has_value());
  if (!cachestat.ok()) GTEST_SKIP() << "no cachestat: " << cachestat.error().message();
  EXPECT_EQ(cachestat->resident_bytes, kFileBytes / 4);
  EXPECT_EQ(cachestat->dirty_bytes, 0);
}

TEST_F(PageCache, RangesAreReadOneByOneAndCutAtTheEndOfTheFile) {
  ASSERT_TRUE(EvictFile(path())->Cold());
  const Result<Fd> fd = OpenFile(path(), O_RDONLY);
  posix_fadvise(fd->get(), 0, 0, POSIX_FADV_RANDOM);
  std::string buffer(static_cast<size_t>(kMiB), '\0');
  ASSERT_EQ(pread(fd->get(), buffer.data(), buffer.size(), 2 * kMiB), kMiB);
  const ByteRange ranges[] = {{0, 2 * kMiB}, {2 * kMiB, kMiB},          {kMiB, 2 * kMiB},
                              {5, 0},        {kFileBytes - 100, 1'000}, {kFileBytes + 5, 10}};
  const Result<std::vector<Residency>> answers = ReadResidencyRanges(path(), ranges);
  ASSERT_TRUE(answers.ok());
  ASSERT_EQ(answers->size(), 6);
  EXPECT_EQ((*answers)[0].resident_bytes, 0);
  EXPECT_EQ((*answers)[1].resident_bytes, kMiB);
  EXPECT_DOUBLE_EQ((*answers)[2].Ratio(), 0.5);
  EXPECT_EQ((*answers)[3].file_bytes, 0);
  EXPECT_EQ((*answers)[4].file_bytes, 100);
  EXPECT_EQ((*answers)[5].file_bytes, 0);
}

TEST_F(PageCache, AFileThatEndsInsideAPageIsWholeToTheByte) {
  WriteFile(3 * kMiB + 1234);
  for (const ResidencyProof proof :
       {ResidencyProof::kCachestat, ResidencyProof::kMincore, ResidencyProof::kSampled}) {
    const Result<Residency> residency = By(proof, path());
    if (!residency.ok()) continue;
    EXPECT_EQ(residency->resident_bytes, 3 * kMiB + 1234) << ResidencyProofName(proof);
  }
}

TEST_F(PageCache, AnEmptyFileLacksNothing) {
  std::ofstream(path(), std::ios::trunc);
  const Result<Residency> residency = ReadResidency(path());
  ASSERT_TRUE(residency.ok());
  EXPECT_EQ(residency->file_bytes, 0);
  EXPECT_DOUBLE_EQ(residency->Ratio(), 1.0);
}

TEST_F(PageCache, SaysWhatIsWrongWithADirectoryAFifoAndAMissingFile) {
  EXPECT_THAT(ReadResidency(directory_).error().message(), HasSubstr("directory"));
  EXPECT_EQ(ReadResidency(directory_ + "/none").error().code(), ErrorCode::kNotFound);
  const std::string fifo = directory_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(ReadResidency(fifo).error().message(), HasSubstr("regular file"));
  EXPECT_FALSE(EvictFile(directory_ + "/none").ok());
}

TEST_F(PageCache, CountsDirtyPages) {
  const Result<Fd> fd = OpenFile(path(), O_RDWR);
  ASSERT_TRUE(fd.ok());
  const std::string block(static_cast<size_t>(kMiB), 'y');
  ASSERT_EQ(pwrite(fd->get(), block.data(), block.size(), 0), kMiB);
  const Result<Residency> residency = By(ResidencyProof::kCachestat, path());
  if (!residency.ok()) GTEST_SKIP() << "no cachestat: " << residency.error().message();
  // The kernel may have begun to write them back.
  EXPECT_EQ(*residency->dirty_bytes + *residency->writeback_bytes, kMiB);
  // Evicting writes them first.
  EXPECT_TRUE(EvictFile(path())->Cold());
}

TEST_F(PageCache, EvictNamesTheProcessThatMapsTheFile) {
  Result<MappedFile> mapped = MappedFile::Map(path());
  ASSERT_TRUE(mapped.ok());
  ASSERT_TRUE(PopulateRange(mapped->data(), kFileBytes / 2).ok());
  const Result<EvictReport> report = EvictFile(path());
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->Cold());
  EXPECT_GE(report->after.resident_bytes, kFileBytes / 2);
  EXPECT_THAT(report->who.mappers, Contains(Field(&Mapper::pid, getpid())));
  EXPECT_THAT(report->WhyNot(), HasSubstr("mapped by"));
  EXPECT_THAT(report->WhyNot(), HasSubstr("(pid " + std::to_string(getpid()) + ")"));
  EXPECT_EQ(report->who.mappers[0].resident_bytes, kFileBytes / 2);
  EXPECT_EQ(report->who.mappers[0].locked_bytes, 0);
  *mapped = MappedFile();
  EXPECT_TRUE(EvictFile(path())->Cold());
}

TEST_F(PageCache, EvictSaysWhatIsLocked) {
  Result<MappedFile> mapped = MappedFile::Map(path());
  ASSERT_TRUE(mapped.ok());
  const Result<int64_t> locked = LockRange(mapped->data(), 2 * kMiB);
  ASSERT_TRUE(locked.ok()) << locked.error().message();
  EXPECT_EQ(*locked, 2 * kMiB);
  const Result<EvictReport> report = EvictFile(path());
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->Cold());
  EXPECT_EQ(report->locked_bytes, 2 * kMiB);
  EXPECT_THAT(report->WhyNot(), HasSubstr("locked"));
  ASSERT_TRUE(UnlockRange(mapped->data(), 2 * kMiB).ok());
}

TEST_F(PageCache, FindsNoMapperOfAFileThatNobodyMaps) {
  const Result<Mappers> mappers = FindMappers(ProcRoot::Real(), path());
  ASSERT_TRUE(mappers.ok());
  EXPECT_TRUE(mappers->mappers.empty());
}

TEST_F(PageCache, EvictRangeDropsOnlyThatRange) {
  ASSERT_TRUE(EvictRange(path(), {4 * kMiB, kFileBytes - 4 * kMiB}).ok());
  const ByteRange halves[] = {{0, 4 * kMiB}, {4 * kMiB, 4 * kMiB}};
  const Result<std::vector<Residency>> answers = ReadResidencyRanges(path(), halves);
  ASSERT_TRUE(answers.ok());
  // A large folio that lies across the border stays: up to 2 MiB.
  EXPECT_EQ((*answers)[0].resident_bytes, 4 * kMiB);
  EXPECT_LE((*answers)[1].resident_bytes, 2 * kMiB);
  ASSERT_TRUE(EvictRange(path(), {0, 0}).ok());
  EXPECT_EQ((*ReadResidencyRanges(path(), halves))[0].resident_bytes, 4 * kMiB);
}

TEST(Pooled, CountsTwoSamplesOfTheSameBytesAsOne) {
  Residency one;
  one.file_bytes = 1'000'000;
  one.sampled_pages = 500;
  one.sampled_resident_pages = 2;
  one.resident_bytes = 4000;
  Residency other = one;
  other.sampled_resident_pages = 0;
  other.resident_bytes = 0;
  const Residency both = Pooled(one, other);
  EXPECT_EQ(both.sampled_pages, 1000);
  EXPECT_EQ(both.sampled_resident_pages, 2);
  EXPECT_EQ(both.resident_bytes, 2000);
  EXPECT_LT(both.Bounds().high, one.Bounds().high);
}

TEST_F(PageCache, PopulateReadsARangeIn) {
  ASSERT_TRUE(EvictFile(path())->Cold());
  Result<MappedFile> mapped = MappedFile::Map(path());
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(ReadResidency(path())->resident_bytes, 0);  // mapping alone reads nothing
  ASSERT_TRUE(PopulateRange(mapped->data(), kFileBytes).ok());
  EXPECT_EQ(ReadResidency(path())->resident_bytes, kFileBytes);
}

// Minor faults of touching every page of a new mapping.
int64_t FaultsOfTouching(const std::string& path) {
  const Result<MappedFile> mapped = MappedFile::Map(path);
  if (!mapped.ok()) return -1;
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  for (int64_t at = 0; at < kFileBytes; at += 4096) {
    static_cast<void>(*static_cast<const volatile std::byte*>(mapped->data() + at));
  }
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST_F(PageCache, WhatIsReadInLargePagesIsMappedByOneFaultEach) {
  struct statfs where{};
  ASSERT_EQ(statfs(path().c_str(), &where), 0);
  const Result<std::string> pages = ReadSmallFile("/sys/kernel/mm/transparent_hugepage/enabled");
  utsname system{};
  uname(&system);
  int major = 0;
  int minor = 0;
  ASSERT_EQ(std::sscanf(system.release, "%d.%d", &major, &minor), 2);
  const bool known = where.f_type == EXT4_SUPER_MAGIC && major * 100 + minor >= 616 && pages.ok() &&
                     pages->find("[never]") == std::string::npos;
  if (!known) GTEST_SKIP() << "it is not sure that this file system has large pages";
  ASSERT_TRUE(EvictFile(path())->Cold());
  {
    Result<MappedFile> mapped = MappedFile::Map(path());
    ASSERT_TRUE(mapped.ok());
    PreferLargePages(mapped->data(), kFileBytes);
    ASSERT_TRUE(PopulateRange(mapped->data(), kFileBytes).ok());
  }
  // 2 MiB a fault, instead of the 64 KiB that the kernel maps around one on ordinary pages.
  EXPECT_LE(FaultsOfTouching(path()), kFileBytes / (2 * kMiB) + 4);
}

TEST_F(PageCache, PopulateOfATruncatedFileIsAnErrorAndNoSignal) {
  Result<MappedFile> mapped = MappedFile::Map(path());
  ASSERT_TRUE(mapped.ok());
  ASSERT_EQ(truncate(path().c_str(), kMiB), 0);
  const Status status = PopulateRange(mapped->data(), kFileBytes);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kCorrupt);
}

TEST_F(PageCache, AnOwnerWithoutPrivilegeReadsAndEvicts) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(chown(path().c_str(), 65534, 65534), 0);
  const std::string file = path();
  EXPECT_EQ(AsNobody([&file] {
              const Result<Residency> residency = ReadResidency(file);
              if (!residency.ok() || residency->proof == "sampled") return 1;
              const Result<EvictReport> report = EvictFile(file);
              return report.ok() && report->Cold() ? 0 : 2;
            }),
            0);
  EXPECT_EQ(By(ResidencyProof::kMincore, file)->resident_bytes, 0);
}

TEST_F(PageCache, WhoeverIsNotTheOwnerGetsASampleAndNeverMincoresFalseWhole) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(chmod(path().c_str(), 0644), 0);
  ASSERT_TRUE(EvictFile(path())->Cold());
  const std::string file = path();
  EXPECT_EQ(AsNobody([&file] {
              if (By(ResidencyProof::kMincore, file).ok()) return 1;
              if (By(ResidencyProof::kMincore, file).error().code() != ErrorCode::kPermission) {
                return 2;
              }
              const Result<Residency> residency = ReadResidency(file);
              if (!residency.ok()) return 3;
              if (residency->proof != "sampled" || !residency->sampled_pages) return 4;
              return residency->resident_bytes == 0 ? 0 : 5;
            }),
            0);
  EXPECT_EQ(By(ResidencyProof::kMincore, file)->resident_bytes, 0);  // the sample left nothing
}

TEST_F(PageCache, WhoeverMayNotReadTheFileGetsThatAsTheReason) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(chmod(path().c_str(), 0600), 0);
  const std::string file = path();
  EXPECT_EQ(AsNobody([&file] {
              const Result<Residency> residency = ReadResidency(file);
              return !residency.ok() && residency.error().code() == ErrorCode::kPermission ? 0 : 1;
            }),
            0);
}

TEST_F(PageCache, LockBeyondTheLimitNamesTheLimit) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  ASSERT_EQ(chmod(path().c_str(), 0644), 0);
  const std::string file = path();
  EXPECT_EQ(AsNobody([&file] {
              const rlimit limit{kMiB, kMiB};
              if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || LockLimitBytes() != kMiB) return 1;
              Result<MappedFile> mapped = MappedFile::Map(file);
              if (!mapped.ok()) return 2;
              const Result<int64_t> locked = LockRange(mapped->data(), kFileBytes);
              if (locked.ok() || locked.error().code() != ErrorCode::kPermission) return 3;
              if (locked.error().message().find("RLIMIT_MEMLOCK") == std::string::npos) return 4;
              const Result<int64_t> little = LockRange(mapped->data(), kMiB / 2);
              return little.ok() && *little == kMiB / 2 ? 0 : 5;
            }),
            0);
}

}  // namespace
}  // namespace rouse::os
