// The data of the report page, `rouse.page/1` (web/README.md): the report's JSON as it is, and the
// attempts as columns, because ten thousand of them as objects would take a browser seconds.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <future>
#include <map>
#include <nlohmann/json.hpp>

#include "base/time.h"
#include "explain/explain.h"
#include "report/html.h"
#include "report/json.h"
#include "report/page_pack.h"
#include "report/sample.h"
#include "report/terminal_bar.h"
#include "results/json.h"
#include "results/metrics.h"

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;
using results::Attempt;
using results::Metric;
using results::Run;

// A block of details is unpacked when one of its attempts is opened: 10 ms of work.
constexpr size_t kDetailsPerBlock = 200;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json CatalogueJson() {
  Json out = Json::array();
  for (const Metric& metric : results::Metrics()) {
    out.push_back({{"name", metric.name},
                   {"unit", metric.unit},
                   {"home", results::MetricHomeName(metric.home)},
                   {"summary", metric.summary}});
  }
  return out;
}

Json StageListJson() {
  Json out = Json::array();
  for (int index = 0; index < results::kStageCount; ++index) {
    const auto stage = static_cast<results::Stage>(index);
    out.push_back({{"name", results::StageName(stage)},
                   {"letter", std::string(1, StageLetter(stage))},
                   {"words", StageWords(stage)}});
  }
  return out;
}

// A column of numbers is text at once: a JSON value for each of a million costs a second.
void AppendNumber(const std::optional<double>& value, std::string& out) {
  if (!value || !std::isfinite(*value)) {
    out += "null";
    return;
  }
  std::array<char, 24> digits{};
  if (std::floor(*value) == *value && std::abs(*value) < 9e15) {
    const auto end = std::to_chars(digits.begin(), digits.end(), static_cast<int64_t>(*value)).ptr;
    out.append(digits.data(), end);
  } else {
    out += Json(*value).dump();
  }
}

// `value_of(attempt)` is a number or an optional one.
template <typename ValueOf>
std::string Column(std::span<const Attempt> attempts, const ValueOf& value_of) {
  std::string out = "[";
  for (const Attempt& attempt : attempts) {
    if (out.size() > 1) out += ',';
    const auto value = value_of(attempt);
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      out += std::to_string(value);
    } else {
      AppendNumber(value, out);
    }
  }
  return out + "]";
}

std::optional<double> Real(const std::optional<int64_t>& value) {
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

// Names, each once, with its place.
class NameList {
 public:
  size_t PlaceOf(const std::string& name) {
    const auto [row, is_new] = places_.emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return row->second;
  }
  Json Names() const { return names_; }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::string> names_;
};

using Numbers = std::vector<std::optional<double>>;

// All counters by name, in one walk through the attempts; those that nobody measured are left out.
std::map<std::string_view, Numbers> CounterColumns(std::span<const Attempt> attempts) {
  std::map<std::string_view, Numbers> columns;
  for (size_t index = 0; index < attempts.size(); ++index) {
    for (const auto& [name, value] : attempts[index].counters) {
      if (!value) continue;
      Numbers& column = columns[name];
      if (column.empty()) column.resize(attempts.size());
      column[index] = std::visit([](auto number) { return static_cast<double>(number); }, *value);
    }
  }
  return columns;
}

// {"ttft_ns": [...], ...}: the metrics that any attempt has, counters of imports included.
std::string ValuesText(std::span<const Attempt> attempts) {
  std::string out = "{";
  const auto add = [&out](std::string_view name, const Numbers& column) {
    out += (out.size() > 1 ? ",\n" : "\n") + Dump(name) + ":[";
    for (size_t index = 0; index < column.size(); ++index) {
      if (index > 0) out += ',';
      AppendNumber(column[index], out);
    }
    out += ']';
  };
  const std::map<std::string_view, Numbers> counters = CounterColumns(attempts);
  for (const Metric& metric : results::Metrics()) {
    if (metric.home == results::MetricHome::kCounter) {
      const auto column = counters.find(metric.name);
      if (column != counters.end()) add(metric.name, column->second);
      continue;
    }
    Numbers column;
    column.reserve(attempts.size());
    for (const Attempt& attempt : attempts) column.push_back(results::MetricOf(attempt, metric));
    const bool any =
        std::any_of(column.begin(), column.end(),
                    [](const std::optional<double>& value) { return value.has_value(); });
    if (any) add(metric.name, column);
  }
  for (const auto& [name, column] : counters) {
    if (results::FindMetric(name) == nullptr) add(name, column);
  }
  return out + "}";
}

std::string DetailsText(std::span<const Attempt> attempts) {
  std::string out = "[";
  for (size_t from = 0; from < attempts.size(); from += kDetailsPerBlock) {
    std::string block = "[";
    for (const Attempt& attempt :
         attempts.subspan(from, std::min(kDetailsPerBlock, attempts.size() - from))) {
      if (block.size() > 1) block += ",\n";
      block += results::AttemptJson(attempt);
    }
    out += (from > 0 ? ",\n\"" : "\n\"") + GzipBase64(block + "]") + "\"";
  }
  return out + "]";
}

// `details`: what DetailsText gives, asked for at the end; null for attempts without.
std::string AttemptsText(const Run& run, std::span<const Attempt> attempts,
                         std::future<std::string>* details) {
  NameList conditions;
  NameList outcomes;
  NameList layers;
  for (const results::ConditionRow& row : run.conditions) conditions.PlaceOf(row.name);
  Json details_of_outcome = Json::object();
  for (size_t index = 0; index < attempts.size(); ++index) {
    const std::string& words = attempts[index].outcome_detail;
    if (!words.empty()) details_of_outcome[std::to_string(index)] = words;
  }
  const auto cold_of = [&](const Attempt& attempt) {
    uint64_t bits = 0;
    for (const std::string& layer : explain::ColdLayers(attempt)) {
      bits |= uint64_t{1} << layers.PlaceOf(layer);
    }
    return bits;
  };
  std::string columns;
  const auto add = [&](const char* name, const std::string& column) {
    columns += std::string(",\n\"") + name + "\":" + column;
  };
  add("id", Column(attempts, [](const Attempt& attempt) { return Real(attempt.id); }));
  add("condition", Column(attempts, [&](const Attempt& attempt) {
        return conditions.PlaceOf(attempt.condition);
      }));
  add("outcome", Column(attempts, [&](const Attempt& attempt) {
        return outcomes.PlaceOf(std::string(results::OutcomeName(attempt.outcome)));
      }));
  add("prime", Column(attempts, [](const Attempt& attempt) { return attempt.prime ? 1 : 0; }));
  add("cold", Column(attempts, cold_of));
  add("block", Column(attempts, [](const Attempt& attempt) { return Real(attempt.block); }));
  add("position", Column(attempts, [](const Attempt& attempt) { return Real(attempt.position); }));
  add("outcome_detail", Dump(details_of_outcome));
  add("values", ValuesText(attempts));
  if (details != nullptr) {
    add("details_per", std::to_string(kDetailsPerBlock));
    add("details", details->get());
  }
  return "{\"n\":" + std::to_string(attempts.size()) +
         ",\n\"conditions\":" + Dump(conditions.Names()) +
         ",\n\"outcomes\":" + Dump(outcomes.Names()) +
         ",\n\"cold_layers\":" + Dump(layers.Names()) + columns + "}";
}

std::string Head(const char* kind) {
  return std::string("{\"schema\":\"rouse.page/1\",\n\"kind\":\"") + kind +
         "\",\n\"catalogue\":" + Dump(CatalogueJson()) + ",\n\"stages\":" + Dump(StageListJson());
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string SideText(const PageSide& side) {
  const Run& run = *side.run;
  Json head = {{"run", run.id ? Json(*run.id) : Json()},
               {"name", run.name},
               {"target", TextOrNull(run.target)},
               {"model", TextOrNull(run.model)},
               {"started", FormatWallTime(run.started_wall_ns)},
               {"plan_hash", TextOrNull(run.plan_hash)},
               {"environment", run.environment}};
  std::string text = Dump(head);
  text.pop_back();
  return text + ",\n\"attempts\":" + AttemptsText(run, side.attempts, nullptr) + "}";
}

}  // namespace

std::string PageJson(const Run& run, const std::vector<Attempt>& attempts) {
  // The details are half of the work, and read the attempts only, as all of the rest does: beside
  // it, or, where no thread can be had, when they are asked for.
  std::future<std::string> details = std::async(std::launch::async | std::launch::deferred,
                                                [&attempts] { return DetailsText(attempts); });
  const auto explained = explain::ExplainRun(run, attempts);
  std::string head = Head("run") + ",\n\"report\":" + ReportJson(run, attempts, false) +
                     ",\n\"explanation\":" +
                     (explained.ok() ? explain::ExplanationJson(*explained) : std::string("null")) +
                     ",\n\"plan_toml\":" + Dump(TextOrNull(run.plan_toml)) + ",\n\"attempts\":";
  return head + AttemptsText(run, attempts, &details) + "}";
}

std::string ComparisonPageJson(const std::vector<Comparison>& comparisons,
                               const std::vector<std::string>& only_treatment,
                               const std::vector<std::string>& only_control,
                               const std::vector<PageSide>& sides) {
  std::string text = Head("comparison") + ",\n\"comparison\":" +
                     ComparisonsJson(comparisons, only_treatment, only_control) + ",\n\"sides\":[";
  for (size_t index = 0; index < sides.size(); ++index) {
    text += (index > 0 ? ",\n" : "") + SideText(sides[index]);
  }
  return text + "]}";
}

}  // namespace rouse::report
