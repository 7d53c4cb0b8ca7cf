// On the real page cache below the test's temporary directory; skips on tmpfs.
#include "os/page_cache_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "os/page_cache.h"

namespace rouse::os {
namespace {

constexpr int64_t kFileBytes = 8 << 20;
constexpr long kTmpfsMagic = 0x01021994;

class PageCacheParts : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "rouse_probe_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    struct statfs facts{};
    ASSERT_EQ(statfs(directory_.c_str(), &facts), 0);
    if (facts.f_type == kTmpfsMagic) {
      GTEST_SKIP() << directory_ << " is tmpfs, whose pages cannot be dropped: set TMPDIR";
    }
    std::ofstream(path(), std::ios::binary) << std::string(static_cast<size_t>(kFileBytes), 'x');
    ASSERT_TRUE(EvictFile(path())->Cold());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_ + "/file"; }

  // Reads these bytes and none beside them.
  void Touch(int64_t offset, int64_t bytes) {
    const Result<Fd> fd = OpenFile(path(), O_RDONLY);
    ASSERT_TRUE(fd.ok());
    posix_fadvise(fd->get(), 0, 0, POSIX_FADV_RANDOM);
    std::string buffer(static_cast<size_t>(bytes), '\0');
    ASSERT_EQ(pread(fd->get(), buffer.data(), buffer.size(), offset), bytes);
  }

  std::string directory_;
};

TEST_F(PageCacheParts, TellWhichQuarterOfAFileIsResidentAndSumUpToTheWhole) {
  Touch(kFileBytes / 2, kFileBytes / 4);
  const auto parts = ReadResidencyParts(path(), 8);
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  ASSERT_EQ(parts->size(), 8);
  for (size_t part = 0; part < 8; ++part) {
    EXPECT_EQ((*parts)[part].Ratio(), part == 4 || part == 5 ? 1.0 : 0.0) << part;
    EXPECT_EQ((*parts)[part].file_bytes, kFileBytes / 8);
  }
  const Residency sum = SumOf(*parts);
  EXPECT_EQ(sum.file_bytes, kFileBytes);
  EXPECT_EQ(sum.resident_bytes, kFileBytes / 4);
  EXPECT_EQ(sum.proof, ReadResidency(path())->proof);
}

TEST_F(PageCacheParts, AreNoMoreThanTheFileHasPages) {
  std::filesystem::resize_file(path(), 2 * sysconf(_SC_PAGESIZE) + 1);
  const auto parts = ReadResidencyParts(path(), 96);
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(parts->size(), 3);
  EXPECT_EQ(SumOf(*parts).file_bytes, 2 * sysconf(_SC_PAGESIZE) + 1);
  std::filesystem::resize_file(path(), 0);
  EXPECT_EQ(SumOf(*ReadResidencyParts(path(), 96)).Ratio(), 1.0);
  EXPECT_FALSE(ReadResidencyParts(path() + "-none", 96).ok());
}

TEST_F(PageCacheParts, AreTheSameToAProbeThatWarmsNothing) {
  const Result<PageCacheProbe> probe = PageCacheProbe::Open(path(), 8);
  if (!probe.ok()) GTEST_SKIP() << probe.error().message();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*probe->Read(), "00000000");
  EXPECT_EQ(ReadResidency(path())->resident_bytes, 0);
  Touch(kFileBytes / 2, kFileBytes / 4);
  EXPECT_EQ(*probe->Read(), "00009900");
  // Half of the pages that are looked at in the first part.
  Touch(kFileBytes / 16, 8 * sysconf(_SC_PAGESIZE));
  const std::string half = *probe->Read();
  EXPECT_TRUE(half[0] >= '4' && half[0] <= '5') << half;
}

TEST_F(PageCacheParts, CannotBeProbedOfWhatIsNoFileOrEmpty) {
  EXPECT_FALSE(PageCacheProbe::Open(directory_, 8).ok());
  EXPECT_FALSE(PageCacheProbe::Open(path() + "-none", 8).ok());
  std::filesystem::resize_file(path(), 0);
  EXPECT_FALSE(PageCacheProbe::Open(path(), 8).ok());
}

}  // namespace
}  // namespace rouse::os
