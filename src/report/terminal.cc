// The run's table and what stands below it. Bars are in terminal_bar, contrasts in
// terminal_contrast, FitText in fit_text.
#include "report/terminal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/strings.h"
#include "base/units.h"
#include "report/comparison.h"
#include "report/comparison_text.h"
#include "report/run_checks.h"
#include "report/sample.h"
#include "report/terminal_bar.h"
#include "report/terminal_contrast.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::Outcome;

constexpr int kNameColumnsMin = 9;
constexpr int kNameColumnsMax = 20;
constexpr int kBarColumnsMin = 8;
constexpr size_t kListedFailures = 5;
constexpr size_t kListedWarnings = 4;

// Breaks at blanks so that no line is wider than `columns`; further lines are indented by `indent`
// as well. A word that is too long by itself is cut.
std::string Wrap(const std::string& text, int columns, const std::string& indent) {
  std::string out;
  std::string line = indent;
  bool empty = true;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(' ', start), text.size());
    const std::string word =
        FitText(text.substr(start, end - start), columns - static_cast<int>(indent.size()));
    const size_t width = line.size() + (empty ? 0 : 1) + word.size();
    if (!empty && width > static_cast<size_t>(columns)) {
      out += line + "\n";
      line = indent + "  ";
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
    start = end + 1;
  }
  return out + line + "\n";
}

std::string Fact(const results::Run& run, const std::string& name) {
  const auto found = run.environment.find(name);
  return found == run.environment.end() ? "" : found->second;
}

// All times of the table are in one unit, so that columns can be compared by eye.
struct Unit {
  double ns;
  std::string_view name;
};

Unit UnitFor(double largest_ns) {
  if (largest_ns >= 10e9) return {1e9, "s"};
  return {1e6, "ms"};
}

std::string Number(double ns, const Unit& unit) {
  const double value = ns / unit.ns;
  std::array<char, 64> text{};
  const char* const format = value >= 999.95   ? "%.0f"
                             : value >= 99.995 ? "%.1f"
                             : value >= 0.9995 ? "%.2f"
                                               : "%.3f";
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string Number(const stats::Estimate& estimate, const Unit& unit) {
  switch (estimate.kind) {
    case stats::Estimate::Kind::kValue:
      return Number(estimate.value, unit);
    case stats::Estimate::Kind::kAtLeast:
      return ">=" + Number(estimate.value, unit);
    case stats::Estimate::Kind::kNone:
      return "-";
  }
  return "-";
}

std::string PadLeft(const std::string& text, int width) {
  const int missing = width - static_cast<int>(text.size());
  return missing > 0 ? std::string(static_cast<size_t>(missing), ' ') + text : text;
}

std::string PadRight(std::string text, int width, int shown) {
  if (shown < width) text.append(static_cast<size_t>(width - shown), ' ');
  return text;
}

struct Row {
  std::string name;
  int64_t n = 0;
  int64_t failed = 0;
  stats::SampleSummary summary;
  std::optional<StageMeans> stages;
};

class Table {
 public:
  Table(const results::Run& run, std::span<const Attempt> attempts, const TerminalOptions& options)
      : options_(options) {
    const results::Metric* const ttft = results::FindMetric("ttft");
    CHECK(ttft != nullptr);
    for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
      const MetricSample sample = SampleOf(condition, *ttft);
      Row row;
      row.name = condition.name;
      row.n = sample.counted;
      row.failed = sample.sample.failures;
      row.summary = stats::Summarize(sample.sample);
      row.stages = MeanStages(condition.attempts);
      largest_ns_ = std::max(largest_ns_, row.summary.median.value.Value().value_or(0));
      longest_ns_ = std::max(
          longest_ns_, row.summary.max.Value().value_or(sample.sample.longest_wait.value_or(0)));
      rows_.push_back(std::move(row));
    }
    // By what succeeded: one timeout must not round all else to nothing.
    unit_ = UnitFor(largest_ns_ > 0 ? largest_ns_ : longest_ns_);
  }

  std::string Render() {
    for (const Row& row : rows_) AddCells(row);
    Measure();
    std::string out = Heading();
    for (size_t i = 0; i < rows_.size(); ++i) out += Line(i);
    out += Legend(bars_, options_.columns, options_.color);
    return out;
  }

  int64_t smallest_n() const {
    int64_t smallest = 0;
    for (const Row& row : rows_) smallest = smallest == 0 ? row.n : std::min(smallest, row.n);
    return smallest;
  }

 private:
  static constexpr size_t kCellCount = 4;
  using Cells = std::array<std::string, kCellCount>;  // n, median, interval, max

  void AddCells(const Row& row) {
    const stats::Quantile& median = row.summary.median;
    const bool interval = median.low.kind != stats::Estimate::Kind::kNone &&
                          median.high.kind != stats::Estimate::Kind::kNone;
    const std::string n = row.failed == 0
                              ? std::to_string(row.n)
                              : std::to_string(row.n) + " (" + std::to_string(row.failed) + " x)";
    cells_.push_back(
        {n, Number(median.value, unit_),
         interval ? Number(median.low, unit_) + ".." + Number(median.high, unit_) : "-",
         Number(row.summary.max, unit_)});
  }

  void Measure() {
    static constexpr std::array<size_t, kCellCount> kHeads = {1, 6, 8, 3};
    for (size_t i = 0; i < kCellCount; ++i) {
      widths_[i] = static_cast<int>(kHeads[i]);
      for (const Cells& cells : cells_) {
        widths_[i] = std::max(widths_[i], static_cast<int>(cells[i].size()));
      }
    }
    int used = 2 * static_cast<int>(kCellCount) + 4;
    for (const int width : widths_) used += width;
    name_width_ = kNameColumnsMin;
    for (const Row& row : rows_) {
      const auto bytes = static_cast<int>(FitText(row.name, kNameColumnsMax).size());
      name_width_ = std::max(name_width_, std::min(bytes, kNameColumnsMax));
    }
    name_width_ = std::max(kNameColumnsMin, std::min(name_width_, options_.columns - used));
    bar_width_ = options_.columns - used - name_width_;
    if (bar_width_ < kBarColumnsMin) bar_width_ = 0;
  }

  std::string Heading() const {
    std::string out = PadRight("", name_width_, 0);
    static constexpr std::array<std::string_view, kCellCount> kHeads = {"n", "median", "95 % int",
                                                                        "max"};
    for (size_t i = 0; i < kCellCount; ++i) {
      const std::string head =
          i == 2 && widths_[i] >= 13 ? "95 % interval" : std::string(kHeads[i]);
      out += "  " + PadLeft(head, widths_[i]);
    }
    if (bar_width_ > 0) {
      const std::string end = Number(largest_ns_, unit_) + " " + std::string(unit_.name);
      out += "   0" + PadLeft(end, bar_width_ - 1);
    } else {
      out += "  " + std::string(unit_.name);
    }
    return out + "\n";
  }

  std::string Line(size_t index) {
    const Row& row = rows_[index];
    // Column counts of a foreign name are FitText's business: it is padded by what it shows.
    std::string name = FitText(row.name, name_width_);
    int shown = 0;
    while (shown < name_width_ && FitText(row.name, shown) != name) ++shown;
    std::string out = PadRight(std::move(name), name_width_, shown);
    for (size_t i = 0; i < kCellCount; ++i) out += "  " + PadLeft(cells_[index][i], widths_[i]);
    if (bar_width_ == 0) return out + "\n";
    std::string cells(static_cast<size_t>(bar_width_), ' ');
    const std::optional<double> median = row.summary.median.value.Value();
    if (row.stages && median && largest_ns_ > 0) {
      const int length =
          std::max(1, static_cast<int>(std::lround(*median / largest_ns_ * bar_width_)));
      cells = BarCells(*row.stages, length, bar_width_);
    }
    bars_.push_back(cells);
    const std::string left = options_.unicode ? "\u2595" : "|";
    const std::string right = options_.unicode ? "\u258f" : "|";
    return out + "  " + left + (options_.color ? ColoredCells(cells) : cells) + right + "\n";
  }

  const TerminalOptions& options_;
  std::vector<Row> rows_;
  std::vector<Cells> cells_;
  std::vector<std::string> bars_;
  std::array<int, kCellCount> widths_{};
  int name_width_ = kNameColumnsMin;
  int bar_width_ = 0;
  double largest_ns_ = 0;
  double longest_ns_ = 0;
  Unit unit_{1e6, "ms"};
};

std::string Header(const results::Run& run, const TerminalOptions& options) {
  const std::string dot = options.unicode ? " \u00b7 " : " - ";
  std::string first = "rouse " + run.rouse_version;
  for (const std::string& fact : {Fact(run, "engine"), Fact(run, "cpu")}) {
    if (!fact.empty()) first += dot + fact;
  }
  std::string out = FitText(first, options.columns) + "\n";
  std::string second = run.target == "builtin" ? "built-in server" : run.target;
  if (!run.model.empty()) second += dot + run.model;
  const std::string bytes = Fact(run, "model_bytes");
  if (const auto count = ParseInt64(bytes)) second += ", " + FormatBytes(*count);
  out += FitText(second, options.columns) + "\n";
  if (!run.calibration.empty() && run.calibration.front().median_ns) {
    const results::CalibrationRow& row = run.calibration.front();
    out += "The client's own delay: " + FormatDuration(*row.median_ns) + " (" +
           (row.p99_ns ? "p99 " + FormatDuration(*row.p99_ns)
                       : "largest " + FormatDuration(row.max_ns.value_or(*row.median_ns))) +
           "), not subtracted\n";
  }
  return out;
}

std::string Counted(int64_t count, int64_t total) {
  return std::to_string(count) + " of " + std::to_string(total);
}

// "Every state was read back before the request: 30 of 30 reached. Stages add up ..."
std::string Proofs(std::span<const Attempt> attempts, int columns) {
  int64_t total = 0;
  int64_t reached = 0;
  int64_t unproved = 0;
  int64_t with_token = 0;
  int64_t closed = 0;
  for (const Attempt& attempt : attempts) {
    if (attempt.prime || attempt.outcome == Outcome::kInterrupted) continue;
    ++total;
    const bool lost = attempt.outcome == Outcome::kStateNotReached ||
                      std::any_of(attempt.state_before.begin(), attempt.state_before.end(),
                                  [](const auto& each) { return each.second.reached == false; });
    const bool known = std::any_of(attempt.state_before.begin(), attempt.state_before.end(),
                                   [](const auto& each) { return each.second.reached == true; });
    if (!lost && known) ++reached;
    if (!lost && !known) ++unproved;
    if (!attempt.ttft_ns) continue;
    ++with_token;
    int64_t sum = 0;
    for (const results::StageTime& stage : attempt.stages) sum += stage.ns.value_or(0);
    if (sum == *attempt.ttft_ns) ++closed;
  }
  if (total == 0) return "";
  std::string text = reached == total ? "Every state was read back before the request: "
                                      : "States read back before the request: ";
  text += Counted(reached, total) + " reached.";
  if (unproved > 0) text += " " + std::to_string(unproved) + " had no state that could be read.";
  std::string out = Wrap(text, columns, "");
  if (with_token > 0) out += "Stages add up to TTFT in " + Counted(closed, with_token) + ".\n";
  return out;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string Failures(std::span<const Attempt> attempts, int columns) {
  std::string out;
  size_t count = 0;
  for (const Attempt& attempt : attempts) {
    if (attempt.outcome == Outcome::kOk || attempt.prime) continue;
    if (++count > kListedFailures) continue;
    std::string line(results::OutcomeName(attempt.outcome));
    line += ", " + FitText(attempt.condition, kNameColumnsMax);
    if (attempt.block) line += ", block " + std::to_string(*attempt.block);
    if (!attempt.outcome_detail.empty()) line += ": " + FirstLine(attempt.outcome_detail);
    out += Wrap(line, columns, "  ");
  }
  if (count == 0) return "";
  if (count > kListedFailures) {
    out += "  and " + std::to_string(count - kListedFailures) + " more\n";
  }
  return "\nNot ok, and kept (" + std::to_string(count) + "):\n" + out;
}

std::string Warnings(const results::Run& run, std::span<const Attempt> attempts, int columns) {
  std::map<std::string, std::pair<int64_t, std::string>> by_code;
  for (const results::Warning& warning : RunWarnings(run, attempts)) {
    auto& [count, message] = by_code[warning.code];
    if (count++ == 0) message = warning.message;
  }
  for (const Attempt& attempt : attempts) {
    if (attempt.prime) continue;
    for (const results::Warning& warning : attempt.warnings) {
      auto& [count, message] = by_code[warning.code];
      if (count++ == 0) message = warning.message;
    }
  }
  std::string out;
  size_t listed = 0;
  for (const auto& [code, entry] : by_code) {
    if (++listed > kListedWarnings) continue;
    out += Wrap(code + " (" + std::to_string(entry.first) + "x): " + FirstLine(entry.second),
                columns, "  ");
  }
  if (listed == 0) return "";
  if (listed > kListedWarnings) {
    out += "  and " + std::to_string(listed - kListedWarnings) + " other kinds\n";
  }
  return "\nWarnings:\n" + out;
}

std::string Hypotheses(const results::Run& run, std::span<const Attempt> attempts,
                       const TerminalOptions& options) {
  if (run.hypotheses.empty()) return "";
  std::string out = "\nHypotheses\n";
  const Result<std::vector<Comparison>> judged = JudgeHypotheses(run, attempts);
  if (!judged.ok())
    return out + Wrap("no verdict: " + judged.error().message(), options.columns, "  ");
  for (const Comparison& comparison : *judged) out += ComparisonText(comparison, options.color);
  return out;
}

std::string Next(const results::Run& run, const TerminalOptions& options) {
  if (!run.id) return "";
  const std::string id = std::to_string(*run.id);
  std::string out = "\nSaved as run " + id;
  if (!options.database.empty()) out += " in " + FitText(options.database, options.columns - 24);
  out += ".\n";
  const std::string dot = options.unicode ? " \u00b7 " : " - ";
  return out + Wrap("Next: rouse explain " + id + dot + "rouse report " + id + " --json" + dot +
                        "rouse list",
                    options.columns, "");
}

}  // namespace

std::string RenderRun(const results::Run& run, std::span<const Attempt> attempts,
                      const TerminalOptions& options) {
  std::string out = Header(run, options);
  Table table(run, attempts, options);
  out += "\nTime to first token (TTFT), and what it was spent on\n" + table.Render();
  if (table.smallest_n() > 0 && table.smallest_n() < stats::SmallestNTwoSided(0.5, 0.95)) {
    out += Wrap("A 95 % interval of the median needs " +
                    std::to_string(stats::SmallestNTwoSided(0.5, 0.95)) + " attempts.",
                options.columns, "  ");
  }
  const std::vector<std::string> contrasts = ContrastSentences(run, attempts);
  if (!contrasts.empty()) out += "\nWhat each changed layer costs here (95 % interval)\n";
  for (const std::string& sentence : contrasts) out += Wrap(sentence, options.columns, "  ");
  out += Hypotheses(run, attempts, options);
  out += Failures(attempts, options.columns);
  out += Warnings(run, attempts, options.columns);
  const std::string proofs = Proofs(attempts, options.columns);
  if (!proofs.empty()) out += "\n" + proofs;
  if (run.status != "complete") out += "This run is " + FitText(run.status, 20) + ".\n";
  return out + Next(run, options);
}

}  // namespace rouse::report
