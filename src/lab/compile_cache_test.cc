#include "lab/compile_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
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
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t tool = fork();
  if (tool == 0) {
    const Result<std::unique_ptr<CompileCache>> cache = CompileCache::Make();
    fs::create_directories((*cache)->directory() + "/deep");
    const std::string& name = (*cache)->directory();
    if (write(told[1], name.data(), name.size()) < 0) _exit(1);
    while (true) pause();
  }
  std::string name(4096, '\0');
  name.resize(static_cast<size_t>(std::max<ssize_t>(0, read(told[0], name.data(), name.size()))));
  ASSERT_TRUE(fs::exists(name + "/deep"));
  EXPECT_TRUE(CompileCache::Make().ok());
  EXPECT_TRUE(fs::exists(name)) << "its tool lives";
  kill(tool, SIGKILL);
  waitpid(tool, nullptr, 0);
  EXPECT_TRUE(CompileCache::Make().ok());
  EXPECT_FALSE(fs::exists(name));
  close(told[0]);
  close(told[1]);
}

}  // namespace
}  // namespace rouse::lab
