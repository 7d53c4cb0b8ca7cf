// Reads typed fields of a JSON object and refuses wrong types by name. For .cc files only.
//
// The first problem is kept and later reads return defaults, so that a parser can read all fields
// in a row and look for an error once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/json_text.h"

namespace rouse::server {

class JsonFields {
 public:
  // Parses `body`, which must be a JSON object nested at most 64 deep.
  explicit JsonFields(std::string_view body);

  // A field that is missing or null is empty, as is one of a wrong type (which is then the error).
  const Json* Find(const std::string& name) const;
  std::optional<bool> Bool(const std::string& name);
  std::optional<int64_t> Int(const std::string& name, int64_t lowest, int64_t highest);
  std::optional<double> Number(const std::string& name, double lowest, double highest);
  std::optional<std::string> Text(const std::string& name);

  void Refuse(const std::string& name, const std::string& what, const std::string& code = "");

  const std::optional<ApiError>& error() const { return error_; }

 private:
  Json object_;
  std::optional<ApiError> error_;
};

}  // namespace rouse::server
