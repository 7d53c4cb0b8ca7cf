#include "results/foreign_import.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/strings.h"

namespace rouse::results {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<ForeignFormat, std::string_view>, 5> kNames{{
    {ForeignFormat::kVllm, "vllm"},
    {ForeignFormat::kAiperf, "aiperf"},
    {ForeignFormat::kGuidellm, "guidellm"},
    {ForeignFormat::kLlamaBench, "llama-bench"},
    {ForeignFormat::kOllamaVerbose, "ollama-verbose"},
}};

constexpr double kNsPerSecond = 1e9;
constexpr double kNsPerMs = 1e6;
// int64 nanoseconds; anything longer is no time of a request.
constexpr double kLongestNs = 9e18;

Error Bad(const std::string& what) { return {ErrorCode::kUsage, what + "\nNothing was stored."}; }

const Json* Member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Number(const Json& object, std::string_view key) {
  const Json* const value = Member(object, key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->get<double>();
  return std::isfinite(number) ? std::optional<double>(number) : std::nullopt;
}

std::string Text(const Json& object, std::string_view key) {
  const Json* const value = Member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

std::optional<int64_t> Ns(std::optional<double> value, double ns_per_unit) {
  if (!value) return std::nullopt;
  const double ns = *value * ns_per_unit;
  if (!(ns >= 0) || ns > kLongestNs) return std::nullopt;
  return std::llround(ns);
}

std::optional<int64_t> Count(std::optional<double> value) { return Ns(value, 1); }

// The request's end and first token are all that these tools mark.
void SetTimes(std::optional<int64_t> ttft_ns, std::optional<int64_t> end_ns, Attempt& attempt) {
  attempt.marks.send_start = 0;
  attempt.ttft_ns = ttft_ns;
  attempt.marks.first_token = ttft_ns;
  attempt.marks.end = end_ns;
}

void Fail(std::string detail, Attempt& attempt) {
  attempt.outcome = Outcome::kStreamError;
  attempt.outcome_detail = std::move(detail);
  attempt.ttft_ns.reset();
  attempt.marks.first_token.reset();
}

constexpr std::string_view kNoMarks =
    "no marks of the connection, no stages, no states and no counters are in such a file; TTFT is "
    "that tool's own: from its send to its first chunk";

// ---- vLLM: `vllm bench serve --save-result --save-detailed` ----

const Json* Array(const Json& object, std::string_view key) {
  const Json* const value = Member(object, key);
  return value != nullptr && value->is_array() ? value : nullptr;
}

std::optional<double> At(const Json* array, size_t index) {
  if (array == nullptr || index >= array->size() || !(*array)[index].is_number()) {
    return std::nullopt;
  }
  return (*array)[index].get<double>();
}

std::optional<double> SumOf(const Json* arrays, size_t index) {
  if (arrays == nullptr || index >= arrays->size() || !(*arrays)[index].is_array()) {
    return std::nullopt;
  }
  double sum = 0;
  for (const Json& value : (*arrays)[index]) sum += value.is_number() ? value.get<double>() : 0;
  return sum;
}

Result<ForeignAttempts> ParseVllm(const Json& file, const std::string& condition) {
  const Json* const ttfts = Array(file, "ttfts");
  if (ttfts == nullptr || ttfts->empty()) {
    return Bad(
        "this vLLM result holds only means and percentiles, no single request; run vllm "
        "bench serve with --save-result --save-detailed");
  }
  const Json* const errors = Array(file, "errors");
  const Json* const itls = Array(file, "itls");
  ForeignAttempts result;
  for (size_t i = 0; i < ttfts->size(); ++i) {
    Attempt attempt;
    const std::string model = Text(file, "model_id");
    attempt.condition = !condition.empty() ? condition : model.empty() ? "vllm" : model;
    attempt.api = Text(file, "backend") == "openai-chat" ? "openai-chat" : "openai-completions";
    const std::optional<int64_t> ttft = Ns(At(ttfts, i), kNsPerSecond);
    const std::optional<int64_t> rest = Ns(SumOf(itls, i), kNsPerSecond);
    SetTimes(ttft, ttft && rest ? std::optional<int64_t>(*ttft + *rest) : std::nullopt, attempt);
    attempt.tokens.prompt = Count(At(Array(file, "input_lens"), i));
    attempt.tokens.completion = Count(At(Array(file, "output_lens"), i));
    const bool has_error = errors != nullptr && i < errors->size() && (*errors)[i].is_string() &&
                           !(*errors)[i].get<std::string>().empty();
    if (has_error) {
      Fail((*errors)[i].get<std::string>(), attempt);
    } else if (ttft.value_or(0) == 0) {
      // A failed request stands there as a time of 0.
      attempt.outcome = Outcome::kNoToken;
      SetTimes(std::nullopt, std::nullopt, attempt);
    }
    result.attempts.push_back(std::move(attempt));
  }
  result.remarks.emplace_back(kNoMarks);
  return result;
}

// ---- AIPerf: profile_export.jsonl, one record a line ----

// {"value": 12.5, "unit": "ms"}
std::optional<int64_t> MetricNs(const Json& metrics, std::string_view name) {
  const Json* const metric = Member(metrics, name);
  if (metric == nullptr) return std::nullopt;
  const std::string unit = Text(*metric, "unit");
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"ns", 1}, {"us", 1e3}, {"ms", kNsPerMs}, {"sec", kNsPerSecond}}};
  for (const auto& [word, ns] : kUnits) {
    if (unit == word || (word == "sec" && unit == "s")) return Ns(Number(*metric, "value"), ns);
  }
  return std::nullopt;
}

std::optional<int64_t> MetricCount(const Json& metrics, std::string_view name) {
  const Json* const metric = Member(metrics, name);
  return metric == nullptr ? std::nullopt : Count(Number(*metric, "value"));
}

Result<Attempt> AiperfAttempt(const Json& record, const std::string& condition) {
  const Json* const metadata = Member(record, "metadata");
  const Json* const metrics = Member(record, "metrics");
  if (metadata == nullptr || metrics == nullptr) return Bad("no AIPerf record");
  Attempt attempt;
  attempt.condition = condition.empty() ? "aiperf" : condition;
  attempt.prime = Text(*metadata, "benchmark_phase") == "warmup";
  attempt.started_wall_ns = Count(Number(*metadata, "request_start_ns"));
  SetTimes(MetricNs(*metrics, "time_to_first_token"), MetricNs(*metrics, "request_latency"),
           attempt);
  attempt.tokens.prompt = MetricCount(*metrics, "input_sequence_length");
  attempt.tokens.completion = MetricCount(*metrics, "output_sequence_length");
  const Json* const cancelled = Member(*metadata, "was_cancelled");
  if (const Json* const error = Member(record, "error")) {
    const std::string message = Text(*error, "message");
    Fail(message.empty() ? "AIPerf recorded an error" : message, attempt);
  } else if (cancelled != nullptr && cancelled->is_boolean() && cancelled->get<bool>()) {
    Fail("cancelled", attempt);
    attempt.outcome = Outcome::kInterrupted;
  } else if (!attempt.ttft_ns) {
    return Bad("a record has no time_to_first_token: AIPerf measures it only with --streaming");
  }
  return attempt;
}

Result<ForeignAttempts> ParseAiperf(std::string_view text, const std::string& condition) {
  ForeignAttempts result;
  int64_t line_number = 0;
  for (const std::string_view line : SplitAt(text, '\n')) {
    ++line_number;
    if (TrimBlanks(line).empty()) continue;
    const Json record = Json::parse(line, nullptr, false);
    Result<Attempt> attempt = AiperfAttempt(record, condition);
    if (!attempt.ok()) {
      return attempt.error().WithContext("line " + std::to_string(line_number));
    }
    result.attempts.push_back(*std::move(attempt));
  }
  if (result.attempts.empty()) return Bad("the file holds no AIPerf record");
  result.remarks.emplace_back(kNoMarks);
  return result;
}

// ---- GuideLLM: benchmarks.json ----

Attempt GuidellmAttempt(const Json& request, const std::string& condition) {
  Attempt attempt;
  attempt.condition = condition;
  SetTimes(Ns(Number(request, "time_to_first_token_ms"), kNsPerMs),
           Ns(Number(request, "request_latency"), kNsPerSecond), attempt);
  attempt.tokens.prompt = Count(Number(request, "prompt_tokens"));
  attempt.tokens.completion = Count(Number(request, "output_tokens"));
  attempt.started_wall_ns = Ns(Number(request, "request_start_time"), kNsPerSecond);
  if (!attempt.ttft_ns) attempt.outcome = Outcome::kNoToken;
  return attempt;
}

std::string StrategyOf(const Json& benchmark, size_t place) {
  for (const char* const holder : {"config", "args"}) {
    const Json* const config = Member(benchmark, holder);
    const Json* const strategy = config == nullptr ? nullptr : Member(*config, "strategy");
    if (strategy != nullptr && !Text(*strategy, "type_").empty()) {
      return "guidellm " + std::to_string(place + 1) + " " + Text(*strategy, "type_");
    }
  }
  return "guidellm " + std::to_string(place + 1);
}

Result<ForeignAttempts> ParseGuidellm(const Json& file, const std::string& condition) {
  ForeignAttempts result;
  const Json* const benchmarks = Array(file, "benchmarks");
  for (size_t i = 0; benchmarks != nullptr && i < benchmarks->size(); ++i) {
    const Json* const requests = Member((*benchmarks)[i], "requests");
    if (requests == nullptr) continue;
    const std::string name = condition.empty() ? StrategyOf((*benchmarks)[i], i) : condition;
    for (const auto& [status, outcome] :
         {std::pair("successful", Outcome::kOk), std::pair("errored", Outcome::kStreamError),
          std::pair("incomplete", Outcome::kInterrupted)}) {
      const Json* const list = Array(*requests, status);
      if (list == nullptr) continue;
      for (const Json& request : *list) {
        Attempt attempt = GuidellmAttempt(request, name);
        if (outcome != Outcome::kOk) {
          Fail(status, attempt);
          attempt.outcome = outcome;
        }
        result.attempts.push_back(std::move(attempt));
      }
    }
  }
  if (result.attempts.empty()) {
    return Bad(
        "this GuideLLM report holds no single requests, only their distributions; it stores "
        "them unless a sample of 0 requests was asked for");
  }
  result.remarks.emplace_back(kNoMarks);
  result.remarks.emplace_back("GuideLLM may store a sample of the requests only");
  return result;
}

// ---- llama-bench: -o json or -o jsonl ----

constexpr std::string_view kNoRequest =
    "llama-bench sends no request: a sample is the evaluation of a prompt in a process that is "
    "warm, "
    "so there is no first token; compare --metric stage_prefill";

Result<ForeignAttempts> ParseLlamaBench(std::string_view text, const std::string& condition) {
  Json tests = Json::parse(text, nullptr, false);
  if (tests.is_discarded()) {
    tests = Json::array();
    for (const std::string_view line : SplitAt(text, '\n')) {
      if (!TrimBlanks(line).empty()) tests.push_back(Json::parse(line, nullptr, false));
    }
  }
  if (tests.is_object()) tests = Json::array({tests});
  ForeignAttempts result;
  int64_t left_out = 0;
  int64_t tests_with_samples = 0;
  for (const Json& test : tests) {
    const Json* const samples = Array(test, "samples_ns");
    if (samples == nullptr) continue;
    ++tests_with_samples;
    const std::optional<int64_t> prompt = Count(Number(test, "n_prompt"));
    if (prompt.value_or(0) == 0 || Number(test, "n_gen").value_or(0) > 0) {
      left_out += static_cast<int64_t>(samples->size());
      continue;
    }
    for (size_t i = 0; i < samples->size(); ++i) {
      Attempt attempt;
      attempt.condition = !condition.empty()
                              ? condition
                              : Text(test, "model_type") + " pp" + std::to_string(*prompt);
      attempt.tokens.prompt = prompt;
      attempt.tokens.cached = 0;
      attempt.stages[static_cast<size_t>(Stage::kPrefill)] = {Ns(At(samples, i), 1),
                                                              StageSource::kServer};
      attempt.null_reasons["ttft_ns"] = std::string(kNoRequest);
      result.attempts.push_back(std::move(attempt));
    }
  }
  if (tests_with_samples == 0) {
    return Bad("this llama-bench file holds only means (avg_ns); -o json stores samples_ns");
  }
  if (result.attempts.empty()) {
    return Bad(
        "this llama-bench file holds generation tests only; they say nothing about a first "
        "token. Run it with -p N -n 0");
  }
  result.remarks.emplace_back(kNoRequest);
  if (left_out > 0) {
    result.remarks.push_back(std::to_string(left_out) +
                             " samples of tests that generate were left out");
  }
  return result;
}

// ---- ollama run --verbose ----

// "1m2.5s", "46.3ms", "128.1µs": Go's durations.
std::optional<int64_t> GoDuration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 7> kUnits{{{"ns", 1},
                                                                       {"us", 1e3},
                                                                       {"\xc2\xb5s", 1e3},
                                                                       {"ms", 1e6},
                                                                       {"s", 1e9},
                                                                       {"m", 60e9},
                                                                       {"h", 3600e9}}};
  double total = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    double number = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc() || number < 0) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(stop - text.data()));
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& each) {
      const std::string_view rest = text.substr(std::min(text.size(), each.first.size()));
      const bool ends = rest.empty() || (rest[0] >= '0' && rest[0] <= '9');
      return text.starts_with(each.first) && ends;
    });
    if (unit == kUnits.end()) return std::nullopt;
    text.remove_prefix(unit->first.size());
    total += number * unit->second;
  }
  return Ns(total, 1);
}

constexpr std::string_view kNoStamp =
    "ollama --verbose prints the server's durations, no time at which a token came; its load "
    "duration covers queue, start, weights and polling, so the sum is no TTFT either";

Result<ForeignAttempts> ParseOllama(std::string_view text, const std::string& condition) {
  ForeignAttempts result;
  Json server;
  const auto finish = [&]() {
    if (server.is_null()) return;
    Attempt& attempt = result.attempts.emplace_back();
    attempt.condition = condition.empty() ? "ollama" : condition;
    attempt.null_reasons["ttft_ns"] = std::string(kNoStamp);
    attempt.tokens.prompt = Count(Number(server, "prompt_eval_count"));
    attempt.tokens.completion = Count(Number(server, "eval_count"));
    attempt.marks.send_start = 0;
    attempt.marks.end = Count(Number(server, "total_duration"));
    attempt.stages[static_cast<size_t>(Stage::kPrefill)] = {
        Count(Number(server, "prompt_eval_duration")), StageSource::kServer};
    attempt.server_json = Json{{"timings", server}}.dump();
    server = nullptr;
  };
  for (const std::string_view line : SplitAt(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string key(TrimBlanks(line.substr(0, colon)));
    std::replace(key.begin(), key.end(), ' ', '_');
    std::string_view value = TrimBlanks(line.substr(colon + 1));
    constexpr std::array<std::string_view, 6> kKeys = {"total_duration",    "load_duration",
                                                       "prompt_eval_count", "prompt_eval_duration",
                                                       "eval_count",        "eval_duration"};
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) continue;
    if (key == "total_duration") finish();
    const std::optional<int64_t> number =
        key.ends_with("_count") ? ParseInt64(value.substr(0, value.find(' '))) : GoDuration(value);
    if (!number) return Bad("\"" + std::string(line) + "\" is no line of ollama --verbose");
    server[key] = *number;
  }
  finish();
  if (result.attempts.empty()) return Bad("no block of ollama --verbose lines was found");
  result.remarks.emplace_back(kNoStamp);
  return result;
}

}  // namespace

std::string_view ForeignFormatName(ForeignFormat format) {
  return kNames[static_cast<size_t>(format)].second;
}

std::optional<ForeignFormat> ForeignFormatFromName(std::string_view name) {
  for (const auto& [format, word] : kNames) {
    if (word == name) return format;
  }
  return std::nullopt;
}

std::vector<std::string_view> ForeignFormatNames() {
  std::vector<std::string_view> names;
  for (const auto& [format, word] : kNames) names.push_back(word);
  return names;
}

std::optional<ForeignFormat> DetectForeignFormat(std::string_view text) {
  const Json whole = Json::parse(text, nullptr, false);
  if (whole.is_object()) {
    if (Array(whole, "benchmarks") != nullptr) return ForeignFormat::kGuidellm;
    if (Number(whole, "mean_ttft_ms") || Array(whole, "ttfts") != nullptr) {
      return ForeignFormat::kVllm;
    }
  }
  Json first = whole;
  if (whole.is_array() && !whole.empty()) first = whole[0];
  if (whole.is_discarded()) {
    first = Json::parse(TrimBlanks(text.substr(0, text.find('\n'))), nullptr, false);
  }
  if (Number(first, "n_prompt") && Number(first, "avg_ns")) return ForeignFormat::kLlamaBench;
  if (Member(first, "metadata") != nullptr && Member(first, "metrics") != nullptr) {
    return ForeignFormat::kAiperf;
  }
  const bool ollama = text.find("total duration:") != std::string_view::npos &&
                      text.find("load duration:") != std::string_view::npos;
  return ollama ? std::optional<ForeignFormat>(ForeignFormat::kOllamaVerbose) : std::nullopt;
}

Result<ForeignAttempts> ParseForeign(ForeignFormat format, std::string_view text,
                                     const std::string& condition) {
  if (format == ForeignFormat::kAiperf) return ParseAiperf(text, condition);
  if (format == ForeignFormat::kLlamaBench) return ParseLlamaBench(text, condition);
  if (format == ForeignFormat::kOllamaVerbose) return ParseOllama(text, condition);
  const Json file = Json::parse(text, nullptr, false);
  if (!file.is_object()) {
    return Bad("this is no " + std::string(ForeignFormatName(format)) + " result: no JSON object");
  }
  return format == ForeignFormat::kVllm ? ParseVllm(file, condition)
                                        : ParseGuidellm(file, condition);
}

}  // namespace rouse::results
