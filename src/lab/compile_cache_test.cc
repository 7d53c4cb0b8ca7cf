#include "lab/compile_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace rouse::lab {
namespace {

namespace fs = std::filesystem;

TEST(CompileCache, IsEmptyThenCountsFilesAndIsEmptiedAndRemoved) {
  Result<std::unique_ptr<CompileCache>> cache = CompileCache::Make();
  ASSERT_TRUE(cache.ok()) << cache.error().message();
  const std::string directory = (*cache)->directory();
  EXPECT_EQ((*cache)->Read()->bytes, 0);
  fs::create_directories(directory + "/a/b");
  std::ofstream(directory + "/a/b/kernel.bin") << std::string(1234, 'k');
  std::ofstream(directory + "/index") << "xx";
  EXPECT_EQ((*cache)->Read()->bytes, 1236);
  EXPECT_EQ((*cache)->Read()->files, 2);
  ASSERT_TRUE((*cache)->Empty().ok());
  EXPECT_EQ((*cache)->Read()->files, 0);
  EXPECT_TRUE(fs::exists(directory));
  cache->reset();
  EXPECT_FALSE(fs::exists(directory));
}

TEST(CompileCache, DoesNotFollowALinkOut) {
  Result<std::unique_ptr<CompileCache>> cache = CompileCache::Make();
  ASSERT_TRUE(cache.ok());
  const std::string outside = ::testing::TempDir() + "outside.bin";
  std::ofstream(outside) << std::string(99, 'o');
  fs::create_symlink(outside, (*cache)->directory() + "/link");
  EXPECT_EQ((*cache)->Read()->bytes, 0);
  ASSERT_TRUE((*cache)->Empty().ok());
  EXPECT_TRUE(fs::exists(outside));
  fs::remove(outside);
}

TEST(CompileCache, OfAToolThatWasKilledIsRemovedByTheNext) {
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const fs::path stale =
      fs::temp_directory_path() / ("rouse-compile-" + std::to_string(dead) + "-1");
  fs::create_directories(stale / "deep");
  const Result<std::unique_ptr<CompileCache>> cache = CompileCache::Make();
  ASSERT_TRUE(cache.ok());
  EXPECT_FALSE(fs::exists(stale));
}

}  // namespace
}  // namespace rouse::lab
