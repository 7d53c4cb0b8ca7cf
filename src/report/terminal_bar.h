// The stacked stage bar of one condition: a row of cells, each showing the letter of the stage that
// the time went to. For this folder only.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/attempt.h"
#include "results/stage_words.h"

namespace rouse::report {

// 's': as the bar's legend has it, beside results::StageWords.
char StageLetter(results::Stage stage);

// Mean time per stage over the attempts that have a TTFT, in ns; empty when none has. What no stage
// holds is unattributed.
using StageMeans = std::array<double, results::kStageCount>;
std::optional<StageMeans> MeanStages(std::span<const results::Attempt* const> attempts);

// Where the scale of several bars ends, so that one far longer than the others does not flatten
// them: the longest that is drawn in full. Of at least `kBreakFromBars` the longest is broken
// (BrokenCells) when it is more than `kBreakAbove` times the next. The page has the same rule
// (web/src/tracks.ts).
inline constexpr size_t kBreakFromBars = 4;
inline constexpr double kBreakAbove = 3;
double UnbrokenLimit(std::vector<double> lengths);

// The cells of a bar: `length` of `width` cells are filled, shared out by the largest remainder, in
// the order in which a start passes through the stages; a stage with a share of at least half a
// cell gets one. The rest is blank.
std::string BarCells(const StageMeans& means, int length, int width);

// The cells of a bar that is longer than its `width`, of which each cell is `cell_ns`: what is
// short keeps its length, and each stage that is cut has "//" where its rest is left out.
std::string BrokenCells(const StageMeans& means, double cell_ns, int width);
inline constexpr std::string_view kBreakMark = "//";

// The same with each run of a letter on its stage's colour, other marks plain.
std::string ColoredCells(const std::string& cells);

// "  s process start  w weights\n": the stages whose letters stand in `bars`, in lines that are not
// wider than `columns` and not broken within a stage; "" when there is none.
std::string Legend(const std::vector<std::string>& bars, int columns, bool color);

// A row of marks, one per value in its order (or per group of them, its median, when there are more
// than `width`), from the least to the largest finite one. 'x' stands for a failure (infinite; in a
// group: when most are). Without `unicode` the eight levels are "_.:-=+*#".
std::string Sparkline(std::span<const double> values, int width, bool unicode);

// A span of cells in the stage's colour, or plain.
std::string PaintStage(const std::string& cells, results::Stage stage);

}  // namespace rouse::report
