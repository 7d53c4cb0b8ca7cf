#include "results/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace rouse::results {
namespace {

// ASCII that stands in a JSON string as itself; all else is left to the library.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char letter) {
    return letter >= ' ' && letter < '\x7f' && letter != '"' && letter != '\\';
  });
}

void AppendQuoted(std::string_view text, std::string& out) {
  if (!IsPlain(text)) {
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

}  // namespace

void JsonText::Key(std::string_view name) {
  Separate();
  AppendQuoted(name, text_);
  text_ += ':';
}

void JsonText::Null() { Raw("null"); }

void JsonText::Truth(bool value) { Raw(value ? "true" : "false"); }

void JsonText::Int(int64_t value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), value);
  CHECK(end.ec == std::errc());
  Raw({digits.data(), static_cast<size_t>(end.ptr - digits.data())});
}

void JsonText::Real(double value) { Raw(nlohmann::json(value).dump()); }

void JsonText::Text(std::string_view value) {
  Separate();
  AppendQuoted(value, text_);
}

void JsonText::Raw(std::string_view json) {
  Separate();
  text_ += json;
}

}  // namespace rouse::results
