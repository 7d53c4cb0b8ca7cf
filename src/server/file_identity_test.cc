#include "server/file_identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace rouse::server {
namespace {

class FileIdentityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("rouse_identity_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    parts_ = {Write("a", "first"), Write("b", "second")};
    loaded_ = *ReadIdentities(parts_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  std::filesystem::path folder_;
  std::vector<std::string> parts_;
  std::vector<FileIdentity> loaded_;
};

TEST_F(FileIdentityTest, AnUntouchedFileIsTheSame) {
  EXPECT_EQ(ChangeOf(loaded_, parts_), FileChange::kNone);
}

TEST_F(FileIdentityTest, ARenameOverItIsAReplacement) {
  std::filesystem::rename(Write("new", "other"), parts_[1]);
  EXPECT_EQ(ChangeOf(loaded_, parts_), FileChange::kReplaced);
}

TEST_F(FileIdentityTest, WritingOrCuttingItIsToldFromThat) {
  std::filesystem::resize_file(parts_[0], 2);
  EXPECT_EQ(ChangeOf(loaded_, parts_), FileChange::kWritten);
  // Also when another part was replaced: what is mapped is not what was loaded.
  std::filesystem::rename(Write("new", "other"), parts_[1]);
  EXPECT_EQ(ChangeOf(loaded_, parts_), FileChange::kWritten);
}

TEST_F(FileIdentityTest, TheSameSizeWithAnotherTimeIsAChange) {
  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, parts_[0].c_str(), times, 0), 0);
  EXPECT_EQ(ChangeOf(loaded_, parts_), FileChange::kWritten);
}

TEST_F(FileIdentityTest, AMissingPartIsGone) {
  std::filesystem::remove(parts_[1]);
  EXPECT_EQ(ChangeOf(loaded_, parts_), FileChange::kGone);
}

}  // namespace
}  // namespace rouse::server
