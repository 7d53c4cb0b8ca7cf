#include "lab/managed_target.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/strings.h"
#include "lab/control.h"
#include "lab/targets.h"
#include "os/proc_root.h"
#include "os/process.h"
#include "wire/url.h"

namespace rouse::lab {
namespace {

using Json = nlohmann::json;

// So long may a server answer 503 to everything: large models are loaded in minutes.
constexpr int64_t kStartingNs = 120 * kNsPerSecond;
constexpr int64_t kPollNs = 20 * kNsPerMs;

// A member that is a string, or "".
std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Whether a member is true; of another type it is not.
bool FlagOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && *found == true;
}

// A member that is an array, or an empty one.
Json ArrayOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : Json::array();
}

// Somebody else's server: nothing of it is ours to start or stop.
class UrlTarget : public Target {
 public:
  UrlTarget(TargetSpec spec, const wire::Url& url) : spec_(std::move(spec)) {
    if (!url.unix_path.empty() || url.tls) return;
    origin_ = "http://" + url.Authority();
    const bool here = url.host == "127.0.0.1" || url.host == "localhost" || url.host == "::1";
    if (here) port_ = url.port;
  }

  TargetKind kind() const override { return spec_.kind; }
  std::string url() const override { return spec_.url; }
  std::string request_model() const override { return spec_.model; }
  std::string model_file() const override { return spec_.model_file; }
  bool tells_timeline() const override { return false; }

  Result<MonoTime> Spawn(const std::vector<std::string>&) override { return NotOurs(); }
  Status PickPort() override { return NotOurs(); }
  Status WaitReady(MonoTime) override { return {}; }
  Status Stop(MonoTime) override { return {}; }
  bool Alive() override { return true; }
  std::string ExitText() override { return ""; }
  std::string LogTail() override { return ""; }

  // Who listens on the port, as /proc tells without asking the server. Remembered by pid and start
  // time: searching every process's descriptors takes some ms.
  std::optional<ProcessIdentity> Identity() override {
    if (port_ == 0) return std::nullopt;
    if (listener_) {
      const Result<int64_t> ticks = os::ProcessStartTicks(listener_->pid);
      if (ticks.ok() && *ticks == listener_->start_ticks) return listener_;
    }
    listener_.reset();
    const std::optional<int> pid = os::PidListeningOn(port_);
    if (!pid) return std::nullopt;
    const Result<int64_t> ticks = os::ProcessStartTicks(*pid);
    if (ticks.ok()) listener_ = ProcessIdentity{.pid = *pid, .start_ticks = *ticks};
    return listener_;
  }
  std::vector<int> Tree() override {
    const std::optional<ProcessIdentity> identity = Identity();
    return identity ? os::ProcessTree(identity->pid) : std::vector<int>();
  }

  Status LoadModel(MonoTime) override { return NotKnown(); }
  Status UnloadModel(MonoTime) override { return NotKnown(); }
  Result<ServerState> ReadState() override { return NotKnown(); }

 protected:
  Result<ControlReply> Call(std::string_view method, const std::string& path, const Json& body,
                            MonoTime deadline) {
    if (origin_.empty()) {
      return Error(ErrorCode::kUnsupported, "control calls need a plain http:// address");
    }
    const ControlHeaders headers = Headers();
    const std::string text = body.is_null() ? "" : body.dump();
    ControlReply reply;
    for (;;) {
      ASSIGN_OR_RETURN(reply,
                       CallControl(origin_, method, path, text, {deadline, interrupt()}, headers));
      if (reply.status < 300) return reply;
      // It listens, and says itself that it cannot answer yet: it is loading its model.
      if (reply.status != 503 || MonoNow() + kPollNs >= deadline) break;
      if (Interrupted()) return Error(ErrorCode::kInterrupted, "interrupted");
      RealClock().SleepFor(kPollNs);
    }
    return Error(ErrorCode::kState, std::string(method) + " " + path + " answers " +
                                        std::to_string(reply.status) + ": " +
                                        reply.body.substr(0, 200));
  }

  const std::string& Origin() const { return origin_; }

  ControlHeaders Headers() const {
    ControlHeaders headers;
    for (const auto& [header, variable] : spec_.headers_env) {
      const char* const value = std::getenv(variable.c_str());
      headers.emplace_back(header, value == nullptr ? "" : value);
    }
    return headers;
  }

  Result<Json> GetJson(const std::string& path) {
    ASSIGN_OR_RETURN(const ControlReply reply, Call("GET", path, Json(), MonoNow() + kStartingNs));
    Json json = Json::parse(reply.body, nullptr, false);
    if (json.is_object()) return json;
    return Error(ErrorCode::kCorrupt, "GET " + path + " does not answer with a JSON object");
  }

  // Polls the state: unloading and loading go on after the call was answered.
  Status Until(bool loaded, MonoTime deadline, const std::string& call) {
    for (;;) {
      const Result<ServerState> state = ReadState();
      if (!state.ok()) return state.error();
      if (state->model_loaded == loaded) return {};
      if (Interrupted()) return Error(ErrorCode::kInterrupted, "interrupted");
      if (MonoNow() >= deadline) {
        return Error(ErrorCode::kTimeout, call + " did not take effect in time");
      }
      RealClock().SleepFor(kPollNs);
    }
  }

  static Error NotOurs() {
    return Error(ErrorCode::kUnsupported,
                 "a server that is given by its URL is not ours to start or end");
  }

  TargetSpec spec_;

 private:
  static Error NotKnown() {
    return Error(ErrorCode::kUnsupported,
                 "of a server that is given by its URL alone no control calls are known");
  }

  std::string origin_;
  int port_ = 0;  // 0: on another machine, or not a TCP port
  std::optional<ProcessIdentity> listener_;
};

// llama.cpp's server: GET /models lists the models of a router with their status; GET /props tells
// whether a single one sleeps. Neither wakes it, by its documentation.
class LlamaServerTarget : public UrlTarget {
 public:
  using UrlTarget::UrlTarget;

  Result<ServerState> ReadState() override {
    ASSIGN_OR_RETURN(const Json models, GetJson("/models"));
    ServerState state;
    state.json = models.dump();
    std::string known;
    router_ = false;
    for (const Json& model : ArrayOf(models, "data")) {
      if (!model.is_object() || !model.contains("status") || !model["status"].is_object()) continue;
      router_ = true;
      known += (known.empty() ? "" : ", ") + TextOf(model, "id");
      if (TextOf(model, "id") != spec_.model) continue;
      const std::string value = TextOf(model["status"], "value");
      if (value == "loaded") state.model_loaded = true;
      if (value == "unloaded" || value == "sleeping") state.model_loaded = false;
      failed_ = FlagOf(model["status"], "failed");
      return state;
    }
    if (router_) {
      return Error(ErrorCode::kState,
                   "the router has no model \"" + spec_.model + "\"; it has " + known);
    }
    ASSIGN_OR_RETURN(const Json props, GetJson("/props"));
    state.model_loaded = !FlagOf(props, "is_sleeping");
    return state;
  }

  Status LoadModel(MonoTime deadline) override {
    const Result<ServerState> before = ReadState();
    if (!before.ok()) return before.error();
    if (!router_) return {};  // asleep: the primer wakes it
    RETURN_IF_ERROR(Ask("/models/load", deadline));
    Status loaded = Until(true, deadline, "POST /models/load");
    if (!loaded.ok() && failed_) {
      return Error(ErrorCode::kState, "the router could not load \"" + spec_.model + "\"");
    }
    return loaded;
  }

  Result<PrefixSize> MeasurePrefix(MonoTime deadline) override {
    for (const CommandLine& line : CommandLines()) {
      const std::optional<std::string> folder = SlotFolder(line.words);
      if (folder) return LargestSlotPrefix(Origin(), *folder, Headers(), deadline);
    }
    return Target::MeasurePrefix(deadline);
  }

  Status UnloadModel(MonoTime deadline) override {
    const Result<ServerState> before = ReadState();
    if (!before.ok()) return before.error();
    if (!router_) return WaitUntilAsleep(deadline);
    RETURN_IF_ERROR(Ask("/models/unload", deadline));
    return Until(false, deadline, "POST /models/unload");
  }

 private:
  // A single-model server has no unload call. It sleeps by itself, which frees the model, its
  // context and its prompt cache; asking for its state does not keep it awake.
  Status WaitUntilAsleep(MonoTime deadline) {
    const std::optional<int64_t> seconds = SleepIdleSeconds();
    const bool in_time = !seconds || MonoNow() + *seconds * kNsPerSecond < deadline;
    if (seconds != -1 && in_time) {
      const Status asleep = Until(false, deadline, "--sleep-idle-seconds");
      if (asleep.ok() || asleep.error().code() != ErrorCode::kTimeout) return asleep;
    }
    return Error(ErrorCode::kUnsupported,
                 "a single-model llama-server is unloaded by its own sleep only, and this one " +
                     std::string(seconds == -1 ? "never sleeps" : "does not sleep in time") +
                     ": start it with --sleep-idle-seconds 1, or without a model and with "
                     "--models-dir, or let rouse start it (--target 'cmd:llama-server ...') and "
                     "take process = \"new\"");
  }

  // As its command line says; -1 = never. Empty when its process cannot be seen.
  std::optional<int64_t> SleepIdleSeconds() {
    const std::optional<ProcessIdentity> identity = Identity();
    if (!identity) return std::nullopt;
    const Result<std::string> line = os::ProcRoot::Real().ReadOf(identity->pid, "cmdline");
    if (!line.ok()) return std::nullopt;
    const std::vector<std::string_view> words = SplitAt(*line, '\0');
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == "--sleep-idle-seconds") return ParseInt64(words[i + 1]);
    }
    return -1;
  }

  Status Ask(const std::string& path, MonoTime deadline) {
    const auto reply = Call("POST", path, Json{{"model", spec_.model}}, deadline);
    return reply.ok() ? Status() : Status(reply.error());
  }

  bool router_ = false;
  bool failed_ = false;
};

class OllamaTarget : public UrlTarget {
 public:
  using UrlTarget::UrlTarget;

  Result<ServerState> ReadState() override {
    ASSIGN_OR_RETURN(const Json answer, GetJson("/api/ps"));
    ServerState state;
    state.json = answer.dump();
    const Json models = ArrayOf(answer, "models");
    bool listed = false;
    for (const Json& model : models) {
      if (!model.is_object()) continue;
      if (!IsOurs(TextOf(model, "model")) && !IsOurs(TextOf(model, "name"))) continue;
      listed = true;
      if (model.contains("size") && model["size"].is_number_integer()) {
        state.memory_bytes = model["size"].get<int64_t>();
      }
    }
    state.model_loaded = listed;
    // The list is emptied first; the runner, which has the memory, ends some 100 ms later.
    if (models.empty() && Tree().size() > 1) state.model_loaded.reset();
    return state;
  }

  // For as long as the server's own setting says: a keep_alive of ours would stay with the model
  // after the run, and an idle time would find a model that its users' server has unloaded.
  Status LoadModel(MonoTime deadline) override {
    return Generate({{"model", spec_.model}, {"stream", false}}, true, deadline);
  }
  // The number 0: a text lacks a unit and is refused.
  Status UnloadModel(MonoTime deadline) override {
    return Generate({{"model", spec_.model}, {"keep_alive", 0}, {"stream", false}}, false,
                    deadline);
  }

 private:
  bool IsOurs(const std::string& name) const {
    return name == spec_.model || name == spec_.model + ":latest";
  }

  // Without a prompt it loads or unloads, and generates nothing.
  Status Generate(const Json& body, bool loaded, MonoTime deadline) {
    const auto reply = Call("POST", "/api/generate", body, deadline);
    if (!reply.ok()) return reply.error();
    return Until(loaded, deadline,
                 loaded ? "POST /api/generate" : "POST /api/generate with keep_alive 0");
  }
};

class LlamaSwapTarget : public UrlTarget {
 public:
  using UrlTarget::UrlTarget;

  Result<ServerState> ReadState() override {
    ASSIGN_OR_RETURN(const Json answer, GetJson("/running"));
    ServerState state;
    state.json = answer.dump();
    state.model_loaded = false;
    for (const Json& model : ArrayOf(answer, "running")) {
      if (!model.is_object() || TextOf(model, "model") != spec_.model) continue;
      state.model_loaded.reset();
      if (TextOf(model, "state") == "ready") state.model_loaded = true;
      if (TextOf(model, "state") == "stopped") state.model_loaded = false;
    }
    return state;
  }

  // Whatever the upstream server answers: the request has started it.
  Status LoadModel(MonoTime deadline) override {
    const auto reply = Call("GET", "/upstream/" + spec_.model + "/health", Json(), deadline);
    if (!reply.ok() && reply.error().code() != ErrorCode::kState) return reply.error();
    return Until(true, deadline, "GET /upstream/" + spec_.model + "/");
  }

  // Ends all of its models; the documented call for everybody.
  Status UnloadModel(MonoTime deadline) override {
    const auto reply = Call("GET", "/unload", Json(), deadline);
    if (!reply.ok()) return reply.error();
    return Until(false, deadline, "GET /unload");
  }
};

class VllmTarget : public UrlTarget {
 public:
  using UrlTarget::UrlTarget;

  Result<ServerState> ReadState() override {
    const Result<Json> answer = GetJson("/is_sleeping");
    if (!answer.ok()) return Hint(answer.error());
    ServerState state;
    state.json = answer->dump();
    const auto sleeping = answer->find("is_sleeping");
    if (sleeping != answer->end() && sleeping->is_boolean()) {
      state.model_loaded = !sleeping->get<bool>();
    }
    return state;
  }

  Status LoadModel(MonoTime deadline) override {
    const auto reply = Call("POST", "/wake_up", Json(), deadline);
    if (!reply.ok()) return Hint(reply.error());
    return Until(true, deadline, "POST /wake_up");
  }
  // Level 1: level 2 drops the weights, which no single call brings back.
  Status UnloadModel(MonoTime deadline) override {
    const auto reply = Call("POST", "/sleep?level=1", Json(), deadline);
    if (!reply.ok()) return Hint(reply.error());
    return Until(false, deadline, "POST /sleep?level=1");
  }
  Status ForgetPrefixes(MonoTime deadline) override {
    const auto reply = Call("POST", "/reset_prefix_cache", Json(), deadline);
    return reply.ok() ? Status() : Status(Hint(reply.error()));
  }

 private:
  static Error Hint(const Error& error) {
    if (error.message().find("answers 404") == std::string::npos) return error;
    return Error(
        ErrorCode::kUnsupported,
        error.message() + " (start vLLM with VLLM_SERVER_DEV_MODE=1 and --enable-sleep-mode)");
  }
};

}  // namespace

Result<std::unique_ptr<Target>> MakeManagedTarget(const TargetSpec& spec) {
  ASSIGN_OR_RETURN(const wire::Url url, wire::ParseUrl(spec.url));
  switch (spec.kind) {
    case TargetKind::kLlamaServer:
      return std::unique_ptr<Target>(std::make_unique<LlamaServerTarget>(spec, url));
    case TargetKind::kOllama:
      return std::unique_ptr<Target>(std::make_unique<OllamaTarget>(spec, url));
    case TargetKind::kLlamaSwap:
      return std::unique_ptr<Target>(std::make_unique<LlamaSwapTarget>(spec, url));
    case TargetKind::kVllm:
      return std::unique_ptr<Target>(std::make_unique<VllmTarget>(spec, url));
    default:
      return std::unique_ptr<Target>(std::make_unique<UrlTarget>(spec, url));
  }
}

}  // namespace rouse::lab
