#include "report/terminal_bar.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>

namespace rouse::report {
namespace {

struct StageLook {
  char letter;
  std::string_view color;  // SGR: a dark letter on a light ground, apart also for colour-blind eyes
};

// Indexed by Stage. Ground colours after Okabe and Ito, in the 256-colour cube.
constexpr std::array<StageLook, results::kStageCount> kLooks{{
    {'q', "30;48;5;250"},
    {'s', "30;48;5;214"},
    {'w', "30;48;5;117"},
    {'i', "30;48;5;36"},
    {'t', "30;48;5;228"},
    {'p', "37;48;5;25"},
    {'d', "30;48;5;175"},
    {'x', "37;48;5;130"},
    {'.', "37;48;5;240"},
}};

const StageLook& LookOf(results::Stage stage) { return kLooks[static_cast<size_t>(stage)]; }

const StageLook* LookOfLetter(char letter) {
  for (const StageLook& look : kLooks) {
    if (look.letter == letter) return &look;
  }
  return nullptr;
}

std::string Painted(const std::string& text, std::string_view color) {
  return "\x1b[" + std::string(color) + "m" + text + "\x1b[0m";
}

}  // namespace

char StageLetter(results::Stage stage) { return LookOf(stage).letter; }

std::optional<StageMeans> MeanStages(std::span<const results::Attempt* const> attempts) {
  StageMeans sums{};
  int count = 0;
  for (const results::Attempt* const attempt : attempts) {
    if (!attempt->ttft_ns || attempt->outcome != results::Outcome::kOk) continue;
    ++count;
    double told = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto ns = static_cast<double>(std::max<int64_t>(0, attempt->stages[i].ns.value_or(0)));
      sums[i] += ns;
      told += ns;
    }
    // An import may tell no stages: its time is nobody's.
    sums[static_cast<size_t>(results::Stage::kUnattributed)] +=
        std::max(0.0, static_cast<double>(*attempt->ttft_ns) - told);
  }
  if (count == 0) return std::nullopt;
  for (double& sum : sums) sum /= count;
  return sums;
}

std::string BarCells(const StageMeans& means, int length, int width) {
  double total = 0;
  for (const double mean : means) total += mean;
  std::string cells;
  if (total > 0) {
    std::array<int, results::kStageCount> counts{};
    std::array<double, results::kStageCount> rests{};
    int given = 0;
    for (size_t i = 0; i < means.size(); ++i) {
      const double exact = means[i] / total * length;
      counts[i] = static_cast<int>(std::floor(exact));
      rests[i] = exact - counts[i];
      given += counts[i];
    }
    for (; given < length; ++given) {
      const auto most = std::max_element(rests.begin(), rests.end());
      ++counts[static_cast<size_t>(most - rests.begin())];
      *most = -1;
    }
    for (size_t i = 0; i < means.size(); ++i) {
      cells.append(static_cast<size_t>(counts[i]), kLooks[i].letter);
    }
  }
  cells.append(static_cast<size_t>(width) - cells.size(), ' ');
  return cells;
}

double UnbrokenLimit(std::vector<double> lengths) {
  std::erase_if(lengths, [](double length) { return length <= 0; });
  if (lengths.empty()) return 0;
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  const bool broken = lengths.size() >= kBreakFromBars && lengths[0] > kBreakAbove * lengths[1];
  return broken ? lengths[1] : lengths[0];
}

std::string BrokenCells(const StageMeans& means, double cell_ns, int width) {
  // The longest stage gives way, then the next as well: all are at most `most` long, and together
  // as long as the bar.
  std::vector<double> sorted;
  for (const double mean : means) sorted.push_back(mean / cell_ns);
  std::sort(sorted.begin(), sorted.end());
  double left = width;
  double most = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    most = left / static_cast<double>(sorted.size() - i);
    if (sorted[i] > most) break;
    left -= sorted[i];
  }
  StageMeans drawn{};
  for (size_t i = 0; i < means.size(); ++i) drawn[i] = std::min(means[i] / cell_ns, most);
  std::string cells = BarCells(drawn, width, width);
  for (size_t i = 0; i < means.size(); ++i) {
    if (means[i] / cell_ns <= most) continue;
    const size_t last = cells.rfind(kLooks[i].letter);
    if (last == std::string::npos || last < kBreakMark.size()) continue;
    // Before its last cell, so that one sees that it goes on.
    cells.replace(last - kBreakMark.size(), kBreakMark.size(), kBreakMark);
  }
  return cells;
}

std::string ColoredCells(const std::string& cells) {
  std::string out;
  for (size_t i = 0; i < cells.size();) {
    size_t end = i;
    while (end < cells.size() && cells[end] == cells[i]) ++end;
    const std::string run = cells.substr(i, end - i);
    const StageLook* const look = LookOfLetter(cells[i]);
    out += look == nullptr ? run : Painted(run, look->color);
    i = end;
  }
  return out;
}

std::string PaintStage(const std::string& cells, results::Stage stage) {
  return cells.empty() ? cells : Painted(cells, LookOf(stage).color);
}

std::string Sparkline(std::span<const double> values, int width, bool unicode) {
  constexpr std::array<std::string_view, 8> kBlocks = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                       "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr std::string_view kLetters = "_.:-=+*#";
  if (values.empty() || width < 1) return "";
  const size_t marks = std::min(values.size(), static_cast<size_t>(width));
  std::vector<double> points;
  for (size_t i = 0; i < marks; ++i) {
    const size_t from = i * values.size() / marks;
    const size_t to = (i + 1) * values.size() / marks;
    std::vector<double> group(values.begin() + static_cast<ptrdiff_t>(from),
                              values.begin() + static_cast<ptrdiff_t>(to));
    // The upper of two middle ones, so that a group of failures and successes has no infinite mean.
    const auto middle = group.begin() + static_cast<ptrdiff_t>(group.size() / 2);
    std::nth_element(group.begin(), middle, group.end());
    points.push_back(*middle);
  }
  double low = INFINITY;
  double high = -INFINITY;
  for (const double point : points) {
    if (!std::isfinite(point)) continue;
    low = std::min(low, point);
    high = std::max(high, point);
  }
  std::string out;
  for (const double point : points) {
    if (!std::isfinite(point)) {
      out += 'x';
      continue;
    }
    const double share = high > low ? (point - low) / (high - low) : 0;
    const auto level = std::min<size_t>(7, static_cast<size_t>(share * 8));
    if (unicode) {
      out += kBlocks[level];
    } else {
      out += kLetters[level];
    }
  }
  return out;
}

std::string Legend(const std::vector<std::string>& bars, int columns, bool color) {
  std::string out;
  int width = 0;
  for (int i = 0; i < results::kStageCount; ++i) {
    const auto stage = static_cast<results::Stage>(i);
    const StageLook& look = LookOf(stage);
    const std::string_view words = StageWords(stage);
    const bool used = std::any_of(bars.begin(), bars.end(), [&](const std::string& bar) {
      return bar.find(look.letter) != std::string::npos;
    });
    if (!used) continue;
    const int item_width = 4 + static_cast<int>(words.size());  // "  x words"
    if (width > 0 && width + item_width > columns) {
      out += '\n';
      width = 0;
    }
    const std::string letter(1, look.letter);
    out += "  " + (color ? Painted(letter, look.color) : letter) + " " + std::string(words);
    width += item_width;
  }
  return out.empty() ? out : out + "\n";
}

}  // namespace rouse::report
