// Chat templates on llama.cpp's Jinja interpreter (common/jinja), without the rest of its chat
// code: that one also guesses tool-call grammars from each template, which costs far more than
// rendering it.
#include "engine/chat_template.h"

#include <chrono>
#include <ctime>
#include <exception>
#include <vector>

#include "base/strings.h"
#include "llama.h"

#ifdef ROUSE_HAVE_LLAMA_COMMON
#include "jinja/caps.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "json.h"
#else
#include <nlohmann/json.hpp>
#endif

namespace rouse::engine {
namespace {

#ifdef ROUSE_HAVE_LLAMA_COMMON
using Json = common_json;
#else
using Json = nlohmann::json;
#endif

constexpr int kDeepestNesting = 64;

Error Refused(const std::string& why) { return {ErrorCode::kUsage, why}; }

// Parsers and templates walk values recursively; a client must not be able to overflow the stack.
bool NestsTooDeep(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestNesting) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Result<Json> ParseJson(std::string_view text, const std::string& what) {
  if (NestsTooDeep(text)) return Refused(what + " is nested too deep");
  try {
    return Json::parse(std::string(text));
  } catch (const std::exception&) {
    return Refused(what + " is not valid JSON");
  }
}

// The text parts of a typed content, joined by line feeds as llama-server joins them.
Result<std::string> JoinedParts(const Json& parts, const std::string& where) {
  std::string text;
  bool first = true;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    if (!part.is_object() || !part.contains("type") || !part.at("type").is_string()) {
      return Refused(where + ".content has a part without a type");
    }
    const std::string type = part.at("type").get<std::string>();
    if (type != "text") {
      return Refused(where + ".content has a part of type \"" + type +
                     "\", and this model takes text only");
    }
    if (!part.contains("text") || !part.at("text").is_string()) {
      return Refused(where + ".content has a text part without text");
    }
    if (!first) text += '\n';
    first = false;
    text += part.at("text").get<std::string>();
  }
  return text;
}

// Checks one message's shape.
Status CheckMessage(const Json& message, const std::string& where) {
  if (!message.is_object()) return Refused(where + " must be an object");
  if (!message.contains("role") || !message.at("role").is_string()) {
    return Refused(where + ".role must be a string");
  }
  const bool has_calls = message.contains("tool_calls") && message.at("tool_calls").is_array();
  if (!message.contains("content") || message.at("content").is_null()) {
    if (has_calls) return {};
    return Refused(where + ".content must be a string or an array of parts");
  }
  const Json& content = message.at("content");
  if (content.is_array()) {
    RETURN_IF_ERROR(JoinedParts(content, where));
  } else if (!content.is_string()) {
    return Refused(where + ".content must be a string or an array of parts");
  }
  return {};
}

Status CheckMessages(const Json& messages) {
  if (!messages.is_array() || messages.empty()) {
    return Refused("messages must be an array with at least one message");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    RETURN_IF_ERROR(CheckMessage(messages[i], "messages[" + std::to_string(i) + "]"));
  }
  return {};
}

std::string Stripped(std::string text, const ChatTemplate::SpecialTexts& special) {
  if (special.strip_bos && !special.bos.empty() && text.starts_with(special.bos)) {
    text.erase(0, special.bos.size());
  }
  if (special.strip_eos && !special.eos.empty() && text.ends_with(special.eos)) {
    text.erase(text.size() - special.eos.size());
  }
  return text;
}

}  // namespace

const std::string& ChatTemplate::DefaultSource() {
  static const std::string* const source = new std::string(
      "{% for message in messages %}"
      "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
      "{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  return *source;
}

#ifdef ROUSE_HAVE_LLAMA_COMMON

namespace {

// The library explains over several lines with a picture of the source; the last line that says
// something in words is the reason.
std::string LastWords(const std::exception& e) {
  const std::string text = e.what();
  constexpr std::string_view kMarker = "Error: ";
  const size_t marker = text.rfind(kMarker);
  std::string words = marker == std::string::npos ? text : text.substr(marker + kMarker.size());
  constexpr std::string_view kRaised = "Jinja Exception: ";
  if (words.starts_with(kRaised)) words.erase(0, kRaised.size());
  for (char& c : words) {
    if (c == '\n') c = ' ';
  }
  return std::string(TrimBlanks(words));
}

// Brings the messages into the form that this template understands.
Status Adapt(Json& messages, const jinja::caps& caps, const std::string& source) {
  // "developer" is OpenAI's newer word for "system"; only templates of its own models know it.
  const bool knows_developer = source.find("developer") != std::string::npos;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    const std::string where = "messages[" + std::to_string(i) + "]";
    if (!knows_developer && message.at("role").get<std::string>() == "developer") {
      message["role"] = "system";
    }
    if (!message.contains("content") || message.at("content").is_null()) message["content"] = "";
    if (message.at("content").is_array() && !caps.supports_typed_content) {
      ASSIGN_OR_RETURN(const std::string text, JoinedParts(message.at("content"), where));
      message["content"] = text;
    } else if (message.at("content").is_string() && !caps.supports_string_content) {
      Json part = Json::object();
      part["type"] = "text";
      part["text"] = message.at("content").get<std::string>();
      Json parts = Json::array();
      parts.push_back(part);
      message["content"] = parts;
    }
    if (!caps.supports_object_arguments || !message.contains("tool_calls")) continue;
    Json& calls = message["tool_calls"];
    for (size_t k = 0; calls.is_array() && k < calls.size(); ++k) {
      if (!calls[k].is_object() || !calls[k].contains("function")) continue;
      Json& function = calls[k]["function"];
      if (!function.is_object() || !function.contains("arguments") ||
          !function.at("arguments").is_string()) {
        continue;
      }
      ASSIGN_OR_RETURN(Json arguments, ParseJson(function.at("arguments").get<std::string>(),
                                                 where + ".tool_calls arguments"));
      function["arguments"] = arguments;
    }
  }
  // A template without a system role gets the system text in front of the next message.
  if (!caps.supports_system_role && messages.size() > 1 &&
      messages[size_t{0}].at("role").get<std::string>() == "system" &&
      messages[size_t{0}].at("content").is_string() &&
      messages[size_t{1}].at("content").is_string()) {
    messages[size_t{1}]["content"] = messages[size_t{0}].at("content").get<std::string>() + "\n" +
                                     messages[size_t{1}].at("content").get<std::string>();
    messages.erase(size_t{0});
  }
  return {};
}

std::string Today(const char* format) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace

struct ChatTemplate::State {
  jinja::program program;
  std::string source;
  jinja::caps caps;
};

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(const std::string& source) {
  try {
    auto state = std::make_unique<State>();
    jinja::lexer lexer;
    const jinja::lexer_result tokens = lexer.tokenize(source);
    state->program = jinja::parse_from_tokens(tokens);
    state->source = tokens.source;
    state->caps = jinja::caps_get(state->program);
    return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(state)));
  } catch (const std::exception& e) {
    return Error(ErrorCode::kUnsupported,
                 "the model's chat template can't be used: " + LastWords(e));
  } catch (...) {  // a stray "break" is thrown as a type of its own
    return Error(ErrorCode::kUnsupported, "the model's chat template can't be used");
  }
}

Result<std::string> ChatTemplate::Render(std::string_view messages_json,
                                         const TemplateOptions& options,
                                         const SpecialTexts& special) const {
  ASSIGN_OR_RETURN(Json messages, ParseJson(messages_json, "messages"));
  Json variables = Json::object();
  Json tools;
  if (!options.tools_json.empty()) {
    ASSIGN_OR_RETURN(tools, ParseJson(options.tools_json, "tools"));
    if (!tools.is_array()) return Refused("tools must be an array");
  }
  Json further = Json::object();
  if (!options.kwargs_json.empty()) {
    ASSIGN_OR_RETURN(further, ParseJson(options.kwargs_json, "chat_template_kwargs"));
    if (!further.is_object()) return Refused("chat_template_kwargs must be an object");
  }
  try {
    RETURN_IF_ERROR(CheckMessages(messages));
    RETURN_IF_ERROR(Adapt(messages, state_->caps, state_->source));
    variables["messages"] = messages;
    variables["bos_token"] = special.bos;
    variables["eos_token"] = special.eos;
    variables["enable_thinking"] = true;
    variables["datetime"] = Today("%b %d %Y");
    variables["date_string"] = Today("%d %b %Y");
    if (tools.is_array() && !tools.empty()) variables["tools"] = tools;
    if (options.add_generation_prompt) variables["add_generation_prompt"] = true;
    for (const auto& [key, value] : further.items()) variables[key] = value;

    jinja::context context(state_->source);
    jinja::global_from_json(context, variables, /*mark_input=*/false);
    jinja::runtime runtime(context);
    const jinja::value results = runtime.execute(state_->program);
    return Stripped(jinja::runtime::gather_string_parts(results)->as_string().str(), special);
  } catch (const std::exception& e) {
    return Refused("the model's chat template refused the messages: " + LastWords(e));
  } catch (...) {
    return Refused("the model's chat template refused the messages");
  }
}

#else  // without llama-common

struct ChatTemplate::State {
  std::string source;
};

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(const std::string& source) {
  const llama_chat_message probe = {"user", "x"};
  if (llama_chat_apply_template(source.c_str(), &probe, 1, true, nullptr, 0) < 0) {
    return Error(ErrorCode::kUnsupported,
                 "the model's chat template is none of those that this build knows; build with "
                 "llama.cpp's common library to have a Jinja interpreter");
  }
  auto state = std::make_unique<State>();
  state->source = source;
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(state)));
}

Result<std::string> ChatTemplate::Render(std::string_view messages_json,
                                         const TemplateOptions& options,
                                         const SpecialTexts& special) const {
  ASSIGN_OR_RETURN(const Json messages, ParseJson(messages_json, "messages"));
  if (!options.tools_json.empty()) {
    return Error(ErrorCode::kUnsupported,
                 "tools need a build with llama.cpp's common library (a Jinja interpreter)");
  }
  try {
    RETURN_IF_ERROR(CheckMessages(messages));
    std::vector<std::pair<std::string, std::string>> texts;
    size_t bytes = 1024;
    for (size_t i = 0; i < messages.size(); ++i) {
      const Json& content = messages[i].contains("content") ? messages[i].at("content") : Json("");
      std::string text;
      if (content.is_array()) {
        ASSIGN_OR_RETURN(text, JoinedParts(content, "messages[" + std::to_string(i) + "]"));
      } else if (content.is_string()) {
        text = content.get<std::string>();
      }
      bytes += text.size() + 256;
      texts.emplace_back(messages[i].at("role").get<std::string>(), std::move(text));
    }
    std::vector<llama_chat_message> chat;
    for (const auto& [role, text] : texts) chat.push_back({role.c_str(), text.c_str()});
    std::string rendered(bytes, '\0');
    const auto apply = [&] {
      return llama_chat_apply_template(state_->source.c_str(), chat.data(), chat.size(),
                                       options.add_generation_prompt, rendered.data(),
                                       static_cast<int32_t>(rendered.size()));
    };
    int32_t length = apply();
    if (length > static_cast<int32_t>(rendered.size())) {
      rendered.resize(static_cast<size_t>(length));
      length = apply();
    }
    if (length < 0) return Refused("the model's chat template refused the messages");
    rendered.resize(static_cast<size_t>(length));
    return Stripped(std::move(rendered), special);
  } catch (const std::exception& e) {
    return Refused(std::string("the messages can't be rendered: ") + e.what());
  }
}

#endif

// Here, where State is known in either build.
ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;

}  // namespace rouse::engine
