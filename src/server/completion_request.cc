#include "server/completion_request.h"

#include <cmath>
#include <utility>

#include "server/json_fields.h"

namespace rouse::server {
namespace {

constexpr int64_t kMaxTokensLimit = int64_t{1} << 31;
constexpr size_t kStopLimit = 16;
constexpr size_t kStopBytesLimit = 1024;

// Content as the templates want it: text. Parts are joined by line breaks, as llama-server does.
std::optional<std::string> TextOfParts(const Json& parts, JsonFields& fields,
                                       const std::string& name) {
  std::string text;
  for (const Json& part : parts) {
    if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
      fields.Refuse(name, "must hold objects with a \"type\"");
      return std::nullopt;
    }
    const auto type = part["type"].get<std::string>();
    if (type != "text") {
      fields.Refuse(name, "holds a part of type \"" + type + "\"; this model takes text only",
                    "unsupported_content");
      return std::nullopt;
    }
    if (!part.contains("text") || !part["text"].is_string()) {
      fields.Refuse(name, "holds a text part without a string \"text\"");
      return std::nullopt;
    }
    if (!text.empty()) text += '\n';
    text += part["text"].get<std::string>();
  }
  return text;
}

void ReadMessages(JsonFields& fields, CompletionRequest& request) {
  const Json* const messages = fields.Find("messages");
  if (messages == nullptr) return fields.Refuse("messages", "is required");
  if (!messages->is_array() || messages->empty()) {
    return fields.Refuse("messages", "must be an array with at least one message");
  }
  Json plain = Json::array();
  size_t number = 0;
  for (const Json& message : *messages) {
    const std::string name = "messages[" + std::to_string(number++) + "]";
    if (!message.is_object()) return fields.Refuse(name, "must be an object");
    if (!message.contains("role") || !message["role"].is_string()) {
      return fields.Refuse(name + ".role", "must be a string");
    }
    Json copy = message;
    const Json content = message.contains("content") ? message["content"] : Json();
    if (content.is_array()) {
      const auto text = TextOfParts(content, fields, name + ".content");
      if (!text) return;
      copy["content"] = *text;
    } else if (content.is_null() && message["role"] == "assistant") {
      copy["content"] = "";
    } else if (!content.is_string()) {
      return fields.Refuse(name + ".content", "must be a string or an array of text parts");
    }
    plain.push_back(std::move(copy));
  }
  request.messages_json = Dump(plain);
}

void ReadPrompt(JsonFields& fields, CompletionRequest& request) {
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) return fields.Refuse("prompt", "is required");
  // One prompt in an array is what some clients send; several would need several answers.
  if (prompt->is_array() && prompt->size() == 1 && !prompt->front().is_number()) {
    prompt = &prompt->front();
  }
  if (prompt->is_string()) {
    request.prompt = prompt->get<std::string>();
    if (request.prompt.empty()) fields.Refuse("prompt", "must not be empty");
    return;
  }
  if (!prompt->is_array() || prompt->empty() || !prompt->front().is_number()) {
    return fields.Refuse("prompt", "must be one string or one array of token numbers");
  }
  for (const Json& token : *prompt) {
    if (!token.is_number_integer() || token < 0 || token > INT32_MAX) {
      return fields.Refuse("prompt", "must hold token numbers only");
    }
    request.prompt_tokens.push_back(token.get<engine::Token>());
  }
}

void ReadStop(JsonFields& fields, CompletionRequest& request) {
  const Json* const stop = fields.Find("stop");
  if (stop == nullptr) return;
  const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
  if (!list.is_array()) return fields.Refuse("stop", "must be a string or an array of strings");
  if (list.size() > kStopLimit) {
    return fields.Refuse("stop", "holds more than " + std::to_string(kStopLimit) + " strings");
  }
  for (const Json& text : list) {
    if (!text.is_string()) return fields.Refuse("stop", "must hold strings only");
    if (text.get_ref<const std::string&>().size() > kStopBytesLimit) {
      return fields.Refuse("stop", "holds a string of more than 1024 bytes");
    }
    if (!text.get_ref<const std::string&>().empty()) request.stop.push_back(text);
  }
}

void ReadSampling(JsonFields& fields, CompletionRequest& request) {
  engine::SamplingParams& sampling = request.sampling;
  if (const auto value = fields.Number("temperature", 0, 100)) sampling.temperature = *value;
  if (const auto value = fields.Number("top_p", 0, 1)) sampling.top_p = *value;
  if (const auto value = fields.Int("top_k", -1, INT32_MAX)) {
    sampling.top_k = *value < 0 ? 0 : *value;  // -1 is off for some clients, 0 for others
  }
  if (const auto value = fields.Number("min_p", 0, 1)) sampling.min_p = *value;
  // -1 means "a random one" to llama-server's clients.
  if (const auto value = fields.Int("seed", INT64_MIN, INT64_MAX); value && *value != -1) {
    sampling.seed = static_cast<uint32_t>(*value);
  }
}

void ReadLength(JsonFields& fields, CompletionRequest& request) {
  for (const std::string name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
    if (const auto value = fields.Int(name, -1, kMaxTokensLimit)) request.max_tokens = *value;
  }
}

void ReadStreaming(JsonFields& fields, CompletionRequest& request) {
  request.stream = fields.Bool("stream").value_or(false);
  request.rouse_timeline = fields.Bool("rouse_timeline").value_or(false);
  const Json* const options = fields.Find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields.Refuse("stream_options", "must be an object");
  if (!request.stream) return fields.Refuse("stream_options", "needs \"stream\": true");
  const auto include = options->find("include_usage");
  if (include == options->end() || include->is_null()) return;
  if (!include->is_boolean()) {
    return fields.Refuse("stream_options.include_usage", "must be true or false");
  }
  request.include_usage = include->get<bool>();
}

// Fields that would change the answer and that we can't honour.
void RefuseUnsupported(JsonFields& fields) {
  const auto refuse = [&](const std::string& name, const std::string& what) {
    fields.Refuse(name, what + " is not supported", "unsupported_parameter");
  };
  if (fields.Int("n", 1, INT32_MAX).value_or(1) != 1) refuse("n", "other than 1");
  if (fields.Int("best_of", 0, INT32_MAX).value_or(1) > 1) refuse("best_of", "above 1");
  for (const std::string name : {"presence_penalty", "frequency_penalty"}) {
    if (fields.Number(name, -2, 2).value_or(0) != 0) refuse(name, "other than 0");
  }
  for (const std::string name : {"tools", "functions", "logit_bias"}) {
    const Json* const value = fields.Find(name);
    if (value != nullptr && !(value->is_structured() && value->empty())) {
      refuse(name, "that is not empty");
    }
  }
  for (const std::string name : {"grammar", "json_schema", "suffix"}) {
    const Json* const value = fields.Find(name);
    const bool empty_text =
        value != nullptr && value->is_string() && value->get_ref<const std::string&>().empty();
    if (value != nullptr && !value->empty() && !empty_text) refuse(name, "that is not empty");
  }
  const Json* const logprobs = fields.Find("logprobs");
  if (logprobs != nullptr && *logprobs != false && *logprobs != 0) refuse("logprobs", "true");
  const Json* const echo = fields.Find("echo");
  if (echo != nullptr && *echo != false) refuse("echo", "true");
  const Json* const format = fields.Find("response_format");
  if (format != nullptr && !(format->is_object() && format->value("type", "") == "text")) {
    refuse("response_format", "other than {\"type\": \"text\"}");
  }
}

std::expected<CompletionRequest, ApiError> Parse(std::string_view body, CompletionKind kind) {
  JsonFields fields(body);
  if (fields.error()) return std::unexpected(*fields.error());
  CompletionRequest request;
  request.kind = kind;
  request.model = fields.Text("model").value_or("");
  if (kind == CompletionKind::kChat) {
    ReadMessages(fields, request);
    const Json* const kwargs = fields.Find("chat_template_kwargs");
    if (kwargs != nullptr && !kwargs->is_object()) {
      fields.Refuse("chat_template_kwargs", "must be an object");
    } else if (kwargs != nullptr) {
      request.template_kwargs_json = Dump(*kwargs);
    }
  } else {
    ReadPrompt(fields, request);
  }
  ReadSampling(fields, request);
  ReadLength(fields, request);
  ReadStop(fields, request);
  ReadStreaming(fields, request);
  request.ignore_end = fields.Bool("ignore_eos").value_or(false);
  request.cache_prompt = fields.Bool("cache_prompt").value_or(true);
  RefuseUnsupported(fields);
  if (fields.error()) return std::unexpected(*fields.error());
  return request;
}

}  // namespace

std::expected<CompletionRequest, ApiError> ParseCompletionRequest(std::string_view body,
                                                                  CompletionKind kind) {
  try {
    return Parse(body, kind);
  } catch (const std::exception& exception) {
    return std::unexpected(
        ApiError{.message = std::string("the request can't be read: ") + exception.what()});
  }
}

std::expected<ModelRequest, ApiError> ParseModelRequest(std::string_view body) {
  JsonFields fields(body);
  ModelRequest request;
  const auto model = fields.Text("model");
  request.wait = fields.Bool("wait").value_or(false);
  if (!model) fields.Refuse("model", "is required");
  if (fields.error()) return std::unexpected(*fields.error());
  request.model = *model;
  return request;
}

}  // namespace rouse::server
