#include "server/completion_response.h"

#include <array>
#include <optional>
#include <random>

#include "base/time.h"
#include "server/json_text.h"

namespace rouse::server {
namespace {

constexpr std::string_view kFingerprint = "rouse-" ROUSE_VERSION;

std::string Quoted(std::string_view text) { return Dump(Json(text)); }

Json UsageJson(const engine::GenerateReport& report) {
  return {{"prompt_tokens", report.prompt_tokens},
          {"completion_tokens", report.generated_tokens},
          {"total_tokens", report.prompt_tokens + report.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", report.cached_tokens}}}};
}

// A rate that is not known, because there was nothing or no time to divide by, is null.
Json Ratio(double numerator, double denominator) {
  return denominator > 0 ? Json(numerator / denominator) : Json();
}

// llama-server's words: prompt_n counts the tokens that were computed, without the cached ones.
Json TimingsJson(const engine::GenerateReport& report) {
  const int64_t computed = report.prompt_tokens - report.cached_tokens;
  std::optional<double> prompt_ms;
  std::optional<double> predicted_ms;
  if (report.prefill_end) {
    prompt_ms = static_cast<double>(*report.prefill_end - report.prefill_start) / kNsPerMs;
    predicted_ms = static_cast<double>(report.end - *report.prefill_end) / kNsPerMs;
  }
  const auto prompt_n = static_cast<double>(computed);
  const auto predicted_n = static_cast<double>(report.generated_tokens);
  Json timings = {{"cache_n", report.cached_tokens}, {"prompt_n", computed}};
  timings["prompt_ms"] = prompt_ms ? Json(*prompt_ms) : Json();
  timings["prompt_per_token_ms"] = Ratio(prompt_ms.value_or(0), prompt_n);
  timings["prompt_per_second"] = Ratio(prompt_n * 1000, prompt_ms.value_or(0));
  timings["predicted_n"] = report.generated_tokens;
  timings["predicted_ms"] = predicted_ms ? Json(*predicted_ms) : Json();
  timings["predicted_per_token_ms"] = Ratio(predicted_ms.value_or(0), predicted_n);
  timings["predicted_per_second"] = Ratio(predicted_n * 1000, predicted_ms.value_or(0));
  return timings;
}

void AddRouse(Json& object, const AnswerEnd& end) {
  object["timings"] = TimingsJson(end.report);
  if (!end.timeline_json.empty()) object["rouse"] = Json::parse(end.timeline_json);
}

std::string RandomId() {
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::uniform_int_distribution<size_t> pick(0, kLetters.size() - 1);
  std::string id;
  for (int count = 0; count < 24; ++count) id += kLetters[pick(random)];
  return id;
}

}  // namespace

AnswerIdentity MakeIdentity(CompletionKind kind, std::string model) {
  const std::string prefix = kind == CompletionKind::kChat ? "chatcmpl-" : "cmpl-";
  return {kind, prefix + RandomId(), std::move(model), WallNowNs() / kNsPerSecond};
}

std::string_view FinishReason(engine::StopReason reason) {
  return reason == engine::StopReason::kLength ? "length" : "stop";
}

AnswerFormat::AnswerFormat(AnswerIdentity identity, bool include_usage)
    : identity_(std::move(identity)), include_usage_(include_usage) {
  const bool chat = identity_.kind == CompletionKind::kChat;
  before_ = "{\"id\":" + Quoted(identity_.id) + ",\"object\":\"" +
            (chat ? "chat.completion.chunk" : "text_completion") +
            "\",\"created\":" + std::to_string(identity_.created_s) +
            ",\"model\":" + Quoted(identity_.model) + ",\"system_fingerprint\":\"" +
            std::string(kFingerprint) + "\",\"choices\":[";
  // With include_usage, every event but the last says that it has none.
  behind_ = include_usage_ ? "],\"usage\":null}" : "]}";
}

std::string AnswerFormat::Event(std::string_view choice_json) const {
  std::string event = "data: ";
  event += before_;
  event += choice_json;
  event += behind_;
  event += "\n\n";
  return event;
}

std::string AnswerFormat::Choice(std::string_view payload_json,
                                 std::string_view finish_json) const {
  std::string choice = "{\"index\":0,";
  choice += identity_.kind == CompletionKind::kChat ? "\"delta\":" : "\"text\":";
  choice += payload_json;
  choice += ",\"logprobs\":null,\"finish_reason\":";
  choice += finish_json;
  choice += '}';
  return choice;
}

std::string AnswerFormat::Opening() const {
  if (identity_.kind != CompletionKind::kChat) return "";
  return Event(Choice(R"({"role":"assistant","content":""})", "null"));
}

std::string AnswerFormat::Text(std::string_view text) const {
  const std::string quoted = Quoted(text);
  if (identity_.kind != CompletionKind::kChat) return Event(Choice(quoted, "null"));
  return Event(Choice("{\"content\":" + quoted + "}", "null"));
}

std::string AnswerFormat::Closing(const AnswerEnd& end) const {
  const bool chat = identity_.kind == CompletionKind::kChat;
  const std::string finish = Quoted(FinishReason(end.report.stop_reason));
  const std::string choice = Choice(chat ? "{}" : "\"\"", finish);
  std::string events;
  Json last;
  if (include_usage_) {
    events = Event(choice);
    last = Json::parse(before_ + "]}");
    last["usage"] = UsageJson(end.report);
  } else {
    last = Json::parse(before_ + choice + "]}");
  }
  AddRouse(last, end);
  return events + "data: " + Dump(last) + "\n\ndata: [DONE]\n\n";
}

std::string AnswerFormat::Whole(std::string_view text, const AnswerEnd& end) const {
  const bool chat = identity_.kind == CompletionKind::kChat;
  Json choice = {{"index", 0}};
  if (chat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = FinishReason(end.report.stop_reason);
  Json whole = {{"id", identity_.id},
                {"object", chat ? "chat.completion" : "text_completion"},
                {"created", identity_.created_s},
                {"model", identity_.model},
                {"system_fingerprint", kFingerprint},
                {"choices", Json::array({std::move(choice)})},
                {"usage", UsageJson(end.report)}};
  AddRouse(whole, end);
  return Dump(whole);
}

}  // namespace rouse::server
