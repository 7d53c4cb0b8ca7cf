#include "loader/device_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/time.h"
#include "gguf/test_bytes.h"

namespace rouse::loader {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kDayS = 86'400;

ReadSetup Threads(int threads) { return {ReadMethod::kPopulate, threads, 4 * kMiB}; }

DeviceProfile Profile(const std::string& device = "vda:disk:100:ext4") {
  return {device, Threads(2), 1'000 * kMiB, 5'000, 0};
}

TEST(ChooseSetup, TakesTheFastestWhenItIsClearlyFaster) {
  const MeasuredSetup measured[] = {{Threads(1), {900, 1000, 950}},
                                    {Threads(2), {1500, 1600, 1400}},
                                    {Threads(4), {2000, 1900, 2100}},
                                    {Threads(8), {1800, 1700, 1750}}};
  EXPECT_EQ(ChooseSetup(measured).setup.threads, 4);
  EXPECT_EQ(measured[2].Typical(), 2000);
}

TEST(ChooseSetup, StaysWithOneReaderForASmallGainAndWhereSeeksHurt) {
  const MeasuredSetup close[] = {{Threads(1), {1000, 1000, 1000}},
                                 {Threads(2), {1140, 1140, 1140}}};
  EXPECT_EQ(ChooseSetup(close).setup.threads, 1);
  const MeasuredSetup seeks[] = {{Threads(1), {150, 150, 150}}, {Threads(4), {20, 25, 20}}};
  EXPECT_EQ(ChooseSetup(seeks).setup.threads, 1);
}

TEST(ChooseSetup, StaysWithOneReaderWhereASliceIsAnAccident) {
  // One slice of each was slowed down by what else the start does: the median says nothing then.
  const MeasuredSetup noise[] = {{Threads(1), {400, 2500, 500}}, {Threads(4), {2600, 2400, 2550}}};
  EXPECT_EQ(ChooseSetup(noise).setup.threads, 1);
  const MeasuredSetup few[] = {{Threads(1), {1000, 1000, 1000}}, {Threads(4), {3000, 3000}}};
  EXPECT_EQ(ChooseSetup(few).setup.threads, 1);
  const MeasuredSetup none[] = {{Threads(1), {}}, {Threads(4), {3000, 3000, 3000}}};
  EXPECT_EQ(ChooseSetup(none).setup.threads, 1);
  EXPECT_EQ(none[0].Typical(), 0);
}

TEST(NeedsProbe, WhenUnknownOldFromTheFutureOrTwiceStrange) {
  DeviceProfile profile = Profile();
  EXPECT_TRUE(NeedsProbe(std::nullopt, 5'000));
  EXPECT_FALSE(NeedsProbe(profile, 5'000 + 29 * kDayS));
  EXPECT_TRUE(NeedsProbe(profile, 5'000 + 31 * kDayS));
  EXPECT_TRUE(NeedsProbe(profile, 4'000));
  profile.strange_loads = 1;
  EXPECT_FALSE(NeedsProbe(profile, 5'000));
  profile.strange_loads = 2;
  EXPECT_TRUE(NeedsProbe(profile, 5'000));
}

TEST(LearnRate, MovesSlowlyAndCountsStrangeLoadsInARow) {
  DeviceProfile profile = Profile();
  LearnRate(profile, 10 * kMiB, kNsPerSecond);  // too little to tell anything
  EXPECT_EQ(profile.bytes_per_s, 1'000 * kMiB);
  LearnRate(profile, 800 * kMiB, kNsPerSecond);
  EXPECT_EQ(profile.bytes_per_s, 950 * kMiB);
  EXPECT_EQ(profile.strange_loads, 0);
  LearnRate(profile, 100 * kMiB, kNsPerSecond);
  LearnRate(profile, 100 * kMiB, kNsPerSecond);
  EXPECT_EQ(profile.strange_loads, 2);
  LearnRate(profile, profile.bytes_per_s, kNsPerSecond);
  EXPECT_EQ(profile.strange_loads, 0);
}

TEST(Profiles, AreReadBackAndReplacedByDevice) {
  const gguf::TestFolder folder;
  const std::string path = folder.path() + "/a/b/devices";
  ASSERT_TRUE(SaveProfile(path, Profile("one")).ok());
  DeviceProfile two = Profile("two");
  two.setup = {ReadMethod::kPread, 4, kMiB};
  two.strange_loads = 1;
  ASSERT_TRUE(SaveProfile(path, two).ok());
  DeviceProfile one = Profile("one");
  one.bytes_per_s = 7;
  ASSERT_TRUE(SaveProfile(path, one).ok());
  EXPECT_EQ(ReadProfiles(path).size(), 2U);
  EXPECT_EQ(FindProfile(path, "one")->bytes_per_s, 7);
  const std::optional<DeviceProfile> found = FindProfile(path, "two");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->setup, two.setup);
  EXPECT_EQ(found->probed_wall_s, 5'000);
  EXPECT_EQ(found->strange_loads, 1);
  EXPECT_FALSE(FindProfile(path, "three").has_value());
}

TEST(Profiles, AForeignOrBrokenFileIsAnEmptyMemory) {
  const gguf::TestFolder folder;
  EXPECT_TRUE(ReadProfiles(folder.path() + "/none").empty());
  EXPECT_TRUE(ReadProfiles(folder.Write("other", "something else\n")).empty());
  const std::string path = folder.Write(
      "devices",
      "rouse.devices/2\nvda populate 0 4194304 1 1 0\nvda sing 1 4194304 1 1 0\nvda\n\nvdb "
      "populate 1 4194304 1 1 0\n");
  ASSERT_EQ(ReadProfiles(path).size(), 1U);
  EXPECT_EQ(ReadProfiles(path)[0].device, "vdb");
}

TEST(DeviceKey, IsTheSameForTwoFilesOfAFolderAndHasNoBlanks) {
  const gguf::TestFolder folder;
  const std::string one = DeviceKey(os::ProcRoot::Real(), folder.Write("a", "x"));
  EXPECT_EQ(DeviceKey(os::ProcRoot::Real(), folder.Write("b", "x")), one);
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one.find(' '), std::string::npos);
  EXPECT_EQ(DeviceKey(os::ProcRoot::Real(), folder.path() + "/none"), "unknown");
}

TEST(SetupText, IsForPeople) {
  EXPECT_EQ(SetupText(Threads(1)), "populate, 1 thread, 4 MiB");
  EXPECT_THAT(SetupText(Threads(2)), HasSubstr("2 threads"));
}

TEST(DefaultProfilesPath, FollowsTheStateFolder) {
  setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(DefaultProfilesPath(), "/state/rouse/devices");
  unsetenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  setenv("HOME", "/h", 1);
  EXPECT_EQ(DefaultProfilesPath(), "/h/.local/state/rouse/devices");
  setenv("HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace rouse::loader
