#include "report/live_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/terminal_text.h"
#include "base/time.h"

namespace rouse::report {
namespace {

using testing::HasSubstr;
using testing::Not;

LiveStatus Example() {
  LiveStatus status;
  status.done = 12;
  status.total = 30;
  status.condition = "page cache cold";
  status.step = "dropping the file from the page cache (page_cache = cold)";
  status.step_ns = 3 * kNsPerSecond;
  status.eta_ns = 134 * kNsPerSecond;
  for (const int64_t ms : {24, 71, 92, 174, 263}) status.ttft_ns.emplace_back(ms * kNsPerMs);
  status.last_condition = "page cache cold";
  return status;
}

TEST(LiveStatus, SaysWhereItIsWhatItWaitsForAndWhatCameOut) {
  const std::vector<std::string> lines = LiveStatusLines(Example(), 100, true);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "[12/30] page cache cold, 2 min 14 s left");
  EXPECT_EQ(lines[1], "  dropping the file from the page cache (page_cache = cold), for 3 s");
  EXPECT_EQ(lines[2], "  TTFT ▁▄▅▇█ 24.0 ms to 263 ms; last 263 ms (page cache cold)");
}

TEST(LiveStatus, CountsAnIdleTimeDownAndSaysWhatItIsFor) {
  LiveStatus status = Example();
  status.idle = {432 * kNsPerSecond, 600 * kNsPerSecond, "03:12:44"};
  EXPECT_EQ(LiveStatusLines(status, 100, true)[1],
            "  idle: 7 min 12 s left of 10 min 00 s, no contact with the server before 03:12:44");
  status.stopping = true;
  EXPECT_THAT(LiveStatusLines(status, 100, true)[1], HasSubstr("what was measured is kept"));
}

TEST(LiveStatus, FitsEveryWidthAndKeepsTheTimeThatIsLeft) {
  LiveStatus status = Example();
  status.condition = "a condition with a very long name that nobody could read at a glance";
  status.ttft_ns.assign(200, 70 * kNsPerMs);
  for (int columns = 1; columns < 130; ++columns) {
    for (const std::string& line : LiveStatusLines(status, columns, columns % 2 == 0)) {
      EXPECT_LE(DisplayColumns(line), std::max(1, columns - 3)) << columns << ": " << line;
    }
  }
  EXPECT_THAT(LiveStatusLines(status, 40, true)[0], HasSubstr("..., 2 min 14 s left"));
}

TEST(LiveStatus, IsAsciiWhereTheTerminalIs) {
  LiveStatus status = Example();
  status.condition = "kälter";
  status.ttft_ns.emplace_back(std::nullopt);
  for (const std::string& line : LiveStatusLines(status, 80, false)) {
    for (const char letter : line) EXPECT_GE(letter, ' ') << line;
  }
  EXPECT_THAT(LiveStatusLines(status, 80, false)[2], HasSubstr("_-=*#x"));
}

TEST(Sparkline, DoesNotMakeStepsOfNoise) {
  EXPECT_EQ(Sparkline({100, 101, 102}, true), "▁▁▁");
  EXPECT_EQ(Sparkline({100, std::nullopt, 1000}, true), "▁x█");
  EXPECT_EQ(Sparkline({}, true), "");
  EXPECT_THAT(Sparkline({0, 5}, false), Not(HasSubstr("x")));
}

TEST(CountdownText, IsShortAndOfSteadyWidth) {
  EXPECT_EQ(CountdownText(-5), "0 s");
  EXPECT_EQ(CountdownText(59'600'000'000), "1 min 00 s");
  EXPECT_EQ(CountdownText(125 * kNsPerSecond), "2 min 05 s");
  EXPECT_EQ(CountdownText((7 * 3600 + 59 * 60) * kNsPerSecond), "7 h 59 min");
}

}  // namespace
}  // namespace rouse::report
