#include "cli/state_url.h"

#include <unistd.h>

#include <ctime>
#include <set>

#include "base/strings.h"
#include "base/terminal_text.h"
#include "base/time.h"
#include "base/units.h"
#include "cli/output_text.h"
#include "cli/residency_json.h"
#include "lab/control.h"
#include "os/process.h"

namespace rouse::cli {
namespace {

constexpr int64_t kPatienceNs = 5 * kNsPerSecond;
constexpr int kLabelColumns = 19;

struct Endpoint {
  std::string base;  // "http://127.0.0.1:8080"
  std::string host;
  int port = 0;
};

Result<Endpoint> ParseUrl(const std::string& url) {
  const Error usage(ErrorCode::kUsage,
                    "\"" + url + "\" is no URL that I can read: http://HOST:PORT");
  std::string_view rest = url;
  if (!rest.starts_with("http://")) return usage;
  rest.remove_prefix(7);
  rest = rest.substr(0, rest.find('/'));
  Endpoint endpoint;
  endpoint.base = "http://" + std::string(rest);
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == rest.npos;
  endpoint.host = rest.substr(0, has_port ? colon : rest.size());
  endpoint.port = 80;
  if (has_port) {
    const std::optional<int64_t> port = ParseInt64(rest.substr(colon + 1));
    if (!port || *port < 1 || *port > 65535) return usage;
    endpoint.port = static_cast<int>(*port);
  }
  if (endpoint.host.empty()) return usage;
  return endpoint;
}

bool IsThisMachine(const std::string& host) {
  return host == "localhost" || host == "[::1]" || host == "::1" || host.starts_with("127.");
}

// From the clock that the start was told on: a container's /proc/uptime may be its own.
std::optional<int64_t> AgeNs(int pid) {
  const Result<int64_t> start_ticks = os::ProcessStartTicks(pid);
  timespec now{};
  if (!start_ticks.ok() || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
  const int64_t age_ns = now.tv_sec * kNsPerSecond + now.tv_nsec -
                         *start_ticks * (kNsPerSecond / sysconf(_SC_CLK_TCK));
  return age_ns < 0 ? std::nullopt : std::optional<int64_t>(age_ns);
}

void FillFromProc(int pid, ServerState& state) {
  const os::ProcRoot& root = os::ProcRoot::Real();
  state.pid = pid;
  const Result<std::string> comm = root.ReadOf(pid, "comm");
  if (comm.ok()) state.comm = TrimBlanks(*comm);
  const std::vector<int> tree = os::ProcessTree(pid);
  state.counters = os::ReadProcessTreeCounters(root, tree);
  state.age_ns = AgeNs(pid);
  for (const std::string& path : MappedModelFiles(tree)) {
    MappedModel model{path, std::nullopt, ""};
    const Result<os::Residency> residency = os::ReadResidency(path);
    if (residency.ok()) {
      model.residency = *residency;
    } else {
      model.reason = residency.error().message();
    }
    state.models.push_back(std::move(model));
  }
}

std::string Text(const nlohmann::json& value) {
  return SafeText(value.is_string() ? value.get<std::string>() : DumpJson(value));
}

// Null for what is not there, and in what is no object.
nlohmann::json Member(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() ? nlohmann::json() : *found;
}

std::vector<nlohmann::json> Listed(const nlohmann::json& value) {
  return value.is_array() ? value.get<std::vector<nlohmann::json>>()
                          : std::vector<nlohmann::json>();
}

std::string OwnText(const nlohmann::json& own) {
  std::string text;
  for (const nlohmann::json& model : Listed(Member(own, "models"))) {
    const nlohmann::json id = Member(model, "id");
    text += "  model " + (id.is_null() ? "?" : Text(id)) + "\n";
    const nlohmann::json layers = Member(model, "layers");
    if (layers.is_object()) {
      for (const auto& [layer, value] : layers.items()) {
        text += "    " + PadRight(SafeText(layer), 13) + " " + Text(value) + "\n";
      }
    }
    const nlohmann::json eta = Member(model, "eta_first_token_ns");
    if (eta.is_number_integer()) {
      text += "    a first token now would take about " + FormatDuration(eta.get<int64_t>()) + "\n";
    }
  }
  return text;
}

}  // namespace

std::vector<std::string> MappedModelFiles(std::span<const int> processes) {
  std::set<std::string> files;
  for (const int pid : processes) {
    const Result<std::string> maps = os::ProcRoot::Real().ReadOf(pid, "maps");
    if (!maps.ok()) continue;
    for (const std::string_view line : SplitAt(*maps, '\n')) {
      const size_t slash = line.find('/');
      if (slash != std::string_view::npos && line.ends_with(".gguf")) {
        files.emplace(line.substr(slash));
      }
    }
  }
  return {files.begin(), files.end()};
}

Result<ServerState> ReadServerState(const std::string& url) {
  ASSIGN_OR_RETURN(const Endpoint endpoint, ParseUrl(url));
  ServerState state;
  state.url = endpoint.base;
  ASSIGN_OR_RETURN(const lab::ControlReply reply,
                   lab::CallControl(endpoint.base, "GET", "/state", "", MonoNow() + kPatienceNs));
  state.own = nlohmann::json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  const bool is_rouse =
      reply.status == 200 && Member(state.own, "schema") == "rouse.server_state/1";
  if (!is_rouse) {
    state.own = nullptr;
    state.own_missing =
        "it is no rouse server (GET /state gave status " + std::to_string(reply.status) + ")";
  }
  if (!IsThisMachine(endpoint.host)) {
    state.pid_missing = "the server is on another machine";
    return state;
  }
  const std::optional<int> pid = os::PidListeningOn(endpoint.port);
  if (pid) {
    FillFromProc(*pid, state);
  } else {
    state.pid_missing = "the process that listens is another user's (root can look)";
  }
  return state;
}

nlohmann::json ServerStateJson(const ServerState& state) {
  const auto or_null = [](const auto& optional) {
    return optional ? nlohmann::json(*optional) : nlohmann::json();
  };
  nlohmann::json json = {{"schema", "rouse.url_state/1"},
                         {"url", state.url},
                         {"server", state.own},
                         {"pid", or_null(state.pid)},
                         {"comm", state.pid ? nlohmann::json(state.comm) : nlohmann::json()},
                         {"age_ns", or_null(state.age_ns)},
                         {"rss_bytes", or_null(state.counters.rss_bytes)},
                         {"swap_bytes", or_null(state.counters.swap_bytes)},
                         {"models", nlohmann::json::array()},
                         {"null_reasons", nlohmann::json::object()}};
  if (!state.own_missing.empty()) json["null_reasons"]["server"] = state.own_missing;
  if (!state.pid_missing.empty()) json["null_reasons"]["pid"] = state.pid_missing;
  for (const MappedModel& model : state.models) {
    nlohmann::json entry = {{"file", model.path},
                            {"bytes", nullptr},
                            {"resident_bytes", nullptr},
                            {"resident_ratio", nullptr},
                            {"proof", nullptr}};
    if (model.residency) {
      entry["bytes"] = model.residency->file_bytes;
      PutResidency(*model.residency, entry);
    } else {
      entry["null_reasons"]["resident_bytes"] = model.reason;
    }
    json["models"].push_back(std::move(entry));
  }
  return json;
}

std::string ServerStateText(const ServerState& state, int columns) {
  std::string text = SafeText(state.url) + "\n";
  const auto line = [&](std::string_view label, const std::string& words) {
    text += Labelled(label, words, kLabelColumns, columns);
  };
  if (state.own.is_null()) {
    line("of itself", "unknown: " + state.own_missing);
  } else {
    text += OwnText(state.own);
  }
  if (!state.pid) {
    line("process", "unknown: " + state.pid_missing);
    return text;
  }
  line("process", state.comm + " (pid " + std::to_string(*state.pid) + ")" +
                      (state.age_ns ? ", " + FormatDuration(*state.age_ns) + " old" : ""));
  if (state.counters.rss_bytes) {
    line("memory", FormatBytes(*state.counters.rss_bytes) + " resident, " +
                       FormatBytes(state.counters.swap_bytes.value_or(0)) +
                       " swapped out (whole tree)");
  }
  for (const MappedModel& model : state.models) {
    // Unbroken, so that it can be copied.
    text += "  " + PadRight("maps", kLabelColumns) + SafeText(model.path) + "\n";
    line("", model.residency ? "in the page cache: " + ResidencyText(*model.residency)
                             : "page cache unknown: " + model.reason);
  }
  if (state.models.empty()) line("maps", "no .gguf file");
  return text;
}

}  // namespace rouse::cli
