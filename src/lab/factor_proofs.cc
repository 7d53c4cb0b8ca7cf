#include "lab/factor_proofs.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.h"
#include "lab/factors.h"
#include "lab/prompt_text.h"
#include "lab/targets.h"

namespace rouse::lab {
namespace {

using results::LayerReading;

// The first process of the server whose command line passes.
template <typename Passes>
std::optional<int> FindProcess(const std::vector<CommandLine>& lines, Passes passes) {
  for (const CommandLine& line : lines) {
    if (!line.words.empty() && passes(line.words)) return line.pid;
  }
  return std::nullopt;
}

bool Varies(const Plan& plan, bool (*is_default)(const Condition&)) {
  return !std::all_of(plan.conditions.begin(), plan.conditions.end(), is_default);
}

// Whether the word has the path: alone, or behind a sign that belongs to no path ("--model=PATH").
bool Names(const std::string& word, const std::string& path) {
  const size_t at = word.find(path);
  if (at == std::string::npos) return false;
  return at == 0 || std::string_view("=:\"' ").find(word[at - 1]) != std::string_view::npos;
}

std::string Member(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_integer() ? std::to_string(found->get<int64_t>()) : "";
}

// What the built-in server's state says in "layer_details" of a layer; empty for anything else.
nlohmann::json ToldLayer(const std::string& state_json, const char* layer) {
  const nlohmann::json json = nlohmann::json::parse(state_json, nullptr, false);
  if (!json.is_object() || Member(json, "schema") != "rouse.server_state/1") return {};
  if (!json.contains("models") || !json["models"].is_array() || json["models"].empty()) return {};
  const nlohmann::json& model = json["models"][0];
  if (!model.is_object() || !model.contains("layer_details")) return {};
  const nlohmann::json& details = model["layer_details"];
  const bool has = details.is_object() && details.contains(layer);
  return has && details[layer].is_object() ? details[layer] : nlohmann::json();
}

nlohmann::json ToldContext(const std::string& state_json) {
  return ToldLayer(state_json, "context");
}

std::optional<int64_t> Number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

// llama.cpp's names, long and short.
bool IsAboutKv(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 6> kFlags = {"--flash-attn", "-fa",  "--cache-type-k",
                                                      "-ctk",         "-ctv", "--cache-type-v"};
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& word) {
    return std::find(kFlags.begin(), kFlags.end(), word) != kFlags.end();
  });
}

Result<PrefixSize> ReadPrefixSize(StateContext& context, const Condition& condition) {
  const nlohmann::json told = ToldLayer(context.told_state, "prefix");
  if (told.is_object()) {
    const std::optional<int64_t> tokens = Number(told, "tokens");
    const std::optional<int64_t> bytes = Number(told, "bytes");
    if (tokens && bytes) return PrefixSize{.tokens = *tokens, .bytes = *bytes};
    return Error(ErrorCode::kUnsupported, "the server does not tell");
  }
  if (!IsAboutKv(condition.target_args)) {
    return Error(ErrorCode::kUnsupported,
                 "asked of this server in conditions about the KV cache only");
  }
  constexpr int64_t kPatienceNs = 30 * kNsPerSecond;
  return context.target.MeasurePrefix(context.clock.Now() + kPatienceNs);
}

// A simulated disk: whether that process's reads are limited as they should be.
void AddReadLimit(int pid, const os::ReadLimit& limit, LayerReading& reading) {
  const std::optional<int64_t> now = os::ReadLimitOf(os::ProcRoot::Real(), pid, limit.device);
  reading.proof += " and the limit of its control group";
  reading.detail += now ? ", simulated: its reads of " + limit.device + " are limited to " +
                              FormatBytes(*now) + "/s"
                        : ", but no limit is on its reads of " + limit.device;
  if (now != limit.bytes_per_second) reading.reached = false;
}

}  // namespace

void StoreToldMemory(const std::string& state_json, results::Attempt& attempt) {
  const nlohmann::json told = ToldContext(state_json);
  const auto bytes = told.is_object() ? told.find("kv_bytes") : told.end();
  std::optional<results::MetricValue>& counter = attempt.counters["target_kv_bytes"];
  if (told.is_object() && bytes != told.end() && bytes->is_number_integer()) {
    counter = results::MetricValue(bytes->get<int64_t>());
    return;
  }
  counter = std::nullopt;
  attempt.null_reasons["target_kv_bytes"] = "the server does not tell";
}

void StorePrefixSize(StateContext& context, const Condition& condition, results::Attempt& attempt) {
  std::optional<results::MetricValue>& bytes = attempt.counters["target_prefix_bytes"];
  std::optional<results::MetricValue>& tokens = attempt.counters["target_prefix_tokens"];
  const Result<PrefixSize> size = ReadPrefixSize(context, condition);
  if (size.ok()) {
    bytes = results::MetricValue(size->bytes);
    tokens = results::MetricValue(size->tokens);
    return;
  }
  bytes = tokens = std::nullopt;
  for (const char* const name : {"target_prefix_bytes", "target_prefix_tokens"}) {
    attempt.null_reasons[name] = size.error().message();
  }
}

bool HasRun(const std::vector<std::string>& words, const std::vector<std::string>& wanted) {
  return std::search(words.begin(), words.end(), wanted.begin(), wanted.end()) != words.end();
}

void AddLaunch(StateContext& context, const Condition& condition,
               results::LayerReadings& readings) {
  if (!RowOf(context.target.kind()).owns_process) return;
  const bool starting =
      condition.Value(Layer::kProcess) == "new" && !context.target.Identity().has_value();
  const std::vector<CommandLine> lines = context.target.CommandLines();
  if (Varies(context.plan, [](const Condition& each) { return each.target_args.empty(); })) {
    const std::vector<std::string> given = context.target.FilledIn(condition.target_args);
    LayerReading& reading = readings["target_args"];
    reading.wanted = ArgumentsText(condition.target_args);
    reading.proof = "/proc/PID/cmdline";
    if (starting) {
      reading.detail = "the server is started by the request";
    } else {
      const std::optional<int> pid = FindProcess(
          lines, [&](const std::vector<std::string>& words) { return HasRun(words, given); });
      const bool same = context.running_args == condition.target_args;
      reading.reached = pid && same;
      if (*reading.reached) reading.value = reading.wanted;
      reading.detail = pid ? "process " + std::to_string(*pid) + " was started with them"
                           : "no process of the server was started with them";
      if (pid && !same) reading.detail = "the server still runs with other arguments";
    }
  }
  if (Varies(context.plan, [](const Condition& each) { return each.path.empty(); })) {
    LayerReading& reading = readings["path"];
    reading.wanted = condition.path;
    reading.proof = "/proc/PID/cmdline";
    const std::string file = context.target.model_file();
    reading.detail = file;
    if (starting) return;
    const std::optional<int> pid = FindProcess(lines, [&](const std::vector<std::string>& words) {
      return std::any_of(words.begin(), words.end(),
                         [&](const std::string& word) { return Names(word, file); });
    });
    reading.reached = pid.has_value();
    if (pid) reading.value = condition.path;
    reading.detail += pid ? ", named to process " + std::to_string(*pid)
                          : ", which no process of the server was started with";
    if (pid && context.read_limit) AddReadLimit(*pid, *context.read_limit, reading);
  }
}

void AddToldArguments(const Condition& condition, const std::string& state_json,
                      results::LayerReadings& readings) {
  const auto found = readings.find("target_args");
  if (found == readings.end()) return;
  const nlohmann::json told = ToldContext(state_json);
  if (told.empty()) return;
  // Argument of `rouse serve` -> member of its state.
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kTold{
      {{"--threads", "threads"},
       {"--flash-attn", "flash_attention"},
       {"--cache-type-k", "cache_type_k"},
       {"--cache-type-v", "cache_type_v"},
       {"--context", "tokens"}}};
  LayerReading& reading = found->second;
  for (const auto& [flag, member] : kTold) {
    const auto at = std::find(condition.target_args.begin(), condition.target_args.end(), flag);
    if (at == condition.target_args.end() || at + 1 == condition.target_args.end()) continue;
    const std::string says = Member(told, member);
    // 0 threads or context and "auto" are for the server to choose.
    if (says.empty() || *(at + 1) == "0" || *(at + 1) == "auto") continue;
    if (says == *(at + 1)) {
      if (reading.proof.find("GET /state") == std::string::npos) reading.proof += " and GET /state";
      continue;
    }
    reading.reached = false;
    reading.detail = "the server's state says " + std::string(member) + " = " + says;
  }
}

void AddPromptTokens(const Condition& condition, const results::Attempt& attempt,
                     results::LayerReadings& readings) {
  if (!condition.prompt_tokens) return;
  LayerReading& reading = readings["prompt_tokens"];
  reading.wanted = std::to_string(*condition.prompt_tokens);
  if (!attempt.tokens.prompt) {
    reading.detail = "the server does not report the prompt's tokens";
    return;
  }
  const int64_t tokens = *attempt.tokens.prompt;
  const int64_t tolerance = PromptTolerance(*condition.prompt_tokens);
  reading.value = std::to_string(tokens);
  reading.proof = "prompt tokens of the answer";
  reading.reached = std::abs(tokens - *condition.prompt_tokens) <= tolerance;
  reading.detail = "within " + std::to_string(tolerance) + " tokens is reached";
}

}  // namespace rouse::lab
