#include "wire/json_read.h"

#include <cmath>

#include "base/strings.h"
#include "wire/apis.h"

namespace rouse::wire {
namespace {

constexpr int kNestingLimit = 256;
constexpr size_t kMessageLimitBytes = 500;

// Deep nesting would overflow the stack of recursive code (the library's own included).
bool IsNestedTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (in_string) {
      if (letter == '\\') {
        ++i;
      } else if (letter == '"') {
        in_string = false;
      }
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '{' || letter == '[') {
      if (++depth > kNestingLimit) return true;
    } else if (letter == '}' || letter == ']') {
      --depth;
    }
  }
  return false;
}

std::string Shorten(std::string text) {
  if (text.size() <= kMessageLimitBytes) return text;
  size_t end = kMessageLimitBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text + "...";
}

}  // namespace

std::optional<Json> ParseJson(std::string_view text) {
  if (IsNestedTooDeep(text)) return std::nullopt;
  try {
    Json value = Json::parse(text, nullptr, false);
    if (value.is_discarded()) return std::nullopt;
    return value;
  } catch (const Json::exception&) {  // numbers out of range are thrown even so
    return std::nullopt;
  }
}

const Json& At(const Json& object, std::string_view name) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string_view Text(const Json& value) {
  return value.is_string() ? std::string_view(value.get_ref<const std::string&>())
                           : std::string_view();
}
std::string_view TextAt(const Json& object, std::string_view name) {
  return Text(At(object, name));
}

std::optional<int64_t> Count(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto count = value.get<uint64_t>();
    return count <= INT64_MAX ? std::optional(static_cast<int64_t>(count)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it doubles skip integers
    if (std::abs(number) <= kExact && std::trunc(number) == number) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void AppendText(const Json& value, std::string& text) {
  if (value.is_string()) {
    text += Text(value);
  } else if (value.is_array()) {
    for (const Json& part : value) AppendText(part, text);
  } else if (value.is_object()) {
    for (const std::string_view name :
         {"text", "content", "thinking", "reasoning", "summary", "data"}) {
      AppendText(At(value, name), text);
    }
  }
}

bool IsEmptyValue(const Json& value) {
  return value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
         (value.is_string() && Text(value).empty()) ||
         ((value.is_object() || value.is_array()) && value.empty());
}

std::string MessageOf(const Json& value) {
  if (value.is_string()) return Shorten(std::string(Text(value)));
  for (const std::string_view name : {"message", "error", "detail", "msg"}) {
    const Json& inner = At(value, name);
    if (!IsEmptyValue(inner)) return MessageOf(inner);
  }
  return Shorten(Dump(value));
}

std::string ErrorMessage(std::string_view body) {
  std::string_view text = TrimBlanks(body);
  if (text.empty()) return "";
  if (IsValidUtf8(text)) {
    const std::optional<Json> value = ParseJson(text);
    if (value && (value->is_object() || value->is_string())) return MessageOf(*value);
  }
  const std::string lower = LowerAscii(text.substr(0, 4096));
  const size_t title = lower.find("<title>");
  const size_t title_end = lower.find("</title>");
  if (title != std::string::npos && title_end != std::string::npos && title_end > title) {
    text = TrimBlanks(text.substr(title + 7, title_end - title - 7));
  } else {
    text = TrimBlanks(text.substr(0, text.find('\n')));
  }
  std::string message;
  for (const char letter : Shorten(std::string(text))) {
    message += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return message;
}

}  // namespace rouse::wire
