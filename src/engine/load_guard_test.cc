// A file that is cut while weights are copied out of its mapping: an error, not the end of the
// process.
#include "engine/load_guard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/fd.h"
#include "engine/test_synth.h"

namespace rouse::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kBytes = 64 << 10;

std::string WrittenFile(const std::string& name) {
  std::string path = testing::TempDir() + "rouse-load-guard-" + name + std::to_string(getpid());
  std::ofstream(path) << std::string(kBytes, 'x');
  return path;
}

std::byte* Map(const std::string& path) {
  const Fd fd = OpenFile(path, O_RDONLY).value();
  void* const address = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  EXPECT_NE(address, MAP_FAILED);
  return static_cast<std::byte*>(address);
}

TEST(LoadGuard, FindsWhatWasMappedOfItsFilesSinceItWasMade) {
  const std::string path = WrittenFile("own");
  const std::string other = WrittenFile("other");
  std::byte* const before = Map(path);
  LoadGuard guard({path});
  guard.Look();
  EXPECT_TRUE(guard.Check().ok()) << "nothing is there yet";
  std::byte* const foreign = Map(other);
  std::byte* const mapped = Map(path);
  EXPECT_EQ(MappingsOfFiles({path}).size(), 2U);
  EXPECT_TRUE(MappingsOfFiles({path + "-not-there"}).empty());
  guard.Look();
  std::filesystem::resize_file(path, 8192);
  EXPECT_EQ(static_cast<char>(mapped[5000]), 'x');
  EXPECT_TRUE(guard.Check().ok()) << "what is missing was not touched";
  EXPECT_EQ(static_cast<char>(mapped[9000]), 0);
  const Status broken = guard.Check();
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(broken.error().message(), AllOf(HasSubstr(path), HasSubstr("at byte 8192")));
  guard.LookAgain();
  EXPECT_FALSE(guard.Check().ok()) << "it stays broken";
  const volatile std::byte* const theirs = before + 9000;
  EXPECT_DEATH(static_cast<void>(*theirs), "") << "others' mappings are others' business";
  for (std::byte* const address : {before, foreign, mapped}) munmap(address, kBytes);
  unlink(path.c_str());
  unlink(other.c_str());
}

// Large enough that copying its weights takes a while.
class CutWhileRepackingTest : public testing::Test {
 protected:
  void SetUp() override {
    gguf::SyntheticShape shape = SmallShapes()[0];
    shape.name = "load-guard";
    shape.embedding = 1024;
    shape.blocks = 6;
    shape.heads = 16;
    shape.kv_heads = 4;
    shape.feed_forward = 4096;
    path_ = WriteSmallModel(shape);
    whole_ = path_ + ".whole";
    std::filesystem::rename(path_, whole_);
  }
  void TearDown() override {
    unlink(path_.c_str());
    unlink(whole_.c_str());
  }

  std::unique_ptr<Engine> Make(RepackMode mode) {
    std::filesystem::copy_file(whole_, path_, std::filesystem::copy_options::overwrite_existing);
    EngineOptions options;
    options.model_path = path_;
    options.threads = 1;
    options.repack = mode;
    return MakeLlamaEngine(options).value();
  }

  // Does `work`, and cuts the file as soon as it is mapped once more.
  template <typename Work>
  Status CutWhile(const Work& work) {
    const size_t mapped = MappingsOfFiles({path_}).size();
    const std::jthread cutting([&](const std::stop_token& done) {
      while (!done.stop_requested() && MappingsOfFiles({path_}).size() == mapped) {
      }
      std::filesystem::resize_file(path_, 100'000);
    });
    return work();
  }

  std::string path_;
  std::string whole_;
};

TEST_F(CutWhileRepackingTest, ALoadFails) {
  for (int tries = 0; tries < 10; ++tries) {
    const auto engine = Make(RepackMode::kOn);
    const Status loaded = CutWhile([&]() -> Status {
      const Result<LoadReport> report = engine->Load({}, {});
      return report.ok() ? Status() : Status(report.error());
    });
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code(), ErrorCode::kCorrupt) << loaded.error().message();
    EXPECT_THAT(loaded.error().message(), HasSubstr(path_));
    // Else it was cut when all had been read, and is not the same file any more.
    if (loaded.error().message().find("could not be read at byte") == std::string::npos) continue;
    std::filesystem::copy_file(whole_, path_, std::filesystem::copy_options::overwrite_existing);
    EXPECT_TRUE(engine->Load({}, {}).ok()) << "whole again";
    return;
  }
  GTEST_SKIP() << "loading was always faster than cutting";
}

TEST_F(CutWhileRepackingTest, TheIdleCopyFails) {
  for (int tries = 0; tries < 10; ++tries) {
    const auto engine = Make(RepackMode::kAuto);
    ASSERT_TRUE(engine->Load({}, {}).ok());
    const Status improved = CutWhile([&]() -> Status {
      const Result<std::string> told = engine->Improve({});
      return told.ok() ? Status() : Status(told.error());
    });
    if (improved.ok()) continue;  // it was cut when all had been read
    EXPECT_EQ(improved.error().code(), ErrorCode::kCorrupt) << improved.error().message();
    EXPECT_THAT(improved.error().message(), HasSubstr(path_));
    return;
  }
  GTEST_SKIP() << "copying was always faster than cutting";
}

}  // namespace
}  // namespace rouse::engine
