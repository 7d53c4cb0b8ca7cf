#include "base/units.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/time.h"

namespace rouse {
namespace {

TEST(ParseDuration, KnowsEveryUnit) {
  EXPECT_EQ(ParseDuration("7ns").value(), 7);
  EXPECT_EQ(ParseDuration("250us").value(), 250'000);
  EXPECT_EQ(ParseDuration("1.5s").value(), 1'500'000'000);
  EXPECT_EQ(ParseDuration("10m").value(), 600'000'000'000);
  EXPECT_EQ(ParseDuration("10min").value(), 600'000'000'000);
  EXPECT_EQ(ParseDuration("8h").value(), 28'800'000'000'000);
  EXPECT_EQ(ParseDuration("0s").value(), 0);
}

TEST(ParseDuration, RefusesWhatHasNoUnitOrMakesNoSense) {
  for (const char* text : {"", "10", "s", "-1s", "1e3s", "nan s", "infs", "10 parsecs", "1s2",
                           "9e99h", "99999999999h"}) {
    const auto result = ParseDuration(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code(), ErrorCode::kUsage);
  }
  EXPECT_NE(ParseDuration("10").error().message().find("\"10\" has no unit"), std::string::npos);
}

TEST(ParseBytes, TellsThousandsFrom1024) {
  EXPECT_EQ(ParseBytes("4096").value(), 4096);
  EXPECT_EQ(ParseBytes("2KB").value(), 2000);
  EXPECT_EQ(ParseBytes("2KiB").value(), 2048);
  EXPECT_EQ(ParseBytes("1.5 GiB").value(), 1'610'612'736);
  EXPECT_FALSE(ParseBytes("12 apples").ok());
}

TEST(FormatWrittenDuration, IsAsOneWouldWriteIt) {
  EXPECT_EQ(FormatWrittenDuration(0), "0 s");
  EXPECT_EQ(FormatWrittenDuration(20 * kNsPerSecond), "20 s");
  EXPECT_EQ(FormatWrittenDuration(60 * kNsPerSecond), "1 min");
  EXPECT_EQ(FormatWrittenDuration(90 * kNsPerSecond), "90 s");
  EXPECT_EQ(FormatWrittenDuration(8 * 3600 * kNsPerSecond), "8 h");
  EXPECT_EQ(FormatWrittenDuration(1500 * kNsPerMs), "1500 ms");
  EXPECT_EQ(FormatWrittenDuration(7), "7 ns");
}

TEST(WriteDuration, IsReadAsTheSameNumberOfNanoseconds) {
  for (const int64_t ns : {int64_t{0}, int64_t{7}, 1500 * kNsPerMs, 1500 * int64_t{1000},
                           20 * kNsPerSecond, 8 * 3600 * kNsPerSecond}) {
    EXPECT_EQ(*ParseDuration(WriteDuration(ns)), ns) << WriteDuration(ns);
  }
  EXPECT_EQ(WriteDuration(600 * kNsPerSecond), "10min");
}

TEST(FormatCount, PutsThePluralWhereItBelongs) {
  EXPECT_EQ(FormatCount(0, "attempt"), "0 attempts");
  EXPECT_EQ(FormatCount(1, "attempt"), "1 attempt");
  EXPECT_EQ(FormatCount(2, "attempt"), "2 attempts");
}

TEST(FormatDuration, KeepsThreeDigits) {
  EXPECT_EQ(FormatDuration(0), "0 s");
  EXPECT_EQ(FormatDuration(999), "999 ns");
  EXPECT_EQ(FormatDuration(24'123'456), "24.1 ms");
  EXPECT_EQ(FormatDuration(-24'123'456), "-24.1 ms");
  EXPECT_EQ(FormatDuration(999'600'000), "1.00 s");
  EXPECT_EQ(FormatDuration(1'310'000'000), "1.31 s");
  EXPECT_EQ(FormatDuration(150'000'000'000), "2 min 30 s");
  EXPECT_EQ(FormatDuration(33'060'000'000'000), "9 h 11 min");
}

TEST(FormatBytes, UsesPowersOfAThousand) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(98'362'432), "98.4 MB");
  EXPECT_EQ(FormatBytes(1'816'000'000), "1.82 GB");
}

TEST(NearestName, FindsWhatWasMeantAndNothingElse) {
  const std::vector<std::string_view> names = {"prompt", "model", "timeout"};
  EXPECT_EQ(NearestName("promt", names), "prompt");
  EXPECT_EQ(NearestName("modle", names), "model");
  EXPECT_EQ(NearestName("xyzzy", names), "");
}

}  // namespace
}  // namespace rouse
