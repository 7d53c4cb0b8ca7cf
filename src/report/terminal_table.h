// The table of conditions: n, median, interval and maximum of the TTFT, and the stacked bar of what
// it was spent on. For this folder only.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/sample.h"
#include "report/terminal.h"
#include "report/terminal_bar.h"
#include "stats/summary.h"

namespace rouse::report {

// One unit for all times that are to be compared by eye.
struct TimeUnit {
  double ns;
  std::string_view name;
};
TimeUnit UnitFor(double largest_ns);

// "48.3", "161", "0.425": three to four digits. A value that is far too large for the unit has its
// own: "1.2h".
std::string NumberIn(double ns, const TimeUnit& unit);

class ConditionTable {
 public:
  ConditionTable(std::span<const ConditionAttempts> conditions, const TerminalOptions& options);

  std::string Render();
  // One line per condition with at least `kSparkFewest` attempts: the TTFT of each, in the order of
  // the run. "" when there is none.
  std::string RenderOrder() const;
  static constexpr size_t kSparkFewest = 4;

  // Of the conditions with any attempt; 0 when there is none.
  int64_t smallest_n() const;

  struct Row {
    std::string name;
    int64_t n = 0;
    int64_t failed = 0;
    stats::SampleSummary summary;
    std::optional<StageMeans> stages;
    std::vector<double> values;  // in order, infinity for a failure
  };
  const std::vector<Row>& rows() const { return rows_; }
  const TimeUnit& unit() const { return unit_; }

 private:
  static constexpr size_t kCellCount = 4;
  using Cells = std::array<std::string, kCellCount>;  // n, median, interval, max

  void AddCells(const Row& row);
  void Measure();
  std::string Heading() const;
  std::string Line(size_t index);
  std::string BarOf(const Row& row) const;
  std::string BreakWords() const;
  std::string Fitted(std::string_view name) const;

  const TerminalOptions& options_;
  std::vector<Row> rows_;
  std::vector<Cells> cells_;
  std::vector<std::string> bars_;
  std::array<int, kCellCount> widths_{};
  size_t shown_cells_ = kCellCount;
  int name_width_ = 0;
  int bar_width_ = 0;
  int scale_width_ = 0;    // cells of the bar up to `scale_ns_`; the rest is for broken ones
  double largest_ns_ = 0;  // median
  double scale_ns_ = 0;    // longest median that is drawn in full
  double longest_ns_ = 0;
  TimeUnit unit_{1e6, "ms"};
};

}  // namespace rouse::report
