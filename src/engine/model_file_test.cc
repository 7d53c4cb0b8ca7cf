#include "engine/model_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/fd.h"

namespace rouse::engine {
namespace {

// Of this process; the kernel's own words.
int64_t LockedKibibytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kibibytes = -1;
  while (status >> word) {
    if (word == "VmLck:") status >> kibibytes;
  }
  return kibibytes;
}

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
    LeadingLock lock({part}, 100'000);
    EXPECT_EQ(lock.locked_bytes(), 0);
    ASSERT_TRUE(lock.LockOn({}).value());
    if (!lock.problem().empty()) GTEST_SKIP() << lock.problem();
    EXPECT_GE(lock.locked_bytes(), 100'000);
    EXPECT_LE(lock.locked_bytes(), 100'000 + 2 * 4096);
    EXPECT_TRUE(lock.LockOn({}).value());
    EXPECT_LE(lock.locked_bytes(), 100'000 + 2 * 4096) << "nothing was left to do";
  }
  LeadingLock other({part}, 4096);
  ASSERT_TRUE(other.LockOn({}).value());
  EXPECT_EQ(other.locked_bytes(), 4096) << "the first was let go";
}

TEST_F(ModelFileTest, StopsLockingOnTheWayAndGoesOnWhereItStopped) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  std::filesystem::resize_file(path_, kBytes);
  gguf::Header part;
  part.path = path_;
  part.file_bytes = part.data_offset = kBytes;
  int64_t stopped_at = 0;
  // The stop is asked for as soon as something is locked; once in a while that is too late.
  for (int tries = 0; tries < 50 && stopped_at == 0; ++tries) {
    LeadingLock lock({part}, kBytes);
    std::stop_source stop;
    const std::jthread watch([&](const std::stop_token& done) {
      while (!done.stop_requested() && LockedKibibytes() == 0) std::this_thread::yield();
      stop.request_stop();
    });
    if (lock.LockOn(stop.get_token()).value()) {
      if (!lock.problem().empty()) GTEST_SKIP() << lock.problem();
      continue;
    }
    stopped_at = lock.locked_bytes();
    EXPECT_EQ(stopped_at, LockedKibibytes() * 1024);
    EXPECT_FALSE(lock.LockOn(stop.get_token()).value());
    ASSERT_TRUE(lock.LockOn({}).value());
    EXPECT_EQ(lock.locked_bytes(), kBytes);
    EXPECT_EQ(LockedKibibytes() * 1024, kBytes);
  }
  EXPECT_GT(stopped_at, 0) << "locking never looked at the stop";
  EXPECT_LT(stopped_at, kBytes);
}

}  // namespace
}  // namespace rouse::engine
