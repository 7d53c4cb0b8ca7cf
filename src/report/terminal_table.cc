#include "report/terminal_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/check.h"

namespace rouse::report {
namespace {

constexpr int kNameColumnsMin = 9;
constexpr int kNameColumnsMax = 20;
constexpr int kBarColumnsMin = 8;
constexpr double kTooLargeForUnit = 99999.5;

std::string Number(const stats::Estimate& estimate, const TimeUnit& unit) {
  switch (estimate.kind) {
    case stats::Estimate::Kind::kValue:
      return NumberIn(estimate.value, unit);
    case stats::Estimate::Kind::kAtLeast:
      return ">=" + NumberIn(estimate.value, unit);
    case stats::Estimate::Kind::kNone:
      break;
  }
  return "-";
}

}  // namespace

TimeUnit UnitFor(double largest_ns) {
  if (largest_ns >= 48 * 3600e9) return {86400e9, "d"};
  if (largest_ns >= 9999.5e9) return {3600e9, "h"};
  if (largest_ns >= 10e9) return {1e9, "s"};
  if (largest_ns > 0 && largest_ns < 1e6) return {1e3, "us"};
  return {1e6, "ms"};
}

std::string NumberIn(double ns, const TimeUnit& unit) {
  if (!std::isfinite(ns)) return ns > 0 ? "inf" : "-inf";
  const double value = ns / unit.ns;
  const double size = std::fabs(value);
  if (size >= kTooLargeForUnit && unit.name != "d") {
    const TimeUnit own = UnitFor(std::fabs(ns));
    return NumberIn(ns, own) + std::string(own.name);
  }
  std::array<char, 64> text{};
  const char* const format = size >= 999.95   ? "%.0f"
                             : size >= 99.995 ? "%.1f"
                             : size >= 0.9995 ? "%.2f"
                                              : "%.3f";
  std::snprintf(text.data(), text.size(), value == 0 ? "%.0f" : format, value);
  return text.data();
}

ConditionTable::ConditionTable(std::span<const ConditionAttempts> conditions,
                               const TerminalOptions& options)
    : options_(options) {
  const results::Metric* const ttft = results::FindMetric("ttft");
  CHECK(ttft != nullptr);
  std::vector<double> medians;
  for (const ConditionAttempts& condition : conditions) {
    MetricSample sample = SampleOf(condition, *ttft);
    Row row;
    row.name = condition.name;
    row.n = sample.counted;
    row.failed = sample.sample.failures;
    row.summary = stats::Summarize(sample.sample);
    row.stages = MeanStages(condition.attempts);
    if (const auto median = row.summary.median.value.Value()) medians.push_back(*median);
    longest_ns_ = std::max(
        longest_ns_, row.summary.max.Value().value_or(sample.sample.longest_wait.value_or(0)));
    row.values = std::move(sample.values);
    rows_.push_back(std::move(row));
  }
  for (const double median : medians) largest_ns_ = std::max(largest_ns_, median);
  scale_ns_ = UnbrokenLimit(std::move(medians));
  // By what succeeded: one timeout must not round all else to nothing.
  unit_ = UnitFor(largest_ns_ > 0 ? largest_ns_ : longest_ns_);
}

std::string ConditionTable::Render() {
  for (const Row& row : rows_) AddCells(row);
  Measure();
  std::string out = Heading();
  for (size_t i = 0; i < rows_.size(); ++i) out += Line(i);
  out += Legend(bars_, options_.columns, options_.color);
  if (bar_width_ > 0 && scale_ns_ < largest_ns_) {
    out += WrapText(BreakWords(), {.columns = options_.columns, .indent = 2, .hanging = 5});
  }
  return out;
}

int64_t ConditionTable::smallest_n() const {
  int64_t smallest = 0;
  for (const Row& row : rows_) {
    if (row.n > 0) smallest = smallest == 0 ? row.n : std::min(smallest, row.n);
  }
  return smallest;
}

void ConditionTable::AddCells(const Row& row) {
  const stats::Quantile& median = row.summary.median;
  const bool interval = median.low.kind != stats::Estimate::Kind::kNone &&
                        median.high.kind != stats::Estimate::Kind::kNone;
  const std::string n = row.failed == 0
                            ? std::to_string(row.n)
                            : std::to_string(row.n) + " (" + std::to_string(row.failed) + " x)";
  cells_.push_back({n, Number(median.value, unit_),
                    interval ? Number(median.low, unit_) + ".." + Number(median.high, unit_) : "-",
                    Number(row.summary.max, unit_)});
}

void ConditionTable::Measure() {
  static constexpr std::array<size_t, kCellCount> kHeads = {1, 6, 8, 3};
  int used = 0;
  for (size_t i = 0; i < kCellCount; ++i) {
    widths_[i] = static_cast<int>(kHeads[i]);
    for (const Cells& cells : cells_) {
      widths_[i] = std::max(widths_[i], static_cast<int>(cells[i].size()));
    }
    used += 2 + widths_[i];
  }
  // The name and the first two are the answer; what does not fit beside them is left out.
  while (shown_cells_ > 2 && used + kNameColumnsMin > options_.columns) {
    used -= 2 + widths_[--shown_cells_];
  }
  name_width_ = kNameColumnsMin;
  for (const Row& row : rows_) {
    name_width_ = std::max(name_width_, DisplayColumns(FitText(row.name, kNameColumnsMax)));
  }
  name_width_ = std::max(kNameColumnsMin, std::min(name_width_, options_.columns - used));
  bar_width_ = options_.columns - used - name_width_ - 4;
  if (bar_width_ < kBarColumnsMin || shown_cells_ < kCellCount) bar_width_ = 0;
  scale_width_ = scale_ns_ < largest_ns_ ? bar_width_ - bar_width_ / 5 : bar_width_;
}

std::string ConditionTable::Fitted(std::string_view name) const {
  return PadRight(FitText(name, name_width_), name_width_);
}

std::string ConditionTable::Heading() const {
  static constexpr std::array<std::string_view, kCellCount> kHeads = {"n", "median", "95 % int",
                                                                      "max"};
  std::string out = Fitted(std::string(unit_.name));
  for (size_t i = 0; i < shown_cells_; ++i) {
    const std::string head = i == 2 && widths_[i] >= 13 ? "95 % interval" : std::string(kHeads[i]);
    out += "  " + PadLeft(head, widths_[i]);
  }
  if (bar_width_ > 0 && largest_ns_ > 0) {
    const std::string end = NumberIn(scale_ns_, unit_) + " " + std::string(unit_.name);
    out += "   0" + PadLeft(end, scale_width_ - 1);
  }
  return out + "\n";
}

std::string ConditionTable::Line(size_t index) {
  const Row& row = rows_[index];
  std::string out = Fitted(row.name);
  for (size_t i = 0; i < shown_cells_; ++i) out += "  " + PadLeft(cells_[index][i], widths_[i]);
  if (bar_width_ == 0 || largest_ns_ <= 0) return out + "\n";
  const std::string cells = BarOf(row);
  bars_.push_back(cells);
  const std::string left = options_.unicode ? "\u2595" : "|";
  const std::string right = options_.unicode ? "\u258f" : "|";
  return out + "  " + left + (options_.color ? ColoredCells(cells) : cells) + right + "\n";
}

std::string ConditionTable::BarOf(const Row& row) const {
  const std::optional<double> median = row.summary.median.value.Value();
  if (!row.stages || !median) return std::string(static_cast<size_t>(bar_width_), ' ');
  if (*median <= scale_ns_) {
    const auto length = static_cast<int>(std::lround(*median / scale_ns_ * scale_width_));
    return BarCells(*row.stages, std::max(1, length), bar_width_);
  }
  // The bar is as long as the median, and shared out as the mean attempt is.
  const double total = std::accumulate(row.stages->begin(), row.stages->end(), 0.0);
  return BrokenCells(*row.stages, scale_ns_ / scale_width_ * (total / *median), bar_width_);
}

// "// broken, ...: "long prompt" takes 5120 ms, 19 times "page cache cold"."
std::string ConditionTable::BreakWords() const {
  const auto longest = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
    return row.summary.median.value.Value() == scale_ns_;
  });
  CHECK(longest != rows_.end());
  std::string broken;
  for (const Row& row : rows_) {
    const double median = row.summary.median.value.Value().value_or(0);
    if (median <= scale_ns_) continue;
    std::array<char, 32> times{};
    std::snprintf(times.data(), times.size(), median < 10 * scale_ns_ ? "%.1f" : "%.0f",
                  median / scale_ns_);
    broken += broken.empty() ? "" : "; ";
    broken += "\"" + FitText(row.name, kNameColumnsMax) + "\" takes " + NumberIn(median, unit_) +
              " " + std::string(unit_.name) + ", " + times.data() + " times \"" +
              FitText(longest->name, kNameColumnsMax) + "\"";
  }
  return std::string(kBreakMark) + " broken, since the scale is made for the others: " + broken +
         ".";
}

std::string ConditionTable::RenderOrder() const {
  std::string out;
  const int range_width = 20;
  const int width = options_.columns - name_width_ - 6 - range_width;
  for (const Row& row : rows_) {
    if (row.values.size() < kSparkFewest) continue;
    double low = INFINITY;
    double high = -INFINITY;
    for (const double value : row.values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    const std::string range =
        low <= high ? NumberIn(low, unit_) + " .. " + NumberIn(high, unit_) : "none";
    const std::string line = Sparkline(row.values, width, options_.unicode);
    out += "  " + Fitted(row.name) + "  " + PadRight(line, width) + "  " + range + "\n";
  }
  return out;
}

}  // namespace rouse::report
