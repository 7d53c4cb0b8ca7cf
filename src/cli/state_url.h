// The state of a server: what it says itself (a `rouse serve` tells every layer), and what the
// operating system knows of a server on this machine.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/page_cache.h"
#include "os/process_tree_counters.h"

namespace rouse::cli {

// A model file that the server has mapped.
struct MappedModel {
  std::string path;
  std::optional<os::Residency> residency;
  std::string reason;  // why `residency` is empty
};

struct ServerState {
  std::string url;
  nlohmann::json own;       // its GET /state when it is a rouse server, else null
  std::string own_missing;  // why `own` is null
  std::optional<int> pid;
  std::string pid_missing;
  std::string comm;
  std::optional<int64_t> age_ns;  // of its process
  os::ProcessTreeCounters counters;
  std::vector<MappedModel> models;
};

// One GET /state, then /proc. Errors: kUsage for a URL that can't be parsed, kState when nothing
// listens there.
Result<ServerState> ReadServerState(const std::string& url);

nlohmann::json ServerStateJson(const ServerState& state);
// Paths stand on one line each, whatever their length; the rest fits into `columns`.
std::string ServerStateText(const ServerState& state, int columns);

// The .gguf files in the memory maps of these processes, sorted; maps that may not be read are
// passed over. A server's children are its processes too: see os::ProcessTree.
std::vector<std::string> MappedModelFiles(std::span<const int> processes);

}  // namespace rouse::cli
