#include "wire/apis.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "wire/json_read.h"

namespace rouse::wire {
namespace {

std::optional<int64_t> First(std::optional<int64_t> first, std::optional<int64_t> second) {
  return first ? first : second;
}

// ---- What all APIs share: text, errors, usage, timings ------------------------------------------

void AddContent(const Json& value, EventFacts& facts) {
  const size_t before = facts.content.size();
  AppendText(value, facts.content);
  facts.has_content = facts.has_content || facts.content.size() > before;
}

void AddReasoning(const Json& value, EventFacts& facts) {
  const size_t before = facts.reasoning.size();
  AppendText(value, facts.reasoning);
  facts.has_reasoning = facts.has_reasoning || facts.reasoning.size() > before;
}

// A visible answer in parts (Mistral): parts of type "thinking" are reasoning.
void AddContentParts(const Json& value, EventFacts& facts) {
  if (!value.is_array()) return AddContent(value, facts);
  for (const Json& part : value) {
    const std::string_view type = TextAt(part, "type");
    if (type == "thinking" || type == "reasoning") {
      AddReasoning(part, facts);
    } else {
      AddContent(part, facts);
    }
  }
}

void ReadError(const Json& event, EventFacts& facts) {
  const Json& error = At(event, "error");
  if (!IsEmptyValue(error)) {
    facts.error = MessageOf(error);
  } else if (TextAt(event, "object") == "error" || TextAt(event, "type") == "error") {
    facts.error = MessageOf(event);
  }
}

void ReadUsage(const Json& usage, EventFacts& facts) {
  if (!usage.is_object() || usage.empty()) return;
  facts.usage_json = Dump(usage);
  const auto at = [&usage](std::string_view name) { return Count(At(usage, name)); };
  const auto detail = [&usage](std::string_view name) {
    return Count(At(At(usage, name), "cached_tokens"));
  };
  facts.completion_tokens = First(at("completion_tokens"), at("output_tokens"));
  facts.cached_tokens =
      First(First(detail("prompt_tokens_details"), detail("input_tokens_details")),
            First(at("prompt_cache_hit_tokens"), at("cache_read_input_tokens")));
  facts.prompt_tokens = First(at("prompt_tokens"), at("input_tokens"));
}

// llama-server's `timings`: kept as they are. cache_n and prompt_n are disjoint parts of the
// prompt.
void ReadTimings(const Json& event, EventFacts& facts) {
  const Json& timings = At(event, "timings");
  if (!timings.is_object() || timings.empty()) return;
  facts.timings_json = Dump(timings);
  const std::optional<int64_t> cached = Count(At(timings, "cache_n"));
  const std::optional<int64_t> processed = Count(At(timings, "prompt_n"));
  const std::optional<int64_t> predicted = Count(At(timings, "predicted_n"));
  if (cached) facts.cached_tokens = cached;
  if (cached && processed) facts.prompt_tokens = First(facts.prompt_tokens, *cached + *processed);
  facts.completion_tokens = First(facts.completion_tokens, predicted);
  facts.tokens_so_far = First(facts.tokens_so_far, predicted);
}

void ReadShared(const Json& event, EventFacts& facts) {
  ReadError(event, facts);
  const Json& usage = At(event, "usage");
  ReadUsage(usage, facts);
  facts.tokens_so_far = Count(At(usage, "completion_tokens"));
  ReadTimings(event, facts);
  const Json& rouse = At(event, "rouse");
  if (rouse.is_object()) facts.rouse_json = Dump(rouse);
}

void Finish(std::string_view reason, EventFacts& facts) {
  facts.finish = true;
  facts.finish_reason = reason;
}

// ---- OpenAI chat and completions ----------------------------------------------------------------

// A piece of a tool call that holds nothing generated (an index, empty strings) is no token.
bool HasToolCall(const Json& calls) {
  if (calls.is_array()) return std::ranges::any_of(calls, HasToolCall);
  if (!calls.is_object()) return false;
  const Json& function = At(calls, "function");
  const Json& arguments = At(function, "arguments");
  return !TextAt(calls, "id").empty() || !TextAt(calls, "name").empty() ||
         !TextAt(calls, "arguments").empty() || !TextAt(calls, "input").empty() ||
         !TextAt(function, "name").empty() || !Text(arguments).empty() || arguments.is_object() ||
         HasToolCall(At(calls, "custom"));
}

void ReadDelta(const Json& delta, EventFacts& facts) {
  AddContentParts(At(delta, "content"), facts);
  AddContent(At(delta, "refusal"), facts);
  AddContent(At(At(delta, "audio"), "transcript"), facts);
  // The same text often comes under two names at once; only whether there is any matters.
  for (const std::string_view name :
       {"reasoning_content", "reasoning", "reasoning_details", "thinking"}) {
    if (!facts.has_reasoning) AddReasoning(At(delta, name), facts);
  }
  facts.has_tool_call = facts.has_tool_call || HasToolCall(At(delta, "tool_calls")) ||
                        HasToolCall(At(delta, "function_call"));
}

void ReadChoice(const Json& choice, EventFacts& facts) {
  ReadDelta(At(choice, "delta"), facts);
  AddContent(At(choice, "text"), facts);
  const Json& token_ids = At(choice, "token_ids");
  const Json& logprobs = At(At(choice, "logprobs"), "content");
  if (token_ids.is_array() && !token_ids.empty()) {
    facts.tokens = facts.tokens.value_or(0) + static_cast<int64_t>(token_ids.size());
  } else if (logprobs.is_array() && !logprobs.empty()) {
    facts.tokens = facts.tokens.value_or(0) + static_cast<int64_t>(logprobs.size());
  }
  EventFacts message;
  ReadDelta(At(choice, "message"), message);
  facts.whole_answer = facts.whole_answer || (message.IsToken() && !facts.IsToken());
  const std::string_view reason = TextAt(choice, "finish_reason");
  if (!reason.empty()) Finish(reason, facts);
  const Json& error = At(choice, "error");
  if (!IsEmptyValue(error)) {
    facts.error = MessageOf(error);
  } else if (reason == "error" && !facts.error) {
    facts.error = "finish_reason \"error\"";
  }
}

void ReadOpenAi(std::string_view /*type*/, const Json& event, EventFacts& facts) {
  const Json& choices = At(event, "choices");
  if (!choices.is_array()) return;
  for (const Json& choice : choices) ReadChoice(choice, facts);
}

bool IsOpenAiAnswer(const Json& body) { return At(body, "choices").is_array(); }

// ---- OpenAI responses ---------------------------------------------------------------------------

void ReadResponseEnd(std::string_view type, const Json& response, EventFacts& facts) {
  ReadUsage(At(response, "usage"), facts);
  facts.end = true;
  const std::string_view why = TextAt(At(response, "incomplete_details"), "reason");
  Finish(why.empty() ? type.substr(type.rfind('.') + 1) : why, facts);
  if (type == "response.failed") {
    facts.error = MessageOf(At(response, "error"));
  }
  const Json& output = At(response, "output");
  if (!output.is_array()) return;
  for (const Json& item : output) {
    std::string text;
    AppendText(At(item, "content"), text);
    facts.whole_answer = facts.whole_answer || !text.empty() || !TextAt(item, "name").empty();
  }
}

void ReadResponses(std::string_view event_type, const Json& event, EventFacts& facts) {
  std::string_view type = TextAt(event, "type");
  if (type.empty()) type = event_type;
  const Json& delta = At(event, "delta");
  if (type == "response.output_text.delta" || type == "response.refusal.delta" ||
      type == "response.output_audio_transcript.delta" ||
      type == "response.audio.transcript.delta") {
    AddContent(delta, facts);
  } else if (type.starts_with("response.reasoning") && type.ends_with(".delta")) {
    AddReasoning(delta, facts);
  } else if (type.starts_with("response.") && type.ends_with(".delta")) {
    // Arguments of a function or MCP call, code for an interpreter: other output of the model.
    std::string text;
    AppendText(delta, text);
    facts.has_tool_call = !text.empty();
  } else if (type == "response.output_item.added") {
    const Json& item = At(event, "item");
    // The name of a tool is generated output; the item of a message is only structure.
    facts.has_tool_call = TextAt(item, "type").ends_with("_call") && !TextAt(item, "name").empty();
  } else if (type == "response.completed" || type == "response.incomplete" ||
             type == "response.failed") {
    ReadResponseEnd(type, At(event, "response"), facts);
  }
}

bool IsResponsesAnswer(const Json& body) {
  return At(body, "output").is_array() || TextAt(body, "object") == "response";
}

// ---- Anthropic messages -------------------------------------------------------------------------

// Anthropic counts cached prompt tokens beside input_tokens, not within.
void ReadAnthropicUsage(const Json& usage, EventFacts& facts) {
  ReadUsage(usage, facts);
  if (!facts.prompt_tokens) return;
  for (const std::string_view name : {"cache_read_input_tokens", "cache_creation_input_tokens"}) {
    *facts.prompt_tokens += std::clamp<int64_t>(Count(At(usage, name)).value_or(0), 0, INT32_MAX);
  }
}

void ReadContentBlock(const Json& block, EventFacts& facts) {
  const std::string_view type = TextAt(block, "type");
  if (type == "text") {
    AddContent(At(block, "text"), facts);
  } else if (type == "thinking") {
    AddReasoning(At(block, "thinking"), facts);
  } else if (type == "redacted_thinking") {
    AddReasoning(At(block, "data"), facts);
  } else if (type.ends_with("tool_use")) {
    facts.has_tool_call = !TextAt(block, "name").empty();
  }
}

void ReadContentBlockDelta(const Json& delta, EventFacts& facts) {
  const std::string_view type = TextAt(delta, "type");
  if (type == "text_delta") {
    AddContent(At(delta, "text"), facts);
  } else if (type == "thinking_delta") {
    AddReasoning(At(delta, "thinking"), facts);
  } else if (type == "input_json_delta") {
    facts.has_tool_call = !TextAt(delta, "partial_json").empty();
  }
}

void ReadAnthropic(std::string_view event_type, const Json& event, EventFacts& facts) {
  std::string_view type = TextAt(event, "type");
  if (type.empty()) type = event_type;
  facts.tokens_so_far.reset();
  if (type == "message_start") {
    ReadAnthropicUsage(At(At(event, "message"), "usage"), facts);
    facts.completion_tokens.reset();  // a placeholder there; message_delta has the count
  } else if (type == "content_block_start") {
    ReadContentBlock(At(event, "content_block"), facts);
  } else if (type == "content_block_delta") {
    ReadContentBlockDelta(At(event, "delta"), facts);
  } else if (type == "message_delta") {
    ReadAnthropicUsage(At(event, "usage"), facts);
    const std::string_view reason = TextAt(At(event, "delta"), "stop_reason");
    if (!reason.empty()) Finish(reason, facts);
  } else if (type == "message_stop") {
    facts.finish = true;
    facts.end = true;
  }
}

bool IsAnthropicAnswer(const Json& body) {
  return TextAt(body, "type") == "message" || At(body, "content").is_array();
}

// ---- Ollama -------------------------------------------------------------------------------------

// The `done` line: durations in ns and counts, kept verbatim. A field that is 0 is left out there,
// so a missing count is 0 only where the other fields prove that the line has counts at all; and a
// missing prompt count is never read as 0, since a cached prompt may be missing as well.
void ReadOllamaDone(const Json& line, EventFacts& facts) {
  Json timings = Json::object();
  for (const auto& [name, value] : line.items()) {
    if (name.ends_with("_duration") || name.ends_with("_count") || name == "done_reason") {
      timings[name] = value;
    }
  }
  facts.timings_json = Dump(timings);
  facts.prompt_tokens = Count(At(line, "prompt_eval_count"));
  facts.completion_tokens = Count(At(line, "eval_count"));
  facts.end = true;
  Finish(TextAt(line, "done_reason"), facts);
}

void ReadOllama(std::string_view /*type*/, const Json& line, EventFacts& facts) {
  const Json& message = At(line, "message");
  AddContent(At(line, "response"), facts);
  AddContent(At(message, "content"), facts);
  AddReasoning(At(line, "thinking"), facts);
  AddReasoning(At(message, "thinking"), facts);
  facts.has_tool_call = HasToolCall(At(message, "tool_calls"));
  const Json& done = At(line, "done");
  if (!done.is_boolean() || !done.get<bool>()) return;
  ReadOllamaDone(line, facts);
  facts.whole_answer = facts.IsToken();
}

bool IsOllamaAnswer(const Json& body) {
  return At(body, "response").is_string() || At(body, "message").is_object();
}

// ---- llama-server's own /completion -------------------------------------------------------------

// tokens_cached is not what its name says (all tokens in the slot's cache at the end): unused.
void ReadLlama(std::string_view /*type*/, const Json& event, EventFacts& facts) {
  AddContent(At(event, "content"), facts);
  const Json& tokens = At(event, "tokens");
  if (tokens.is_array() && !tokens.empty()) facts.tokens = static_cast<int64_t>(tokens.size());
  facts.tokens_so_far = First(Count(At(event, "tokens_predicted")), facts.tokens_so_far);
  const Json& stop = At(event, "stop");
  if (!stop.is_boolean() || !stop.get<bool>()) return;
  facts.prompt_tokens = First(facts.prompt_tokens, Count(At(event, "tokens_evaluated")));
  facts.completion_tokens = First(Count(At(event, "tokens_predicted")), facts.completion_tokens);
  facts.end = true;
  Finish(TextAt(event, "stop_type"), facts);
}

bool IsLlamaAnswer(const Json& body) { return At(body, "content").is_string(); }

// ---- Request bodies -----------------------------------------------------------------------------

Json MessagesOf(const RequestSpec& spec) {
  Json messages = Json::array();
  for (const Message& message : spec.messages) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  if (!spec.prompt.empty() || messages.empty()) {
    messages.push_back({{"role", "user"}, {"content", spec.prompt}});
  }
  return messages;
}

// APIs that take a bare text get the messages' contents, a blank line between them.
std::string PromptOf(const RequestSpec& spec) {
  std::string text;
  for (const Message& message : spec.messages) text += message.content + "\n\n";
  return text + spec.prompt;
}

void AddTemperature(const RequestSpec& spec, Json& object) {
  if (spec.temperature) object["temperature"] = *spec.temperature;
}

void OpenAiChatBody(const RequestSpec& spec, Json& body) {
  body["messages"] = MessagesOf(spec);
  body["max_tokens"] = spec.max_tokens;
  body["stream_options"] = {{"include_usage", true}};
  AddTemperature(spec, body);
}

void OpenAiCompletionsBody(const RequestSpec& spec, Json& body) {
  body["prompt"] = PromptOf(spec);
  body["max_tokens"] = spec.max_tokens;
  body["stream_options"] = {{"include_usage", true}};
  AddTemperature(spec, body);
}

void OpenAiResponsesBody(const RequestSpec& spec, Json& body) {
  body["input"] = spec.messages.empty() ? Json(spec.prompt) : MessagesOf(spec);
  body["max_output_tokens"] = spec.max_tokens;
  AddTemperature(spec, body);
}

void AnthropicBody(const RequestSpec& spec, Json& body) {
  std::string system;
  Json messages = Json::array();
  for (Json& message : MessagesOf(spec)) {
    if (message["role"] == "system") {
      if (!system.empty()) system += "\n\n";
      system += message["content"].get<std::string>();
    } else {
      messages.push_back(std::move(message));
    }
  }
  if (!system.empty()) body["system"] = system;
  body["messages"] = std::move(messages);
  body["max_tokens"] = spec.max_tokens;
  AddTemperature(spec, body);
}

void AddOllamaOptions(const RequestSpec& spec, Json& body) {
  body["options"] = {{"num_predict", spec.max_tokens}};
  AddTemperature(spec, body["options"]);
}

void OllamaGenerateBody(const RequestSpec& spec, Json& body) {
  body["prompt"] = PromptOf(spec);
  AddOllamaOptions(spec, body);
}

void OllamaChatBody(const RequestSpec& spec, Json& body) {
  body["messages"] = MessagesOf(spec);
  AddOllamaOptions(spec, body);
}

void LlamaCompletionBody(const RequestSpec& spec, Json& body) {
  body["prompt"] = PromptOf(spec);
  body["n_predict"] = spec.max_tokens;
  AddTemperature(spec, body);
}

// ---- The table ----------------------------------------------------------------------------------

struct ApiRow {
  Api api;
  std::string_view name;
  std::string_view path;
  std::string_view suffix;  // a path that ends so is this API's endpoint
  Framing framing;
  void (*build)(const RequestSpec& spec, Json& body);
  void (*read)(std::string_view event_type, const Json& event, EventFacts& facts);
  bool (*is_answer)(const Json& body);  // whether a whole JSON body is an answer of this API
};

constexpr std::array<ApiRow, kApiCount> kRows = {{
    {Api::kOpenAiChat, "openai-chat", "/v1/chat/completions", "/chat/completions", Framing::kSse,
     OpenAiChatBody, ReadOpenAi, IsOpenAiAnswer},
    {Api::kOpenAiCompletions, "openai-completions", "/v1/completions", "/completions",
     Framing::kSse, OpenAiCompletionsBody, ReadOpenAi, IsOpenAiAnswer},
    {Api::kOpenAiResponses, "openai-responses", "/v1/responses", "/responses", Framing::kSse,
     OpenAiResponsesBody, ReadResponses, IsResponsesAnswer},
    {Api::kAnthropic, "anthropic", "/v1/messages", "/messages", Framing::kSse, AnthropicBody,
     ReadAnthropic, IsAnthropicAnswer},
    {Api::kOllamaGenerate, "ollama-generate", "/api/generate", "/api/generate", Framing::kNdjson,
     OllamaGenerateBody, ReadOllama, IsOllamaAnswer},
    {Api::kOllamaChat, "ollama-chat", "/api/chat", "/api/chat", Framing::kNdjson, OllamaChatBody,
     ReadOllama, IsOllamaAnswer},
    {Api::kLlamaCompletion, "llama-completion", "/completion", "/completion", Framing::kSse,
     LlamaCompletionBody, ReadLlama, IsLlamaAnswer},
}};

const ApiRow& RowOf(Api api) {
  const ApiRow& row = kRows[static_cast<size_t>(api)];
  CHECK(row.api == api);
  return row;
}

bool IsPingType(std::string_view type) {
  return type == "ping" || type == "keepalive" || type == "keep-alive" || type == "keep_alive" ||
         type == "heartbeat";
}

Status CheckText(const RequestSpec& spec) {
  const auto bad = [](std::string_view what) {
    return Error(ErrorCode::kUsage, "the " + std::string(what) + " is not valid UTF-8");
  };
  if (!IsValidUtf8(spec.prompt)) return bad("prompt");
  if (!IsValidUtf8(spec.model)) return bad("model name");
  for (const Message& message : spec.messages) {
    if (!IsValidUtf8(message.role) || !IsValidUtf8(message.content)) return bad("message");
  }
  if (spec.max_tokens < 1) return Error(ErrorCode::kUsage, "the token limit must be at least 1");
  return {};
}

}  // namespace

std::string_view ApiName(Api api) { return RowOf(api).name; }

std::optional<Api> ApiFromName(std::string_view name) {
  for (const ApiRow& row : kRows) {
    if (row.name == name) return row.api;
  }
  return std::nullopt;
}

std::span<const std::string_view> ApiNames() {
  static const std::array<std::string_view, kApiCount> names = [] {
    std::array<std::string_view, kApiCount> all;
    std::ranges::transform(kRows, all.begin(), &ApiRow::name);
    return all;
  }();
  return names;
}

Framing FramingOf(Api api) { return RowOf(api).framing; }

std::string_view AcceptOf(Api api) {
  return FramingOf(api) == Framing::kSse ? "text/event-stream" : "application/x-ndjson";
}

std::vector<Header> ApiHeaders(Api api) {
  if (api == Api::kAnthropic) return {{"anthropic-version", "2023-06-01"}};
  return {};
}

std::optional<Api> ApiOfPath(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  for (const ApiRow& row : kRows) {
    if (path.ends_with(row.suffix)) return row.api;
  }
  return std::nullopt;
}

std::string EndpointPath(Api api, std::string_view base_path) {
  const std::string_view own = RowOf(api).path;
  while (base_path.ends_with('/')) base_path.remove_suffix(1);
  const std::string_view first_segment = own.substr(0, own.find('/', 1));
  if (base_path.ends_with("/v1")) {
    base_path.remove_suffix(3);
  } else if (base_path.ends_with(first_segment)) {
    base_path.remove_suffix(first_segment.size());
  }
  return std::string(base_path) + std::string(own);
}

Result<std::string> BuildBody(Api api, const RequestSpec& spec) {
  RETURN_IF_ERROR(CheckText(spec));
  Json body = Json::object();
  if (!spec.model.empty()) body["model"] = spec.model;
  RowOf(api).build(spec, body);
  body["stream"] = true;
  if (!spec.extra_body_json.empty()) {
    const std::optional<Json> extra =
        IsValidUtf8(spec.extra_body_json) ? ParseJson(spec.extra_body_json) : std::nullopt;
    if (!extra || !extra->is_object()) {
      return Error(ErrorCode::kUsage, "the extra request fields are no JSON object");
    }
    body.merge_patch(*extra);
  }
  return Dump(body);
}

std::optional<EventFacts> ReadEvent(Api api, std::string_view event_type, std::string_view data) {
  EventFacts facts;
  facts.ping = IsPingType(event_type);  // whatever its data is: often no JSON
  if (facts.ping) return facts;
  const std::optional<Json> event = ParseJson(data);
  if (!event) return std::nullopt;
  facts.ping = IsPingType(TextAt(*event, "type"));
  if (facts.ping) return facts;
  ReadShared(*event, facts);
  if (event_type == "error" && !facts.error) facts.error = MessageOf(*event);
  RowOf(api).read(event_type, *event, facts);
  return facts;
}

std::optional<EventFacts> ReadWholeBody(Api api, std::string_view body) {
  const std::optional<Json> value = ParseJson(body);
  if (!value) return std::nullopt;
  EventFacts facts;
  ReadShared(*value, facts);
  facts.whole_answer = !facts.error && RowOf(api).is_answer(*value);
  return facts;
}

}  // namespace rouse::wire
