// One attempt as text (declared in terminal.h): lanes on one axis, stages, layers, counters.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "base/units.h"
#include "report/terminal.h"
#include "report/terminal_bar.h"
#include "report/words.h"
#include "results/metrics.h"
#include "results/samples.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::Stage;

constexpr int kColumnsMin = 60;
constexpr int kNameColumns = 24;
constexpr int kTimeColumns = 11;
// With a longer answer the axis ends soon after the first token, which is what is looked for.
constexpr double kAxisBehindFirstToken = 1.5;

struct Span {
  int64_t start_ns;
  int64_t end_ns;
};

struct LaneRow {
  std::string name;
  int64_t time_ns = 0;  // the moment, of a mark; else what the spans last
  std::vector<Span> spans;
  char letter = '=';
  std::optional<Stage> stage;
};

int Columns(const TerminalOptions& options) { return std::max(options.columns, kColumnsMin); }

// The marks in order of time; those of one read share a row. Each span begins at the mark before.
std::vector<LaneRow> MarkRows(const results::Marks& marks) {
  std::vector<LaneRow> rows;
  const auto add = [&rows](std::string_view name, std::optional<int64_t> ns) {
    if (!ns) return;
    if (!rows.empty() && rows.back().time_ns == *ns && name != "end") {
      rows.back().name += ", " + std::string(name);
    } else {
      LaneRow row;
      row.name = name;
      row.time_ns = *ns;
      rows.push_back(std::move(row));
    }
  };
  add("connected", marks.connected);
  add("request sent", marks.request_sent);
  add("headers", marks.response_headers);
  add("first byte", marks.first_byte);
  add("first event", marks.first_event);
  add("first token", marks.first_token);
  if (marks.first_content != marks.first_token) add("first content", marks.first_content);
  if (marks.last_token != marks.first_token) add("last token", marks.last_token);
  add("end", marks.end);
  std::ranges::stable_sort(rows, {}, &LaneRow::time_ns);
  int64_t before = 0;
  for (LaneRow& row : rows) {
    row.spans = {{before, row.time_ns}};
    before = row.time_ns;
    // The last of the names is the one that counts.
    while (DisplayColumns(row.name) > kNameColumns && row.name.find(", ") != std::string::npos) {
      row.name.erase(0, row.name.find(", ") + 2);
    }
  }
  return rows;
}

std::vector<LaneRow> StageRows(const Attempt& attempt) {
  std::vector<LaneRow> rows;
  for (int i = 0; i < results::kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    LaneRow row;
    row.name = StageWords(stage);
    row.letter = StageLetter(stage);
    row.stage = stage;
    for (const results::Segment& segment : attempt.segments) {
      if (segment.stage == stage) row.spans.push_back({segment.start_ns, segment.end_ns});
    }
    // A start of the process lies before anything that the server can tell of itself.
    const std::optional<int64_t> ns = attempt.stages[static_cast<size_t>(i)].ns;
    if (stage == Stage::kProcessStart && row.spans.empty() && ns.value_or(0) > 0) {
      row.spans.push_back({0, *ns});
    }
    for (const Span& span : row.spans) row.time_ns += span.end_ns - span.start_ns;
    if (!row.spans.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<LaneRow> BackgroundRows(const Attempt& attempt) {
  std::vector<LaneRow> rows;
  std::map<std::string, size_t> places;
  std::vector<int64_t> counts;
  std::vector<std::optional<int64_t>> bytes;
  for (const results::Lane& lane : attempt.lanes) {
    const auto [place, is_new] = places.emplace(lane.name, rows.size());
    if (is_new) {
      rows.emplace_back().name = lane.name;
      rows.back().letter = '#';
      counts.push_back(0);
      bytes.emplace_back();
    }
    LaneRow& row = rows[place->second];
    row.spans.push_back({lane.start_ns, lane.end_ns});
    row.time_ns += lane.end_ns - lane.start_ns;
    ++counts[place->second];
    std::optional<int64_t>& sum = bytes[place->second];
    if (lane.bytes) sum = sum.value_or(0) + *lane.bytes;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string note;
    if (counts[i] > 1) note += " (" + std::to_string(counts[i]) + "x)";
    if (bytes[i]) note += " " + FormatBytes(*bytes[i]);
    rows[i].name = FitText(rows[i].name, kNameColumns - DisplayColumns(note)) + note;
  }
  return rows;
}

// What was sampled, as a level of 0 to 9 from each sample to the next.
struct LevelRow {
  std::string name;
  std::string total;
  std::vector<int64_t> at_ns;
  std::vector<int> levels;
};

// Growth of a total: of pressure as a share of the time, else of its own highest rate.
std::optional<LevelRow> GrowthRow(const results::Samples& samples, const std::string& metric,
                                  const std::string& name) {
  const auto column = samples.totals.find(metric);
  if (column == samples.totals.end() || !column->second.back()) return std::nullopt;
  LevelRow row{.name = name, .total = "", .at_ns = samples.at_ns, .levels = {}};
  const bool pressure = metric.starts_with("psi_");
  const int64_t all = *column->second.back();
  row.total = pressure                     ? FormatDuration(all * 1000)
              : metric.ends_with("_bytes") ? FormatBytes(all)
                                           : std::to_string(all);
  std::vector<double> rates;
  for (size_t i = 0; i + 1 < samples.at_ns.size(); ++i) {
    const auto& before = column->second[i];
    const auto& now = column->second[i + 1];
    const int64_t lasted_ns = samples.at_ns[i + 1] - samples.at_ns[i];
    const bool known = before && now && lasted_ns > 0;
    rates.push_back(known ? static_cast<double>(*now - *before) / static_cast<double>(lasted_ns)
                          : 0);
  }
  const double most = pressure ? 0.001 : *std::max_element(rates.begin(), rates.end());
  if (all <= 0 || most <= 0) return std::nullopt;
  for (const double rate : rates) {
    // Little is not nothing.
    const double level = std::clamp(std::ceil(9 * rate / most), 0.0, 9.0);
    row.levels.push_back(static_cast<int>(level));
  }
  return row;
}

std::vector<LevelRow> SampledRows(const Attempt& attempt) {
  std::vector<LevelRow> rows;
  if (attempt.samples_json.empty()) return rows;
  const Result<results::Samples> samples = results::ParseSamples(attempt.samples_json);
  if (!samples.ok() || samples->at_ns.size() < 2) return rows;
  if (!samples->page_cache.empty()) {
    LevelRow row{
        .name = "page cache of the file", .total = "", .at_ns = samples->at_ns, .levels = {}};
    double share = 0;
    for (const std::string& strip : samples->page_cache) {
      share = results::ResidentShare(strip);
      row.levels.push_back(static_cast<int>(std::ceil(9 * share)));
    }
    row.total = std::to_string(std::lround(100 * share)) + " %";
    rows.push_back(std::move(row));
  }
  for (const auto& [metric, name] :
       {std::pair("target_read_bytes", "reads"), std::pair("target_major_faults", "major faults"),
        std::pair("target_minor_faults", "minor faults"),
        std::pair("psi_io_some_us", "I/O pressure"),
        std::pair("psi_memory_some_us", "memory pressure"),
        std::pair("psi_cpu_some_us", "CPU pressure")}) {
    if (auto row = GrowthRow(*samples, metric, name)) rows.push_back(*std::move(row));
  }
  return rows;
}

// Maps nanoseconds to the cells of one axis and draws rows on it.
class Axis {
 public:
  Axis(int64_t end_ns, std::optional<int64_t> mark_ns, const TerminalOptions& options)
      : options_(options),
        width_(Columns(options) - kNameColumns - kTimeColumns - 5),
        end_ns_(std::max<int64_t>(1, end_ns)) {
    if (mark_ns) mark_ = std::min(Cell(*mark_ns), width_ - 1);
  }

  std::string Heading(const std::string& title) const {
    std::string scale(static_cast<size_t>(width_), ' ');
    scale[0] = '0';
    const std::string end = FormatDuration(end_ns_);
    scale.replace(scale.size() - end.size(), end.size(), end);
    if (mark_ && scale[static_cast<size_t>(*mark_)] == ' ')
      scale[static_cast<size_t>(*mark_)] = 'v';
    return PadRight(FitText(title, kNameColumns + kTimeColumns + 3),
                    kNameColumns + kTimeColumns + 4) +
           scale + "\n";
  }

  std::string Draw(const LaneRow& row) const {
    std::string cells(static_cast<size_t>(width_), ' ');
    for (const Span& span : row.spans) {
      const int from = std::min(Cell(span.start_ns), width_ - 1);
      const int to = std::min(std::max(Cell(span.end_ns), from + 1), width_);
      for (int i = from; i < to; ++i) cells[static_cast<size_t>(i)] = row.letter;
      // What goes on behind the axis says so.
      if (span.end_ns > end_ns_) cells.back() = '>';
    }
    std::string drawn;
    for (size_t i = 0; i < cells.size();) {
      size_t end = i;
      while (end < cells.size() && cells[end] == cells[i]) ++end;
      const std::string run = cells.substr(i, end - i);
      const bool painted = options_.color && row.stage && cells[i] == row.letter;
      drawn += painted ? PaintStage(run, *row.stage) : run;
      i = end;
    }
    return Line(row.name, FormatDuration(row.time_ns), drawn);
  }

  // A cell shows the highest level in it.
  std::string Draw(const LevelRow& row) const {
    std::vector<int> cells(static_cast<size_t>(width_), 0);
    for (size_t i = 0; i < row.levels.size(); ++i) {
      const int64_t end_ns = i + 1 < row.at_ns.size() ? row.at_ns[i + 1] : row.at_ns[i];
      if (row.at_ns[i] > end_ns_) break;
      const int from = std::min(Cell(row.at_ns[i]), width_ - 1);
      const int to = std::min(std::max(Cell(end_ns), from + 1), width_);
      for (int cell = from; cell < to; ++cell) {
        int& level = cells[static_cast<size_t>(cell)];
        level = std::max(level, row.levels[i]);
      }
    }
    std::string drawn;
    for (const int level : cells) {
      if (level == 0) {
        drawn += ' ';
      } else if (options_.unicode) {  // from one eighth of a block to a whole one
        drawn += "\xe2\x96";
        drawn += static_cast<char>(0x81 + (level - 1) * 7 / 8);
      } else {
        drawn += static_cast<char>('0' + level);
      }
    }
    return Line(row.name, row.total, drawn);
  }

 private:
  std::string Line(const std::string& name, const std::string& number,
                   const std::string& drawn) const {
    const std::string padded = PadLeft(number, kTimeColumns);
    const int columns = kNameColumns + kTimeColumns - DisplayColumns(padded);
    return "  " + PadRight(FitText(name, columns), columns) + padded + " " +
           (options_.unicode ? "\u2595" : "|") + drawn + (options_.unicode ? "\u258f" : "|") + "\n";
  }

  int Cell(int64_t ns) const {
    const double share =
        static_cast<double>(std::clamp<int64_t>(ns, 0, end_ns_)) / static_cast<double>(end_ns_);
    return static_cast<int>(share * width_);
  }

  const TerminalOptions& options_;
  int width_;
  int64_t end_ns_;
  std::optional<int> mark_;
};

int64_t AxisEnd(const Attempt& attempt, const std::vector<LaneRow>& marks) {
  int64_t end = marks.empty() ? 0 : marks.back().time_ns;
  for (const results::Segment& segment : attempt.segments) end = std::max(end, segment.end_ns);
  for (const results::Lane& lane : attempt.lanes) end = std::max(end, lane.end_ns);
  if (!attempt.ttft_ns || *attempt.ttft_ns <= 0) return end;
  const double limit = kAxisBehindFirstToken * static_cast<double>(*attempt.ttft_ns);
  return static_cast<double>(end) > limit ? std::llround(limit) : end;
}

std::string Dot(const TerminalOptions& options) { return options.unicode ? " \u00b7 " : " - "; }

std::string Headline(const Attempt& attempt) {
  std::string text;
  if (!attempt.ttft_ns) {
    text = "No first token: " + std::string(results::OutcomeName(attempt.outcome));
  } else {
    text = "First token after " + FormatDuration(*attempt.ttft_ns);
    if (!attempt.first_token_channel.empty()) text += " (" + attempt.first_token_channel + ")";
    if (attempt.ttfc_ns && attempt.ttfc_ns != attempt.ttft_ns) {
      text += ", visible answer after " + FormatDuration(*attempt.ttfc_ns);
    }
    if (attempt.outcome != results::Outcome::kOk) {
      text += "; then " + std::string(results::OutcomeName(attempt.outcome));
    }
    if (attempt.uncertainty_ns && *attempt.uncertainty_ns > 0) {
      text += ", give or take " + FormatDuration(*attempt.uncertainty_ns) +
              " (the server was tried again and again while it started)";
    }
  }
  return text + (attempt.outcome_detail.empty() ? "." : ": " + attempt.outcome_detail);
}

std::string StagesText(const Attempt& attempt, const TerminalOptions& options) {
  std::string out;
  int64_t sum = 0;
  std::vector<std::string> unknown;
  for (int i = 0; i < results::kStageCount; ++i) {
    const results::StageTime& time = attempt.stages[static_cast<size_t>(i)];
    const auto stage = static_cast<Stage>(i);
    if (!time.ns) unknown.emplace_back(StageWords(stage));
    sum += time.ns.value_or(0);
    if (time.ns.value_or(0) == 0) continue;
    out += "  " + PadRight(std::string(StageWords(stage)), 16) +
           PadLeft(FormatDuration(*time.ns), kTimeColumns);
    if (attempt.ttft_ns && *attempt.ttft_ns > 0) {
      const double share = static_cast<double>(*time.ns) / static_cast<double>(*attempt.ttft_ns);
      out += PadLeft(std::to_string(std::lround(share * 100)) + " %", 7);
    }
    if (time.source) out += "   from: " + std::string(results::StageSourceName(*time.source));
    out += "\n";
  }
  if (out.empty()) return "";
  const WrapOptions wrap{.columns = Columns(options), .indent = 2, .hanging = 2};
  if (attempt.ttft_ns) {
    out += WrapText(sum == *attempt.ttft_ns
                        ? "They add up to the TTFT exactly."
                        : "They add up to " + FormatDuration(sum) + ", which is not the TTFT.",
                    wrap);
  }
  if (!unknown.empty()) {
    std::string list;
    for (const std::string& name : unknown) list += (list.empty() ? "" : ", ") + name;
    out += WrapText("Not to be told: " + list + ".", wrap);
  }
  return "\nWhat the request waited for\n" + out;
}

std::string ReadingWords(const results::LayerReading& reading) {
  if (const double* const share = std::get_if<double>(&reading.value)) {
    return std::to_string(std::lround(*share * 100)) + " %";
  }
  const std::string* const word = std::get_if<std::string>(&reading.value);
  return word == nullptr ? "" : *word;
}

std::string LayersText(const Attempt& attempt, const TerminalOptions& options) {
  struct Moment {
    const results::LayerReadings* readings;
    const char* words;
  };
  const Moment moments[] = {{&attempt.state_before, "before"},
                            {&attempt.state_at_send, "at the send"},
                            {&attempt.state_after, "after"}};
  std::map<std::string, std::string> lines;
  for (const Moment& moment : moments) {
    for (const auto& [layer, reading] : *moment.readings) {
      const std::string value = ReadingWords(reading);
      if (value.empty()) continue;
      std::string& line = lines[layer];
      line += (line.empty() ? "" : ", ") + value + " " + moment.words;
    }
  }
  std::string out;
  for (auto& [layer, line] : lines) {
    std::string wanted;
    std::string proof;
    std::optional<bool> reached;
    for (const Moment& moment : moments) {
      const auto found = moment.readings->find(layer);
      if (found == moment.readings->end()) continue;
      if (!found->second.wanted.empty()) wanted = found->second.wanted;
      if (found->second.reached) {
        reached = reached.value_or(true) && *found->second.reached;
        proof = found->second.proof;
      }
    }
    if (!wanted.empty()) {
      line += "; wanted " + wanted +
              (!reached   ? ", not proved"
               : *reached ? ", proved"
                          : ", NOT REACHED");
    }
    if (!proof.empty()) line += " (" + proof + ")";
    std::string name = FitText(layer, 16);
    std::replace(name.begin(), name.end(), '_', ' ');
    std::string text = WrapText(line, {.columns = Columns(options), .indent = 20, .hanging = 20});
    out += "  " + PadRight(name, 18) + text.substr(20);
  }
  return out.empty() ? "" : "\nLayers, as they were read back\n" + out;
}

std::string CounterWords(const std::string& name, const results::MetricValue& value) {
  const double number = std::visit([](auto each) { return static_cast<double>(each); }, value);
  const results::Metric* const metric = results::FindMetric(name);
  return metric == nullptr ? PlainNumber(number) : MetricWords(number, *metric);
}

std::string CountersText(const Attempt& attempt, const TerminalOptions& options) {
  std::string out;
  std::string zeros;
  std::string unknown;
  for (const auto& [name, value] : attempt.counters) {
    if (!value) {
      const auto reason = attempt.null_reasons.find(name);
      unknown += (unknown.empty() ? "" : "; ") + name +
                 (reason == attempt.null_reasons.end() ? "" : " (" + reason->second + ")");
    } else if (std::visit([](auto each) { return static_cast<double>(each) == 0; }, *value)) {
      zeros += (zeros.empty() ? "" : ", ") + name;
    } else {
      out +=
          "  " + PadRight(FitText(name, 38), 38) + PadLeft(CounterWords(name, *value), 14) + "\n";
    }
  }
  const WrapOptions wrap{.columns = Columns(options), .indent = 2, .hanging = 4};
  if (!zeros.empty()) out += WrapText("Zero: " + zeros + ".", wrap);
  if (!unknown.empty()) out += WrapText("Not measured: " + unknown + ".", wrap);
  return out.empty() ? "" : "\nCounters during this attempt\n" + out;
}

}  // namespace

std::string RenderLanes(const Attempt& attempt, const TerminalOptions& options) {
  const std::vector<LaneRow> marks = MarkRows(attempt.marks);
  const std::vector<LaneRow> stages = StageRows(attempt);
  const std::vector<LaneRow> background = BackgroundRows(attempt);
  if (marks.empty() && stages.empty() && background.empty()) return "";
  const Axis axis(AxisEnd(attempt, marks), attempt.marks.first_token, options);
  std::string out;
  if (!marks.empty()) {
    out += axis.Heading(attempt.marks.first_token ? "Client: reached, at (v: first token)"
                                                  : "Client: reached, at");
  }
  for (const LaneRow& row : marks) out += axis.Draw(row);
  if (!stages.empty()) out += axis.Heading("Request: stage, time in it");
  for (const LaneRow& row : stages) out += axis.Draw(row);
  if (!background.empty()) out += axis.Heading("Beside it: work, time in it");
  for (const LaneRow& row : background) out += axis.Draw(row);
  const std::vector<LevelRow> sampled = SampledRows(attempt);
  if (!sampled.empty()) {
    out += axis.Heading(options.unicode ? "Sampled: in all, and when"
                                        : "Sampled: in all, when (9: most)");
  }
  for (const LevelRow& row : sampled) out += axis.Draw(row);
  return out;
}

std::string RenderAttempt(const results::Run& run, const Attempt& attempt,
                          const TerminalOptions& options) {
  const int columns = Columns(options);
  const WrapOptions wrap{.columns = columns, .indent = 0, .hanging = 2};
  const std::string name =
      std::to_string(run.id.value_or(0)) + "#" + std::to_string(attempt.id.value_or(0));
  std::string head = "Attempt " + name + Dot(options) + attempt.condition;
  if (attempt.block) head += Dot(options) + "block " + std::to_string(*attempt.block);
  if (attempt.position) head += Dot(options) + "place " + std::to_string(*attempt.position);
  if (attempt.prime) head += Dot(options) + "a prime, in no statistic";
  std::string out = WrapText(head, wrap);
  std::string answer = WrapText(Headline(attempt), wrap);
  out += options.color ? "\x1b[1m" + answer.substr(0, answer.size() - 1) + "\x1b[0m\n" : answer;
  const std::string lanes = RenderLanes(attempt, options);
  if (!lanes.empty()) out += "\n" + lanes;
  out +=
      StagesText(attempt, options) + LayersText(attempt, options) + CountersText(attempt, options);
  const WrapOptions item{.columns = columns, .indent = 2, .hanging = 4};
  if (!attempt.warnings.empty()) out += "\nWarnings\n";
  for (const results::Warning& warning : attempt.warnings) {
    out += WrapText(warning.code + ": " + warning.message, item);
  }
  if (!attempt.stream.faults.empty()) out += "\nFaults in the stream\n";
  for (const std::string& fault : attempt.stream.faults) out += WrapText(fault, item);
  const std::string flag =
      options.database_flag.empty() ? "" : " --db " + ShellQuoted(options.database_flag);
  return out + "\nNext:\n" +
         StepLines(
             {{"rouse explain " + name + flag, "the causes, and what was ruled out"},
              {"rouse report " + name + flag + " --trace attempt.json", "for ui.perfetto.dev"}},
             columns);
}

}  // namespace rouse::report
