// Reading JSON that may be anything, without exceptions: a member that is missing, or of another
// type, reads as null, "" or nothing. Private to this folder (it shows the JSON library).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rouse::wire {

using Json = nlohmann::json;

// Empty for what is no JSON value, or is nested deeper than 256 levels.
std::optional<Json> ParseJson(std::string_view text);

// A member, or a null value when `object` is no object or lacks it.
const Json& At(const Json& object, std::string_view name);

// The string, or "" for another type.
std::string_view Text(const Json& value);
std::string_view TextAt(const Json& object, std::string_view name);

// A whole number, also one written as 3.0; empty for anything else or beyond int64.
std::optional<int64_t> Count(const Json& value);

// Appends the text in a string, a list of parts, or an object with one of the usual text members.
void AppendText(const Json& value, std::string& text);

// null, false, "", {} and []: what servers write for "none".
bool IsEmptyValue(const Json& value);

// On one line; bytes that are not UTF-8 are replaced.
std::string Dump(const Json& value);

// The message inside an error value: a string, {"message": ...}, {"error": ...}, {"detail": ...},
// or the value itself as JSON. At most about 500 bytes.
std::string MessageOf(const Json& value);

}  // namespace rouse::wire
