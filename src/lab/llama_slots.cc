#include "lab/llama_slots.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace rouse::lab {
namespace {

using Json = nlohmann::json;

// An answer of the server as JSON; kState with its words when it refuses.
Result<Json> Call(const std::string& base_url, std::string_view method, const std::string& path,
                  const std::string& body, const ControlHeaders& headers, MonoTime deadline) {
  ASSIGN_OR_RETURN(const ControlReply reply,
                   CallControl(base_url, method, path, body, deadline, headers));
  Json json = Json::parse(reply.body, nullptr, false);
  if (reply.status < 300 && !json.is_discarded()) return json;
  return Error(ErrorCode::kState, std::string(method) + " " + path + " answers " +
                                      std::to_string(reply.status) + ": " +
                                      reply.body.substr(0, 200));
}

std::optional<int64_t> IntegerOf(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return std::nullopt;
  const Json& value = object[key];
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

}  // namespace

std::optional<std::string> SlotFolder(const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  const std::string program = std::filesystem::path(words.front()).filename();
  if (program.find("llama-server") == std::string::npos) return std::nullopt;
  const auto at = std::find(words.begin(), words.end(), "--slot-save-path");
  if (at == words.end() || at + 1 == words.end()) return std::nullopt;
  return *(at + 1);
}

Result<PrefixSize> LargestSlotPrefix(const std::string& base_url, const std::string& folder,
                                     const ControlHeaders& headers, MonoTime deadline) {
  ASSIGN_OR_RETURN(const Json slots, Call(base_url, "GET", "/slots", "", headers, deadline));
  const std::string name = "rouse-prefix-" + std::to_string(getpid());
  const std::string body = Json{{"filename", name}}.dump();
  std::optional<PrefixSize> largest;
  for (const Json& slot : slots.is_array() ? slots : Json::array()) {
    const std::optional<int64_t> id = IntegerOf(slot, "id");
    if (!id) continue;
    const Result<Json> saved =
        Call(base_url, "POST", "/slots/" + std::to_string(*id) + "?action=save", body, headers,
             deadline);
    unlink((std::filesystem::path(folder) / name).c_str());
    if (!saved.ok()) return saved.error();
    const std::optional<int64_t> tokens = IntegerOf(*saved, "n_saved");
    const std::optional<int64_t> bytes = IntegerOf(*saved, "n_written");
    if (!tokens || !bytes) continue;
    if (!largest || *tokens > largest->tokens) largest = PrefixSize{*tokens, *bytes};
  }
  if (largest) return *largest;
  return Error(ErrorCode::kState, "GET /slots names no slot that can be saved");
}

}  // namespace rouse::lab
