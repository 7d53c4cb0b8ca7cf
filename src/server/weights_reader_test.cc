// On a real file that was evicted before; what is resident is told by the kernel.
#include "server/weights_reader.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "os/page_cache.h"

namespace rouse::server {
namespace {

using loader::PrefetchEnd;

constexpr int64_t kFileBytes = int64_t{20} << 20;

class WeightsReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "weights_reader_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    // Device profiles of these little reads are nobody's business.
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);
    path_ = folder_ + "/model";
    std::ofstream(path_) << std::string(kFileBytes, 'x');
    const Result<os::EvictReport> evicted = os::EvictFile(path_);
    ASSERT_TRUE(evicted.ok()) << evicted.error().message();
    if (!evicted->Cold()) GTEST_SKIP() << "files can't be evicted here: " << evicted->WhyNot();
    Result<os::MappedFile> map = os::MappedFile::Map(path_);
    ASSERT_TRUE(map.ok());
    map_ = *std::move(map);
    reader_ = std::make_unique<WeightsReader>(std::vector{path_}, true);
    reader_->Mapped({{path_, map_.data(), 0, map_.bytes()}});
  }
  void TearDown() override {
    if (reader_ != nullptr) reader_->AboutToUnmap();
    reader_.reset();
    std::filesystem::remove_all(folder_);
  }

  loader::PrefetchReport AwaitEnd() {
    for (int tries = 0; tries < 5000; ++tries) {
      if (reader_->Report()->end != PrefetchEnd::kRunning) break;
      RealClock().SleepFor(2 * kNsPerMs);
    }
    return *reader_->Report();
  }

  std::string folder_;
  std::string path_;
  os::MappedFile map_;
  std::unique_ptr<WeightsReader> reader_;
};

TEST_F(WeightsReaderTest, ReadsThroughTheMappingForALoadOnly) {
  reader_->BeginEarly();
  const loader::PrefetchReport early = AwaitEnd();
  EXPECT_EQ(early.end, PrefetchEnd::kDone) << early.problem;
  EXPECT_EQ(early.read_bytes, kFileBytes);
  EXPECT_EQ(early.mapped_bytes, 0);
  ASSERT_TRUE(os::EvictFile(path_)->Cold());  // nothing of it is in the page table
  reader_->Begin();
  EXPECT_EQ(AwaitEnd().mapped_bytes, kFileBytes);
}

TEST_F(WeightsReaderTest, ARefusedRequestEndsWhatItsFirstBytesBegan) {
  reader_->BeginEarly();
  reader_->EndEarly();
  EXPECT_EQ(AwaitEnd().end, PrefetchEnd::kCancelled);
  reader_->BeginEarly();  // another one
  EXPECT_EQ(AwaitEnd().end, PrefetchEnd::kDone);
}

TEST_F(WeightsReaderTest, ARefusedRequestDoesNotEndWhatALoadReads) {
  reader_->BeginEarly();
  reader_->Begin();
  reader_->EndEarly();
  EXPECT_EQ(AwaitEnd().end, PrefetchEnd::kDone);
  EXPECT_EQ(os::ReadResidency(path_)->Ratio(), 1.0);
}

}  // namespace
}  // namespace rouse::server
