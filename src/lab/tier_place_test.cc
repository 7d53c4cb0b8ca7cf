#include "lab/tier_place.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/fd.h"

namespace rouse::lab {
namespace {

using testing::HasSubstr;

TEST(TierPlace, IsADirectoryOrARateWithOrWithoutOne) {
  EXPECT_EQ(ParseTierPlace("/mnt/a")->directory, "/mnt/a");
  EXPECT_FALSE(ParseTierPlace("/mnt/a")->simulated());
  const Result<TierPlace> here = ParseTierPlace("simulated:200MB/s");
  ASSERT_TRUE(here.ok()) << here.error().message();
  EXPECT_EQ(here->bytes_per_second, 200'000'000);
  EXPECT_EQ(here->directory, "");
  const Result<TierPlace> there = ParseTierPlace("simulated:1.5GiB/s@/dev/shm");
  ASSERT_TRUE(there.ok()) << there.error().message();
  EXPECT_EQ(there->bytes_per_second, 3 * (int64_t{1} << 29U));
  EXPECT_EQ(there->directory, "/dev/shm");
}

TEST(TierPlace, SaysWhatIsMissing) {
  const auto message = [](const char* text) { return ParseTierPlace(text).error().message(); };
  EXPECT_THAT(message("a/b"), HasSubstr("absolute directory"));
  EXPECT_THAT(message("simulated:"), HasSubstr("rate"));
  EXPECT_THAT(message("simulated:200MB"), HasSubstr("simulated:200MB/s"));
  EXPECT_THAT(message("simulated:200 apples/s"), HasSubstr("rate"));
  EXPECT_THAT(message("simulated:5KB/s"), HasSubstr("at least 1MB/s"));
  EXPECT_THAT(message("simulated:5MB/s@here"), HasSubstr("after @"));
  EXPECT_THAT(message("simulated:5MB/s@"), HasSubstr("after @"));
}

class Simulated : public testing::Test {
 protected:
  Simulated() {
    std::filesystem::create_directories(root_);
    const Fd fd(open(model_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_TRUE(WriteAll(fd.get(), std::string(1 << 20, 'm')).ok());
  }
  ~Simulated() override { std::filesystem::remove_all(root_); }

  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("rouse-places-" + std::to_string(getpid()));
  const std::string model_ = root_ / "m.bin";
};

TEST_F(Simulated, IsTheDiskUnderTheModelWhereThatCanBeLimited) {
  const TierPlace place{.directory = "", .bytes_per_second = 50'000'000};
  if (!os::DeviceUnder(os::ProcRoot::Real(), root_).ok()) GTEST_SKIP() << "no disk below";
  if (const std::string why = WhyNotSimulated(place, model_); !why.empty()) GTEST_SKIP() << why;
  const Result<SimulatedTier> tier = SimulatedTier::Make(place, model_, 1);
  ASSERT_TRUE(tier.ok()) << tier.error().message();
  EXPECT_EQ(tier->directory(), root_);
  EXPECT_FALSE(tier->has_own_file_system());
  EXPECT_EQ(tier->limit().device, *os::DeviceUnder(os::ProcRoot::Real(), root_));
}

TEST_F(Simulated, IsALoopDeviceOverMemory) {
  const TierPlace place{.directory = "/dev/shm", .bytes_per_second = 50'000'000};
  if (!IsMemoryFileSystem("/dev/shm")) GTEST_SKIP() << "/dev/shm is no memory";
  if (const std::string why = WhyNotSimulated(place, model_); !why.empty()) GTEST_SKIP() << why;
  const Result<SimulatedTier> tier = SimulatedTier::Make(place, model_, 1 << 20);
  ASSERT_TRUE(tier.ok()) << tier.error().message();
  EXPECT_TRUE(tier->has_own_file_system());
  EXPECT_THAT(tier->storage(), HasSubstr("loop device"));
  EXPECT_EQ(os::DeviceUnder(os::ProcRoot::Real(), tier->directory()).value(), tier->limit().device);
}

TEST_F(Simulated, NeedsADirectoryThatIsThere) {
  const TierPlace place{.directory = "/nonexistent", .bytes_per_second = 50'000'000};
  EXPECT_THAT(WhyNotSimulated(place, model_), HasSubstr("/nonexistent"));
  EXPECT_FALSE(SimulatedTier::Make(place, model_, 1).ok());
}

}  // namespace
}  // namespace rouse::lab
