#include "server/json_fields.h"

#include <cmath>
#include <exception>

namespace rouse::server {
namespace {

constexpr int kDepthLimit = 64;

// Whether brackets nest deeper than the limit. Looked at before parsing, since a tree of millions
// of nested arrays costs far more memory than its text.
bool NestsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (in_string) {
      if (letter == '\\') ++at;
      if (letter == '"') in_string = false;
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '[' || letter == '{') {
      if (++depth > kDepthLimit) return true;
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return false;
}

std::string Bounds(const std::string& lowest, const std::string& highest) {
  return "must be from " + lowest + " to " + highest;
}

std::string Shortest(double value) { return Json(value).dump(); }

}  // namespace

JsonFields::JsonFields(std::string_view body) {
  if (NestsTooDeep(body)) {
    error_ = ApiError{.message = "the body's JSON is nested too deep (more than " +
                                 std::to_string(kDepthLimit) + " levels)"};
    return;
  }
  try {
    object_ = Json::parse(body);
  } catch (const std::exception& exception) {
    // nlohmann's text says where; its own prefix "[json.exception...] " says nothing to a client.
    std::string_view what = exception.what();
    if (const size_t end = what.find("] "); end != std::string_view::npos) {
      what.remove_prefix(end + 2);
    }
    error_ = ApiError{.message = "the body is not valid JSON: " + std::string(what)};
    return;
  }
  if (!object_.is_object()) {
    error_ = ApiError{.message = "the body must be a JSON object"};
    object_ = Json::object();
  }
}

const Json* JsonFields::Find(const std::string& name) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> JsonFields::Bool(const std::string& name) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    Refuse(name, "must be true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<int64_t> JsonFields::Int(const std::string& name, int64_t lowest, int64_t highest) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number;
  if (value->is_number_unsigned()) {
    const auto large = value->get<uint64_t>();
    if (large <= static_cast<uint64_t>(INT64_MAX)) number = static_cast<int64_t>(large);
  } else if (value->is_number_integer()) {
    number = value->get<int64_t>();
  } else if (value->is_number_float()) {
    // Some clients send 8.0 for 8.
    const double real = value->get<double>();
    if (real == std::floor(real) && std::abs(real) < 1e15) number = static_cast<int64_t>(real);
  }
  if (!value->is_number() || (!number && value->is_number_float())) {
    Refuse(name, "must be a whole number");
    return std::nullopt;
  }
  if (!number || *number < lowest || *number > highest) {
    Refuse(name, Bounds(std::to_string(lowest), std::to_string(highest)));
    return std::nullopt;
  }
  return number;
}

std::optional<double> JsonFields::Number(const std::string& name, double lowest, double highest) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    Refuse(name, "must be a number");
    return std::nullopt;
  }
  const auto number = value->get<double>();
  if (!(number >= lowest && number <= highest)) {
    Refuse(name, Bounds(Shortest(lowest), Shortest(highest)));
    return std::nullopt;
  }
  return number;
}

std::optional<std::string> JsonFields::Text(const std::string& name) {
  const Json* const value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    Refuse(name, "must be a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

void JsonFields::Refuse(const std::string& name, const std::string& what, const std::string& code) {
  if (error_) return;
  error_ = ApiError{.message = "\"" + name + "\" " + what, .param = name, .code = code};
}

}  // namespace rouse::server
