#include "report/live_status.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/terminal_text.h"
#include "base/time.h"
#include "base/units.h"

namespace rouse::report {
namespace {

constexpr size_t kMostBars = 32;
constexpr int64_t kTellAfterNs = 2 * kNsPerSecond;  // a step that takes longer says for how long

// What a terminal that is not UTF-8 would show as several wrong characters.
std::string Plain(const std::string& text, bool unicode) {
  if (unicode) return text;
  std::string out;
  for (const CodePoint& each : CodePointsOf(text)) {
    out += each.valid && each.value < 0x80 ? std::string(each.bytes) : "?";
  }
  return out;
}

std::string Waiting(const LiveStatus& status) {
  if (status.stopping) return "ending, what was measured is kept; Ctrl-C again ends at once";
  if (status.idle) {
    return "idle: " + CountdownText(status.idle->left_ns) + " left of " +
           CountdownText(status.idle->total_ns) + ", no contact with the server before " +
           status.idle->until;
  }
  if (status.step_ns < kTellAfterNs) return status.step;
  return status.step + ", for " + CountdownText(status.step_ns);
}

std::string Results(const LiveStatus& status, int columns, bool unicode) {
  if (status.ttft_ns.empty()) return "";
  const std::optional<int64_t>& last = status.ttft_ns.back();
  std::string text = "; last " + (last ? FormatDuration(*last) : std::string("none")) + " (" +
                     status.last_condition + ")";
  std::vector<int64_t> times;
  for (const auto& each : status.ttft_ns) {
    if (each) times.push_back(*each);
  }
  if (times.size() > 1) {
    const auto [low, high] = std::minmax_element(times.begin(), times.end());
    text = " " + FormatDuration(*low) + " to " + FormatDuration(*high) + text;
  }
  // The bars give way before the numbers do.
  const int room = std::max(8, columns - 7 - DisplayColumns(SafeText(text)));
  const size_t bars = std::min({status.ttft_ns.size(), kMostBars, static_cast<size_t>(room)});
  const auto first = status.ttft_ns.end() - static_cast<std::ptrdiff_t>(bars);
  return "TTFT " + Sparkline({first, status.ttft_ns.end()}, unicode) + Plain(text, unicode);
}

}  // namespace

std::string CountdownText(int64_t ns) {
  const int64_t seconds = (std::max<int64_t>(ns, 0) + kNsPerSecond / 2) / kNsPerSecond;
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  std::array<char, 64> text{};
  if (seconds < kMinute) {
    std::snprintf(text.data(), text.size(), "%d s", static_cast<int>(seconds));
  } else if (seconds < kHour) {
    std::snprintf(text.data(), text.size(), "%d min %02d s", static_cast<int>(seconds / kMinute),
                  static_cast<int>(seconds % kMinute));
  } else {
    std::snprintf(text.data(), text.size(), "%lld h %02d min",
                  static_cast<long long>(seconds / kHour),
                  static_cast<int>(seconds % kHour / kMinute));
  }
  return text.data();
}

std::string Sparkline(const std::vector<std::optional<int64_t>>& values, bool unicode) {
  constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 8> kAscii = {"_", ".", ",", "-", "=", "+", "*", "#"};
  const auto& bars = unicode ? kBlocks : kAscii;
  double low = 0;
  double high = 0;
  bool any = false;
  for (const auto& each : values) {
    if (!each) continue;
    const double value = std::log(static_cast<double>(std::max<int64_t>(*each, 1)));
    low = any ? std::min(low, value) : value;
    high = any ? std::max(high, value) : value;
    any = true;
  }
  // Values within a few per cent of each other are one height: noise is not to look like steps.
  constexpr double kFlat = 0.05;
  std::string out;
  for (const auto& each : values) {
    if (!each) {
      out += "x";
      continue;
    }
    const double value = std::log(static_cast<double>(std::max<int64_t>(*each, 1)));
    const double share = high - low < kFlat ? 0 : (value - low) / (high - low);
    out += bars.at(static_cast<size_t>(std::lround(share * 7)));
  }
  return out;
}

std::vector<std::string> LiveStatusLines(const LiveStatus& status, int columns, bool unicode) {
  const int width = std::max(1, columns - 3);
  const std::string place =
      "[" + std::to_string(status.done) + "/" + std::to_string(status.total) + "] ";
  const std::string left = ", " + CountdownText(status.eta_ns) + " left";
  // The name gives way before the time does.
  const int room = width - DisplayColumns(place) - DisplayColumns(left);
  std::string head = place + (status.condition.empty() ? "preparing" : status.condition);
  if (room >= 6) {
    head = place + FitText(status.condition.empty() ? "preparing" : status.condition, room) + left;
  }
  std::vector<std::string> lines = {FitText(Plain(head, unicode), width),
                                    FitText("  " + Plain(Waiting(status), unicode), width)};
  const std::string results = Results(status, width, unicode);
  if (!results.empty()) lines.push_back(FitText("  " + results, width));
  return lines;
}

}  // namespace rouse::report
