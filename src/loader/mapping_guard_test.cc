// Real mappings of real files that are cut while they are mapped.
#include "loader/mapping_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

#include "gguf/test_bytes.h"
#include "os/page_cache.h"

namespace rouse::loader {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kPages = 64;

class MappingGuardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_.Write("model", std::string(static_cast<size_t>(kPage * kPages), 'x'));
    Result<os::MappedFile> map = os::MappedFile::Map(path_);
    ASSERT_TRUE(map.ok());
    map_ = std::move(map).value();
  }

  int At(int64_t offset) const {
    return std::to_integer<int>(*static_cast<const volatile std::byte*>(map_.data() + offset));
  }

  gguf::TestFolder folder_;
  std::string path_;
  os::MappedFile map_;
};

TEST_F(MappingGuardTest, ACutFileReadsAsZerosAndTheGuardSaysFromWhere) {
  const auto guard = MappingGuard::Over(map_.data(), map_.bytes());
  ASSERT_NE(guard, nullptr);
  EXPECT_EQ(At(20 * kPage), 'x');
  EXPECT_FALSE(guard->Broken());
  EXPECT_FALSE(guard->BrokenAt().has_value());
  ASSERT_EQ(truncate(path_.c_str(), 10 * kPage), 0);
  EXPECT_EQ(At(20 * kPage + 7), 0);
  EXPECT_EQ(At(60 * kPage), 0);
  EXPECT_EQ(At(3 * kPage), 'x');
  EXPECT_TRUE(guard->Broken());
  EXPECT_EQ(guard->BrokenAt(), 20 * kPage);
  EXPECT_EQ(At(12 * kPage), 0);  // below the first fault: a fault of its own
  EXPECT_EQ(guard->BrokenAt(), 12 * kPage);
}

TEST_F(MappingGuardTest, ManyThreadsFaultAtOnce) {
  const auto guard = MappingGuard::Over(map_.data(), map_.bytes());
  ASSERT_EQ(truncate(path_.c_str(), kPage), 0);
  std::vector<std::jthread> threads;
  std::atomic<int64_t> sum{0};
  for (int64_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int64_t page = kPages - 1; page > i; --page) sum += At(page * kPage);
    });
  }
  threads.clear();
  EXPECT_EQ(sum, 0);
  EXPECT_EQ(guard->BrokenAt(), kPage);
}

TEST_F(MappingGuardTest, ANewGuardInTheSamePlaceBeginsUnbroken) {
  auto guard = MappingGuard::Over(map_.data(), map_.bytes());
  ASSERT_EQ(truncate(path_.c_str(), kPage), 0);
  EXPECT_EQ(At(5 * kPage), 0);
  guard.reset();
  const std::string whole = folder_.Write("whole", std::string(static_cast<size_t>(kPage), 'y'));
  const Result<os::MappedFile> other = os::MappedFile::Map(whole);
  ASSERT_TRUE(other.ok());
  guard = MappingGuard::Over(other->data(), other->bytes());
  EXPECT_FALSE(guard->Broken());
}

TEST_F(MappingGuardTest, ABusErrorElsewhereStillEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::string other = folder_.Write("other", std::string(8192, 'z'));
        const Result<os::MappedFile> unguarded = os::MappedFile::Map(other);
        const auto guard = MappingGuard::Over(map_.data(), map_.bytes());
        if (truncate(other.c_str(), 0) != 0) _exit(1);
        _exit(std::to_integer<int>(
            *static_cast<const volatile std::byte*>(unguarded->data() + 4096)));
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST(MappingGuard, ThereIsRoomFor64) {
  alignas(4096) static std::byte page[4096];
  std::vector<std::unique_ptr<MappingGuard>> guards;
  for (int i = 0; i < 64; ++i) {
    guards.push_back(MappingGuard::Over(page, 4096));
    ASSERT_NE(guards.back(), nullptr) << i;
  }
  EXPECT_EQ(MappingGuard::Over(page, 4096), nullptr);
  guards.pop_back();
  EXPECT_NE(MappingGuard::Over(page, 4096), nullptr);
}

}  // namespace
}  // namespace rouse::loader
