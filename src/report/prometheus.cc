#include "report/prometheus.h"

#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/terminal_text.h"
#include "report/sample.h"
#include "report/words.h"
#include "stats/summary.h"

namespace rouse::report {
namespace {

using results::Attempt;

// A label's value: backslash, quote and line break are escaped, other controls replaced.
std::string LabelValue(const std::string& text) {
  std::string out;
  for (const CodePoint& each : CodePointsOf(text)) {
    if (each.value == '\n' && each.valid) {
      out += "\\n";
    } else if (!each.valid) {
      out += "\xef\xbf\xbd";
    } else if (each.value == '"' || each.value == '\\') {
      out += '\\';
      out += each.bytes;
    } else if (each.harmful) {
      out += "?";
    } else {
      out += each.bytes;
    }
  }
  return out;
}

using Labels = std::vector<std::pair<std::string, std::string>>;

// Collects samples by family: the format wants all of one family together.
class Families {
 public:
  void Declare(const std::string& name, const std::string& help) {
    order_.push_back(name);
    text_[name] = "# HELP " + name + " " + help + "\n# TYPE " + name + " gauge\n";
  }
  void Add(const std::string& name, const Labels& labels, double value) {
    std::string& text = text_[name];
    CHECK(!text.empty());
    text += name;
    for (size_t i = 0; i < labels.size(); ++i) {
      text += (i == 0 ? "{" : ",") + labels[i].first + "=\"" + LabelValue(labels[i].second) + "\"";
    }
    text += (labels.empty() ? " " : "} ") + PlainNumber(value) + "\n";
  }
  std::string Text() const {
    std::string out;
    for (const std::string& name : order_) out += text_.at(name);
    return out;
  }

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::string> text_;
};

void AddEstimate(Families& families, const std::string& name, const Labels& labels,
                 const stats::Estimate& estimate) {
  if (const std::optional<double> value = estimate.Value()) {
    families.Add(name, labels, *value / 1e9);
  }
}

void AddCondition(const ConditionAttempts& condition, Families& families) {
  const Labels labels = {{"condition", condition.name}};
  for (const auto& [outcome, count] : CountOutcomes(condition)) {
    families.Add(
        "rouse_attempts",
        {{"condition", condition.name}, {"outcome", std::string(results::OutcomeName(outcome))}},
        static_cast<double>(count));
  }
  const stats::SampleSummary summary =
      stats::Summarize(SampleOf(condition, *results::FindMetric("ttft_ns")).sample);
  AddEstimate(families, "rouse_ttft_median_seconds", labels, summary.median.value);
  AddEstimate(families, "rouse_ttft_median_low_seconds", labels, summary.median.low);
  AddEstimate(families, "rouse_ttft_median_high_seconds", labels, summary.median.high);
  AddEstimate(families, "rouse_ttft_p90_seconds", labels, summary.p90.value);
  AddEstimate(families, "rouse_ttft_p95_seconds", labels, summary.p95.value);
  AddEstimate(families, "rouse_ttft_max_seconds", labels, summary.max);
  for (int i = 0; i < results::kStageCount; ++i) {
    const std::string stage(results::StageName(static_cast<results::Stage>(i)));
    const stats::SampleSummary times = stats::Summarize(
        SampleOf(condition, *results::FindMetric("stage_" + stage + "_ns")).sample);
    AddEstimate(families, "rouse_stage_median_seconds",
                {{"condition", condition.name}, {"stage", stage}}, times.median.value);
  }
}

}  // namespace

std::string PrometheusText(const results::Run& run, std::span<const Attempt> attempts) {
  Families families;
  families.Declare("rouse_run_info", "The run that this file tells of; always 1.");
  families.Declare("rouse_run_number", "The number of the run.");
  families.Declare("rouse_run_start_timestamp_seconds", "When the run began.");
  families.Declare("rouse_run_complete", "1 when the run went to its end.");
  families.Declare("rouse_attempts", "Attempts by condition and outcome, failures included.");
  families.Declare("rouse_ttft_median_seconds",
                   "Median time to first token; failures rank after every success.");
  families.Declare("rouse_ttft_median_low_seconds", "Lower end of the median's 95 % interval.");
  families.Declare("rouse_ttft_median_high_seconds", "Upper end of the median's 95 % interval.");
  families.Declare("rouse_ttft_p90_seconds", "90th percentile of the time to first token.");
  families.Declare("rouse_ttft_p95_seconds", "95th percentile of the time to first token.");
  families.Declare("rouse_ttft_max_seconds", "Longest time to first token.");
  families.Declare("rouse_stage_median_seconds",
                   "Median of what the first token waited for, by stage.");
  families.Add("rouse_run_info",
               {{"name", run.name},
                {"kind", run.kind},
                {"target", run.target},
                {"model", run.model},
                {"plan_hash", run.plan_hash},
                {"rouse_version", run.rouse_version}},
               1);
  families.Add("rouse_run_number", {}, static_cast<double>(run.id.value_or(0)));
  families.Add("rouse_run_start_timestamp_seconds", {},
               static_cast<double>(run.started_wall_ns) / 1e9);
  families.Add("rouse_run_complete", {}, run.status == "complete" ? 1 : 0);
  for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
    AddCondition(condition, families);
  }
  return families.Text();
}

}  // namespace rouse::report
