#include "report/kv_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/terminal_text.h"
#include "base/units.h"
#include "report/plan_value.h"
#include "report/sample.h"
#include "results/metrics.h"
#include "stats/summary.h"

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;
using results::Attempt;

struct Answer {
  std::string sha256;
  std::optional<std::string> text;
};

std::string ArgumentsOf(const results::ConditionRow& row) {
  const auto found = row.state.find("target_args");
  return found == row.state.end() ? "" : found->second;
}

// llama.cpp's names, long and short.
bool IsAboutKv(const std::string& arguments) {
  constexpr std::array<const char*, 6> kFlags = {"\"--flash-attn\"", "\"-fa\"",
                                                 "\"-ctk\"",         "\"--cache-type-k\"",
                                                 "\"-ctv\"",         "\"--cache-type-v\""};
  return std::ranges::any_of(
      kFlags, [&](const char* flag) { return arguments.find(flag) != std::string::npos; });
}

std::optional<Answer> AnswerOf(const Attempt& attempt) {
  const Json extra = Json::parse(attempt.extra_json, nullptr, false);
  if (!extra.is_object() || !extra.contains("answer_sha256")) return std::nullopt;
  Answer answer;
  answer.sha256 = extra["answer_sha256"].get<std::string>();
  if (extra.contains("answer") && extra["answer"].is_string()) {
    answer.text = extra["answer"].get<std::string>();
  }
  return answer;
}

std::optional<double> MedianOfMetric(const std::vector<const Attempt*>& attempts,
                                     std::string_view name) {
  const results::Metric* const metric = results::FindMetric(name);
  if (metric == nullptr) return std::nullopt;
  std::vector<double> values;
  for (const Attempt* const attempt : attempts) {
    if (attempt->outcome != results::Outcome::kOk) continue;
    const std::optional<double> value = results::MetricOf(*attempt, *metric);
    if (value) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return stats::Median(values);
}

std::map<int64_t, Answer> AnswersOf(const std::vector<const Attempt*>& attempts) {
  std::map<int64_t, Answer> answers;
  for (const Attempt* const attempt : attempts) {
    if (attempt->outcome != results::Outcome::kOk || !attempt->block) continue;
    std::optional<Answer> answer = AnswerOf(*attempt);
    if (answer) answers[*attempt->block] = *std::move(answer);
  }
  return answers;
}

void Compare(const std::map<int64_t, Answer>& reference, const std::map<int64_t, Answer>& answers,
             KvRow& row) {
  std::vector<double> differences;
  for (const auto& [block, answer] : answers) {
    const auto other = reference.find(block);
    if (other == reference.end()) continue;
    ++row.compared;
    if (answer.sha256 == other->second.sha256) continue;
    ++row.changed;
    if (!answer.text || !other->second.text) continue;
    const auto [at, its] = std::ranges::mismatch(*answer.text, *other->second.text);
    differences.push_back(static_cast<double>(at - answer.text->begin()));
  }
  if (!differences.empty()) row.first_difference_bytes = stats::Median(differences);
}

std::string Bytes(const std::optional<double>& bytes) {
  return bytes ? FormatBytes(std::llround(*bytes)) : "-";
}

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

std::optional<KvSummary> SummarizeKv(const results::Run& run, std::span<const Attempt> attempts) {
  KvSummary summary;
  summary.same_prompts = PlanValue(run.plan_toml, "experiment.salt") == "block";
  std::map<int64_t, Answer> reference;
  for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
    const auto found =
        std::ranges::find(run.conditions, condition.name, &results::ConditionRow::name);
    if (found == run.conditions.end() || !IsAboutKv(ArgumentsOf(*found))) continue;
    KvRow row;
    row.condition = condition.name;
    row.arguments = ArgumentsOf(*found);
    row.n = std::ranges::count_if(condition.attempts, [](const Attempt* attempt) {
      return results::CountsInSample(attempt->outcome);
    });
    row.ttft_ns = MedianOfMetric(condition.attempts, "ttft_ns");
    row.rss_bytes = MedianOfMetric(condition.attempts, "target_rss_bytes");
    row.kv_bytes = MedianOfMetric(condition.attempts, "target_kv_bytes");
    row.prefix_bytes = MedianOfMetric(condition.attempts, "target_prefix_bytes");
    row.prefix_tokens = MedianOfMetric(condition.attempts, "target_prefix_tokens");
    const std::map<int64_t, Answer> answers = AnswersOf(condition.attempts);
    if (summary.reference.empty()) {
      summary.reference = condition.name;
      reference = answers;
    } else {
      Compare(reference, answers, row);
    }
    summary.rows.push_back(std::move(row));
  }
  if (summary.rows.size() < 2) return std::nullopt;
  return summary;
}

std::string KvText(const KvSummary& summary, const TerminalOptions& options) {
  constexpr int kBesideTheName = 61;  // the other columns
  std::string out = "\nKV cache: time, memory, and whether the greedy answers changed\n";
  const int widest = std::clamp(options.columns - kBesideTheName, 9, 24);
  int width = 9;
  for (const KvRow& row : summary.rows) {
    width = std::max(width, std::min(DisplayColumns(SafeText(row.condition)), widest));
  }
  const auto line = [&](const std::string& name, const std::array<std::string, 4>& cells,
                        const std::string& answers) {
    out += "  " + PadRight(FitText(name, width), width);
    for (const std::string& cell : cells) out += "  " + PadLeft(cell, 8);
    out += "  " + answers + "\n";
  };
  line("condition", {"TTFT", "memory", "KV cache", "prefix"}, "answers");
  std::optional<double> tokens;
  for (const KvRow& row : summary.rows) {
    std::string answers = "reference";
    if (row.condition != summary.reference) {
      answers = std::to_string(row.changed) + " of " + std::to_string(row.compared) + " changed";
      if (row.compared == 0 || !summary.same_prompts) answers = "not comparable";
    }
    if (!tokens) tokens = row.prefix_tokens;
    line(row.condition,
         {row.ttft_ns ? FormatDuration(std::llround(*row.ttft_ns)) : "-", Bytes(row.rss_bytes),
          Bytes(row.kv_bytes), Bytes(row.prefix_bytes)},
         answers);
    if (row.first_difference_bytes && summary.same_prompts) {
      out += WrapText("first difference after " +
                          std::to_string(std::llround(*row.first_difference_bytes)) +
                          " bytes of the answer (median)",
                      {.columns = options.columns, .indent = 6, .hanging = 6});
    }
  }
  if (tokens) {
    out += WrapText("prefix: what the KV of the prompt and its answer (" +
                        std::to_string(std::llround(*tokens)) +
                        " tokens) takes when it is kept, in memory or as a file",
                    {.columns = options.columns, .indent = 2, .hanging = 4});
  }
  if (!summary.same_prompts) {
    out += WrapText("Answers can be compared when the plan says salt = \"block\".",
                    {.columns = options.columns, .indent = 2, .hanging = 4});
  }
  return out;
}

std::string KvJson(const KvSummary& summary) {
  Json rows = Json::array();
  for (const KvRow& row : summary.rows) {
    const bool compares = summary.same_prompts && row.compared > 0;
    rows.push_back({{"condition", row.condition},
                    {"target_args", row.arguments},
                    {"n", row.n},
                    {"ttft_ns", OrNull(row.ttft_ns)},
                    {"target_rss_bytes", OrNull(row.rss_bytes)},
                    {"target_kv_bytes", OrNull(row.kv_bytes)},
                    {"target_prefix_bytes", OrNull(row.prefix_bytes)},
                    {"target_prefix_tokens", OrNull(row.prefix_tokens)},
                    {"answers_compared", row.compared},
                    {"answers_changed", compares ? Json(row.changed) : Json()},
                    {"first_difference_bytes", OrNull(row.first_difference_bytes)}});
  }
  const Json json = {
      {"reference", summary.reference}, {"same_prompts", summary.same_prompts}, {"rows", rows}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rouse::report
