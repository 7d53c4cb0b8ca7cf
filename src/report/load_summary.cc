#include "report/load_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/terminal_text.h"
#include "base/units.h"
#include "report/sample.h"
#include "results/metrics.h"

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;
using results::Attempt;

constexpr int kGap = 2;  // blanks between columns

std::string StateOf(const results::ConditionRow& row, const std::string& layer) {
  const auto found = row.state.find(layer);
  return found == row.state.end() ? "" : found->second;
}

std::string LoadOf(const results::ConditionRow& row) {
  std::string load;
  if (const std::string count = StateOf(row, "concurrency"); !count.empty()) {
    load = count + " at once";
  }
  const std::string background = StateOf(row, "background");
  if (!background.empty() && background != "none") {
    load += (load.empty() ? "" : ", ") + std::string("background ") + background;
  }
  return load;
}

bool IsMeasured(const Attempt& attempt) {
  return attempt.outcome == results::Outcome::kOk && attempt.ttft_ns.has_value();
}

std::optional<double> MedianOrNone(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional<double>(stats::Median(values));
}

std::optional<double> CounterOf(const Attempt& attempt, std::string_view name) {
  return results::MetricOf(attempt, *results::FindMetric(name));
}

LoadRow RowOf(const ConditionAttempts& condition, const results::ConditionRow& declared) {
  LoadRow row;
  row.condition = condition.name;
  row.load = LoadOf(declared);
  row.ttft = stats::Summarize(SampleOf(condition, *results::FindMetric("ttft_ns")).sample);
  std::vector<double> shares;
  std::vector<double> lasts;
  std::vector<double> slowdowns;
  for (const Attempt* const attempt : condition.attempts) {
    if (!IsMeasured(*attempt)) continue;
    const auto ttft = static_cast<double>(*attempt->ttft_ns);
    const auto& queue = attempt->stages.at(static_cast<size_t>(results::Stage::kQueue));
    if (queue.ns && ttft > 0) shares.push_back(static_cast<double>(*queue.ns) / ttft);
    if (const auto last = CounterOf(*attempt, "companions_ttft_max_ns")) {
      lasts.push_back(std::max(ttft, *last));
    }
    if (const auto failed = CounterOf(*attempt, "companions_failed_count")) {
      row.companions_failed += std::llround(*failed);
    }
    if (const auto slow = CounterOf(*attempt, "cotenant_slowdown_ratio")) {
      slowdowns.push_back(*slow);
    }
  }
  row.queue_share = MedianOrNone(shares);
  row.burst_last_ns = MedianOrNone(lasts);
  row.cotenant_slowdown = MedianOrNone(slowdowns);
  return row;
}

std::string Time(const stats::Estimate& estimate) {
  const std::optional<double> value = estimate.Value();
  if (!value) return estimate.kind == stats::Estimate::Kind::kAtLeast ? "failed" : "-";
  return FormatDuration(std::llround(*value));
}

std::string Percent(const std::optional<double>& share) {
  if (!share) return "-";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f %%", *share * 100);
  return text.data();
}

enum : size_t { kMedian, kP90, kMax, kToBase, kQueue, kLast, kNeighbour, kCells };
using Cells = std::array<std::string, kCells>;
Cells Heads() { return {"median", "p90", "max", "x alone", "queue", "last", "neighbour"}; }

Cells CellsOf(const LoadRow& row) {
  std::array<char, 32> ratio{};
  std::snprintf(ratio.data(), ratio.size(), "%.2f", row.to_base.value_or(0));
  return {Time(row.ttft.median.value),
          Time(row.ttft.p90.value),
          Time(row.ttft.max),
          row.to_base ? ratio.data() : "-",
          Percent(row.queue_share),
          row.burst_last_ns ? FormatDuration(std::llround(*row.burst_last_ns)) : "-",
          Percent(row.cotenant_slowdown)};
}

struct Layout {
  int name = 0;
  std::array<int, kCells> widths{};  // 0: there is no room for it
};

// Each column as wide as it has to be, the name has the rest. Where that is too little, the tails
// give way: the JSON and the pages have them.
Layout LayOut(const std::vector<Cells>& rows, int columns) {
  constexpr int kNameFewest = 14;
  constexpr int kNameMost = 30;
  constexpr std::array<size_t, 2> kGiveWay = {kP90, kMax};
  Layout layout;
  layout.name = columns - 2;
  for (size_t cell = 0; cell < kCells; ++cell) {
    for (const Cells& row : rows) {
      layout.widths[cell] = std::max(layout.widths[cell], DisplayColumns(row[cell]));
    }
    layout.name -= layout.widths[cell] + kGap;
  }
  for (const size_t cell : kGiveWay) {
    if (layout.name >= kNameFewest) break;
    layout.name += layout.widths[cell] + kGap;
    layout.widths[cell] = 0;
  }
  layout.name = std::min(layout.name, kNameMost);
  return layout;
}

std::string Line(const std::string& name, const Cells& cells, const Layout& layout) {
  std::string line = "  " + PadRight(FitText(name, layout.name), layout.name);
  for (size_t cell = 0; cell < kCells; ++cell) {
    if (layout.widths[cell] == 0) continue;
    line += std::string(kGap, ' ') + PadLeft(cells[cell], layout.widths[cell]);
  }
  return line + "\n";
}

Json Number(const stats::Estimate& estimate) {
  const std::optional<double> value = estimate.Value();
  return value ? Json(*value) : Json();
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::optional<LoadSummary> SummarizeLoads(const results::Run& run,
                                          std::span<const Attempt> attempts) {
  LoadSummary summary;
  std::vector<std::string> bases;
  for (const results::ConditionRow& row : run.conditions) {
    if (!LoadOf(row).empty()) bases.push_back(row.base);
  }
  if (bases.empty()) return std::nullopt;
  for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
    const auto declared =
        std::ranges::find(run.conditions, condition.name, &results::ConditionRow::name);
    if (declared == run.conditions.end()) continue;
    const bool is_base = std::ranges::find(bases, condition.name) != bases.end();
    if (LoadOf(*declared).empty() && !is_base) continue;
    LoadRow row = RowOf(condition, *declared);
    const auto base = std::ranges::find(summary.rows, declared->base, &LoadRow::condition);
    if (base != summary.rows.end()) {
      const std::optional<double> mine = row.ttft.median.value.Value();
      const std::optional<double> others = base->ttft.median.value.Value();
      if (mine && others && *others > 0) row.to_base = *mine / *others;
    }
    summary.rows.push_back(std::move(row));
  }
  return summary;
}

std::string LoadText(const LoadSummary& summary, const TerminalOptions& options) {
  int64_t failed = 0;
  bool no_p90 = false;
  std::vector<Cells> rows = {Heads()};
  for (const LoadRow& row : summary.rows) {
    rows.push_back(CellsOf(row));
    failed += row.companions_failed;
    no_p90 = no_p90 || row.ttft.p90.value.kind == stats::Estimate::Kind::kNone;
  }
  const Layout layout = LayOut(rows, options.columns);
  std::string out =
      WrapText("Contention: tails, queue, the last of a burst, what another service pays",
               {.columns = options.columns, .hanging = 2});
  for (size_t i = 0; i < rows.size(); ++i) {
    out += Line(i == 0 ? "condition" : summary.rows[i - 1].condition, rows[i], layout);
  }
  std::string notes =
      "last: the longest TTFT of a burst. neighbour: how much slower 4.5 ms of work every 50 ms "
      "became while the request ran.";
  if (no_p90 && layout.widths[kP90] > 0) notes += " A p90 needs more attempts.";
  if (failed > 0) notes += " " + std::to_string(failed) + " requests of bursts failed.";
  return "\n" + out + WrapText(notes, {.columns = options.columns, .indent = 2, .hanging = 2});
}

std::string LoadJson(const LoadSummary& summary) {
  Json rows = Json::array();
  for (const LoadRow& row : summary.rows) {
    rows.push_back({{"condition", row.condition},
                    {"load", row.load.empty() ? Json() : Json(row.load)},
                    {"n", row.ttft.n},
                    {"median_ns", Number(row.ttft.median.value)},
                    {"p90_ns", Number(row.ttft.p90.value)},
                    {"p95_ns", Number(row.ttft.p95.value)},
                    {"max_ns", Number(row.ttft.max)},
                    {"to_base_ratio", OrNull(row.to_base)},
                    {"queue_share", OrNull(row.queue_share)},
                    {"burst_last_ns", OrNull(row.burst_last_ns)},
                    {"companions_failed", row.companions_failed},
                    {"cotenant_slowdown_ratio", OrNull(row.cotenant_slowdown)}});
  }
  return Json{{"rows", rows}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rouse::report
