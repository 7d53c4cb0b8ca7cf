#include "loader/memory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "gguf/test_bytes.h"

namespace rouse::loader {
namespace {

std::optional<int64_t> Read(const std::string& content) {
  const gguf::TestFolder folder;
  std::filesystem::create_directory(folder.path() + "/proc");
  folder.Write("proc/meminfo", content);
  const Result<os::ProcRoot> root = os::ProcRoot::Open(folder.path());
  EXPECT_TRUE(root.ok());
  return AvailableMemoryBytes(*root);
}

TEST(AvailableMemoryBytes, ReadsTheLineInKibibytes) {
  EXPECT_EQ(Read("MemTotal: 9 kB\nMemFree: 8 kB\nMemAvailable:   24040352 kB\nBuffers: 7 kB\n"),
            int64_t{24'040'352} * 1024);
}

TEST(AvailableMemoryBytes, IsEmptyWhereTheKernelDoesNotSay) {
  EXPECT_EQ(Read("MemTotal: 9 kB\n"), std::nullopt);
  EXPECT_EQ(Read("MemAvailable: many kB\n"), std::nullopt);
  EXPECT_EQ(Read("MemAvailable: 5\n"), std::nullopt);
  EXPECT_EQ(Read(""), std::nullopt);
  const gguf::TestFolder folder;
  EXPECT_EQ(AvailableMemoryBytes(*os::ProcRoot::Open(folder.path())), std::nullopt);
}

TEST(AvailableMemoryBytes, IsAPlausibleNumberOnThisMachine) {
  const std::optional<int64_t> bytes = AvailableMemoryBytes(os::ProcRoot::Real());
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, 0);
}

}  // namespace
}  // namespace rouse::loader
