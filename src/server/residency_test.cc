#include "server/residency.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "os/as_nobody.h"

namespace rouse::server {
namespace {

class ModelResidencyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "residency_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, size_t bytes) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << std::string(bytes, 'x');
    EXPECT_EQ(chmod(path.c_str(), 0644), 0);
    return path;
  }

  std::string folder_;
};

TEST_F(ModelResidencyTest, IsACountOfAllPartsForTheirOwner) {
  const std::vector parts = {Write("large", 40'000'000), Write("small", 4'000'000)};
  ASSERT_TRUE(os::EvictFile(parts[0])->Cold());
  const Result<ModelResidency> residency = ReadModelResidency(parts);
  ASSERT_TRUE(residency.ok()) << residency.error().message();
  EXPECT_TRUE(residency->exact);
  EXPECT_EQ(residency->file_bytes, 44'000'000);
  EXPECT_EQ(residency->resident_bytes, 4'000'000);
  EXPECT_EQ(residency->bounds.low, residency->bounds.high);
}

// Both are sampled by 512 pages: half of the pages that were looked at are resident.
TEST_F(ModelResidencyTest, WeighsSamplesByTheSizeOfTheirFiles) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const std::vector parts = {Write("large", 40'000'000), Write("small", 4'000'000)};
  ASSERT_TRUE(os::EvictFile(parts[0])->Cold());
  EXPECT_EQ(os::AsNobody([&] {
              const Result<ModelResidency> residency = ReadModelResidency(parts);
              if (!residency.ok() || residency->exact) return 1;
              if (residency->sampled_pages != 1024 || residency->proof != "sampled") return 2;
              const auto [low, high] = residency->bounds;
              if (low > 4.0 / 44 || high < 4.0 / 44 || high - low > 0.02) return 3;
              return residency->Ratio() == 4.0 / 44 ? 0 : 4;
            }),
            0);
}

TEST_F(ModelResidencyTest, KnowsNothingOfAFileThatWasReplaced) {
  const std::vector parts = {Write("model", 100'000)};
  const auto loaded = ReadIdentities(parts);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_TRUE(ReadModelResidency(parts, *loaded).ok());
  std::filesystem::rename(Write("other", 100'000), parts[0]);
  const Result<ModelResidency> residency = ReadModelResidency(parts, *loaded);
  ASSERT_FALSE(residency.ok());
  EXPECT_EQ(residency.error().code(), ErrorCode::kState);
  EXPECT_TRUE(ReadModelResidency(parts).ok());
}

}  // namespace
}  // namespace rouse::server
