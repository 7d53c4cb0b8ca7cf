#include "lab/model_copy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace rouse::lab {
namespace {

namespace fs = std::filesystem;

class ModelCopy : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            (std::string("model-copy-") +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_ / "there");
    source_ = root_ / "m.gguf";
    Write(source_, content_);
  }
  void TearDown() override { fs::remove_all(root_); }

  static void Write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }

  fs::path root_;
  fs::path source_;
  std::string content_ = std::string(3'000'001, 'x') + "end";
  const std::function<bool()> no_ = [] { return false; };
};

TEST_F(ModelCopy, IsMadeOnceAndRemovedAtTheEnd) {
  fs::path placed;
  {
    ModelCopies copies;
    const Result<std::string> first = copies.Place(source_, root_ / "there", no_);
    ASSERT_TRUE(first.ok());
    placed = *first;
    EXPECT_EQ(placed.filename(), "rouse-copy-m.gguf");
    EXPECT_TRUE(*SameContent(source_, placed));
    const auto written = fs::last_write_time(placed);
    EXPECT_EQ(*copies.Place(source_, root_ / "there", no_), placed);
    EXPECT_EQ(fs::last_write_time(placed), written);
  }
  EXPECT_FALSE(fs::exists(placed));
  EXPECT_TRUE(fs::exists(source_));
}

TEST_F(ModelCopy, UsesAFileOfTheUsersWithTheSameContentAndLeavesIt) {
  Write(root_ / "there" / "m.gguf", content_);
  {
    ModelCopies copies;
    EXPECT_EQ(*copies.Place(source_, root_ / "there", no_), root_ / "there" / "m.gguf");
  }
  EXPECT_TRUE(fs::exists(root_ / "there" / "m.gguf"));
  EXPECT_FALSE(fs::exists(root_ / "there" / "rouse-copy-m.gguf"));
}

TEST_F(ModelCopy, LeavesAnotherFileOfThatNameAlone) {
  std::string other = content_;
  other.back() = 'D';
  Write(root_ / "there" / "m.gguf", other);
  ModelCopies copies;
  EXPECT_EQ(*copies.Place(source_, root_ / "there", no_), root_ / "there" / "rouse-copy-m.gguf");
  EXPECT_TRUE(*SameContent(source_, root_ / "there" / "rouse-copy-m.gguf"));
  EXPECT_FALSE(*SameContent(source_, root_ / "there" / "m.gguf"));
}

TEST_F(ModelCopy, LeavesNothingWhenItIsInterrupted) {
  ModelCopies copies;
  const Result<std::string> placed = copies.Place(source_, root_ / "there", [] { return true; });
  ASSERT_FALSE(placed.ok());
  EXPECT_EQ(placed.error().code(), ErrorCode::kInterrupted);
  EXPECT_TRUE(fs::is_empty(root_ / "there"));
}

TEST_F(ModelCopy, NamesADirectoryThatIsNotThere) {
  ModelCopies copies;
  const Result<std::string> placed = copies.Place(source_, "/nonexistent/dir", no_);
  ASSERT_FALSE(placed.ok());
  EXPECT_EQ(placed.error().message(), "there is no directory /nonexistent/dir");
}

TEST_F(ModelCopy, SameContentSeesSizesAndTheLastByte) {
  Write(root_ / "a", "");
  Write(root_ / "b", "");
  EXPECT_TRUE(*SameContent(root_ / "a", root_ / "b"));
  Write(root_ / "b", "x");
  EXPECT_FALSE(*SameContent(root_ / "a", root_ / "b"));
  EXPECT_FALSE(SameContent(root_ / "a", root_ / "missing").ok());
}

}  // namespace
}  // namespace rouse::lab
