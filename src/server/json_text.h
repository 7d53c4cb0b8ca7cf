// nlohmann's JSON with the choices that all of src/server makes. For .cc files only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rouse::server {

using Json = nlohmann::ordered_json;

// Bytes that are not UTF-8 (they can come from a path or a model's metadata) are replaced, so that
// this never fails.
inline std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rouse::server
