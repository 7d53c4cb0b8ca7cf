#include "engine/model_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/fd.h"

namespace rouse::engine {
namespace {

class ModelFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "rouse-model-file-" + std::to_string(getpid());
    std::ofstream(path_) << std::string(8 << 20, 'x');
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(ModelFileTest, TellsAFileFromWhatTakesItsPlace) {
  const std::optional<FileIdentity> before = IdentifyFile(path_);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(IdentifyFile(path_), before);
  const std::string other = path_ + "-other";
  std::filesystem::copy_file(path_, other);
  std::filesystem::rename(other, path_);
  EXPECT_NE(IdentifyFile(path_), before) << "same size, another file";
  const std::optional<FileIdentity> replaced = IdentifyFile(path_);
  std::filesystem::resize_file(path_, 100);
  EXPECT_NE(IdentifyFile(path_), replaced) << "cut";
  std::filesystem::remove(path_);
  EXPECT_FALSE(IdentifyFile(path_).has_value());
}

TEST_F(ModelFileTest, DropsThePagesOfAMappingAndNotItsBytes) {
  const Fd fd = OpenFile(path_, O_RDONLY).value();
  constexpr size_t kBytes = 8 << 20;
  void* const address = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  ASSERT_NE(address, MAP_FAILED);
  const int64_t before = ResidentBytes().value();
  const FileMapping mapping = {path_, static_cast<const std::byte*>(address), 0, kBytes};
  EXPECT_EQ(DropMappedPages(std::span(&mapping, 1)).value(), int64_t{kBytes});
  EXPECT_LT(ResidentBytes().value(), before - (6 << 20));
  EXPECT_EQ(static_cast<const char*>(address)[12345], 'x');
  munmap(address, kBytes);
}

TEST_F(ModelFileTest, LocksWholePagesOfTheLeadingPartAndLetsThemGo) {
  gguf::Header part;
  part.path = path_;
  part.file_bytes = 8 << 20;
  part.data_offset = 8 << 20;  // all header: one step of the plan
  {
    const Result<LeadingLock> lock = LeadingLock::Make({part}, 100'000);
    ASSERT_TRUE(lock.ok()) << lock.error().message();
    if (!lock->problem().empty()) GTEST_SKIP() << lock->problem();
    EXPECT_GE(lock->locked_bytes(), 100'000);
    EXPECT_LE(lock->locked_bytes(), 100'000 + 2 * 4096);
  }
  EXPECT_EQ(LeadingLock::Make({part}, 4096).value().locked_bytes(), 4096) << "the first was let go";
}

}  // namespace
}  // namespace rouse::engine
