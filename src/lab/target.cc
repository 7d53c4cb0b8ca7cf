// The kinds of target that rouse starts. The built-in server and a command share everything about
// processes; what differs is how they are asked for their state. Servers that run already are in
// lab/managed_target.cc.
#include "lab/target.h"

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/strings.h"
#include "lab/command_line.h"
#include "lab/control.h"
#include "lab/managed_target.h"
#include "models/catalog.h"
#include "os/proc_root.h"
#include "os/process.h"

namespace rouse::lab {
namespace {

constexpr int64_t kPollNs = 5 * kNsPerMs;
constexpr int64_t kLogTailBytes = 2000;
constexpr int64_t kControlNs = 10 * kNsPerSecond;

MonoTime Earlier(MonoTime a, MonoTime b) { return a < b ? a : b; }

// A member that is a string, or "".
std::string TextOf(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// A loopback port that is free now. Another process may take it before our server does; the server
// then ends with that message, and the attempt is begun again on another port.
Result<int> FreePort() {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Error::FromErrno(errno, "cannot pick a port on 127.0.0.1");
  }
  return int{ntohs(address.sin_port)};
}

// SO_REUSEADDR lets connections that are closing pass, and nobody who listens.
bool IsListenedOn(int port) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return fd.valid() && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
         bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
         errno == EADDRINUSE;
}

// A process of ours behind a loopback port.
class ProcessTarget : public Target {
 public:
  explicit ProcessTarget(TargetSpec spec) : spec_(std::move(spec)) {}

  Status Prepare() {
    // The log lives in memory and has no name: nothing is left behind when the tool is killed. The
    // server's spawner is another process and opens it through /proc.
    log_.Reset(memfd_create("rouse-target-log", MFD_CLOEXEC));
    if (!log_.valid()) return Error::FromErrno(errno, "cannot make the server's log");
    if (!spec_.compile_cache_env.empty()) {
      ASSIGN_OR_RETURN(compile_cache_, CompileCache::Make());
    }
    log_path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(log_.get());
    return PickPort();
  }

  TargetKind kind() const override { return spec_.kind; }
  std::string url() const override { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string model_file() const override { return moved_to_.empty() ? model_file_ : moved_to_; }
  Status UseModelFile(const std::string& path) override {
    moved_to_ = path;
    return {};
  }

  Status LimitReads(const std::optional<os::ReadLimit>& limit) override {
    read_limit_ = limit;
    return {};
  }

  Status PickPort() override {
    ASSIGN_OR_RETURN(port_, FreePort());
    return {};
  }

  Result<MonoTime> Spawn(const std::vector<std::string>& args) override {
    child_ = os::Child();
    exit_text_.clear();
    if (ftruncate(log_.get(), 0) != 0) return Error::FromErrno(errno, "cannot empty the log");
    os::SpawnOptions options;
    ASSIGN_OR_RETURN(options.argv, Argv(args));
    // A key of the user's own server is not for this one.
    options.environment_removed = {"ROUSE_API_KEY"};
    if (compile_cache_) {
      options.environment.emplace_back(spec_.compile_cache_env, compile_cache_->directory());
    }
    // A group for each start: its warden removes it with the last process in it.
    if (read_limit_) {
      ASSIGN_OR_RETURN(options.cgroup_directory, os::MakeReadLimitGroup(*read_limit_));
      options.remove_cgroup = true;
    }
    options.stdout_to = os::OutputTo::File(log_path_);
    options.stderr_to = os::OutputTo::File(log_path_);
    Result<os::Child> child = os::Spawn(options);
    if (!child.ok()) {
      if (options.remove_cgroup) rmdir(options.cgroup_directory.c_str());
      return child.error();
    }
    child_ = *std::move(child);
    return child_.forked_at();
  }

  Status Stop(MonoTime deadline) override {
    if (!child_.valid()) return {};
    const int64_t grace_ns = std::max<int64_t>(0, (deadline - MonoNow()) / 2);
    const Result<os::ExitInfo> exit = child_.Stop(std::min(grace_ns, 5 * kNsPerSecond));
    if (!exit.ok()) return exit.error();
    child_ = os::Child();
    return {};
  }

  bool Alive() override { return child_.valid() && !child_.HasExited(); }

  std::optional<ProcessIdentity> Identity() override {
    if (!Alive()) return std::nullopt;
    return ProcessIdentity{.pid = child_.pid(), .start_ticks = child_.start_time_ticks()};
  }

  std::vector<int> Tree() override { return child_.valid() ? child_.Tree() : std::vector<int>(); }

  std::string ExitText() override {
    if (!child_.valid() || !child_.HasExited()) return exit_text_;
    const Result<os::ExitInfo> exit = child_.Wait(MonoNow() + kNsPerSecond);
    if (exit.ok()) exit_text_ = exit->Describe();
    return exit_text_;
  }

  std::string LogTail() override { return os::ReadTail(log_path_, kLogTailBytes); }
  bool PortTaken() override { return child_.valid() && !Alive() && IsListenedOn(port_); }
  const CompileCache* compile_cache() const override { return compile_cache_.get(); }

 protected:
  virtual Result<std::vector<std::string>> Argv(const std::vector<std::string>& args) const = 0;

  Error Died() {
    std::string message = "the server " + ExitText() + " before it was ready";
    const std::string tail = LogTail();
    if (!tail.empty()) message += "; its last words:\n" + tail;
    return Error(ErrorCode::kState, message);
  }

  // Polls `done` until it is true, the process ends, an interrupt, or the deadline.
  template <typename Done>
  Status PollUntil(MonoTime deadline, std::string_view what, Done done) {
    while (!done()) {
      if (!Alive()) return Died();
      if (Interrupted()) return Error(ErrorCode::kInterrupted, "interrupted");
      if (MonoNow() >= deadline) {
        return Error(ErrorCode::kTimeout, std::string(what) + " in time");
      }
      RealClock().SleepFor(kPollNs);
    }
    return {};
  }

  TargetSpec spec_;
  std::string model_file_;
  std::string moved_to_;  // the same bytes elsewhere; "" = model_file_
  std::optional<os::ReadLimit> read_limit_;
  int port_ = 0;

 private:
  Fd log_;
  std::string log_path_;
  std::unique_ptr<CompileCache> compile_cache_;
  os::Child child_;
  std::string exit_text_;
};

class BuiltinTarget : public ProcessTarget {
 public:
  using ProcessTarget::ProcessTarget;

  Status Resolve() {
    ASSIGN_OR_RETURN(const models::ModelFile model, models::Resolve(spec_.model));
    model_file_ = model.path;
    std::array<char, 4096> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    binary_ = length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : "";
    // A binary that was replaced while it runs has no usable name any more.
    if (access(binary_.c_str(), X_OK) != 0) binary_ = "/proc/self/exe";
    return Prepare();
  }

  std::string request_model() const override { return ""; }
  bool tells_timeline() const override { return true; }

  Status WaitReady(MonoTime deadline) override {
    failure_.clear();
    RETURN_IF_ERROR(PollUntil(deadline, "the built-in server did not load its model", [&] {
      const Result<ServerState> state = ReadState();
      return (state.ok() && state->model_loaded == true) || !failure_.empty();
    }));
    if (failure_.empty()) return {};
    return Error(ErrorCode::kState, "the built-in server could not load its model: " + failure_);
  }

  Status LoadModel(MonoTime deadline) override {
    return Ask("/models/load", deadline,
               [](const ServerState& state) { return state.model_loaded == true; });
  }
  Status SleepModel(MonoTime deadline) override {
    return Ask("/models/sleep", deadline, [](const ServerState& state) { return state.asleep; });
  }
  Status UnloadModel(MonoTime deadline) override {
    return Ask("/models/unload", deadline, [](const ServerState& state) {
      return state.model_loaded == false && !state.asleep;
    });
  }

  Result<ServerState> ReadState() override {
    ASSIGN_OR_RETURN(const ControlReply reply, CallControl(url(), "GET", "/state", "",
                                                           {MonoNow() + kControlNs, interrupt()}));
    if (reply.status != 200) {
      return Error(ErrorCode::kState, "GET /state answers " + std::to_string(reply.status));
    }
    return ParseState(reply.body);
  }

 protected:
  Result<std::vector<std::string>> Argv(const std::vector<std::string>& args) const override {
    std::vector<std::string> argv = {binary_,     "serve",
                                     "--model",   model_file(),
                                     "--host",    "127.0.0.1",
                                     "--port",    std::to_string(port_),
                                     "--context", std::to_string(spec_.context)};
    argv.insert(argv.end(), spec_.args.begin(), spec_.args.end());
    argv.insert(argv.end(), args.begin(), args.end());
    return argv;
  }

 private:
  Result<ServerState> ParseState(const std::string& body) {
    const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
    const auto bad = [] {
      return Error(ErrorCode::kCorrupt, "GET /state does not answer in rouse.server_state/1");
    };
    if (json.is_discarded() || !json.is_object()) return bad();
    const auto models = json.find("models");
    if (models == json.end() || !models->is_array() || models->empty()) return bad();
    const nlohmann::json& model = models->front();
    if (!model.is_object() || !model.contains("layers") || !model["layers"].is_object()) {
      return bad();
    }
    model_id_ = TextOf(model, "id");
    ServerState state;
    state.json = body;
    const nlohmann::json& layers = model["layers"];
    // Anything between the two (loading, one half there) is neither.
    const std::string weights = TextOf(layers, "weights");
    if (weights == "ready" && TextOf(layers, "context") == "ready") state.model_loaded = true;
    state.asleep = weights == "asleep";
    if (weights == "absent" || state.asleep) state.model_loaded = false;
    failure_ = TextOf(model, "failure");
    if (model.contains("memory_bytes") && model["memory_bytes"].is_number_integer()) {
      state.memory_bytes = model["memory_bytes"].get<int64_t>();
    }
    return state;
  }

  template <typename Done>
  Status Ask(const std::string& path, MonoTime deadline, Done done) {
    if (model_id_.empty()) RETURN_IF_ERROR(StateOnly());
    const nlohmann::json body = {{"model", model_id_}};
    ASSIGN_OR_RETURN(const ControlReply reply,
                     CallControl(url(), "POST", path, body.dump(), {deadline, interrupt()}));
    if (reply.status >= 300) {
      return Error(ErrorCode::kState,
                   "POST " + path + " answers " + std::to_string(reply.status) + ": " + reply.body);
    }
    return PollUntil(deadline, "POST " + path + " did not take effect", [&] {
      const Result<ServerState> state = ReadState();
      return state.ok() && done(*state);
    });
  }

  Status StateOnly() {
    const Result<ServerState> state = ReadState();
    return state.ok() ? Status() : Status(state.error());
  }

  std::string binary_;
  std::string model_id_;
  std::string failure_;  // of the last load, as GET /state tells it
};

class CommandTarget : public ProcessTarget {
 public:
  using ProcessTarget::ProcessTarget;

  Status Resolve() {
    ASSIGN_OR_RETURN(words_, SplitCommand(spec_.command));
    model_file_ = spec_.model_file;
    if (spec_.command.find("{model}") != std::string::npos) {
      ASSIGN_OR_RETURN(const models::ModelFile model, models::Resolve(spec_.model));
      model_path_ = model.path;
      if (model_file_.empty()) model_file_ = model.path;
      std::error_code failed;
      if (!std::filesystem::equivalent(model_file_, model.path, failed)) {
        return Error(ErrorCode::kUsage,
                     "model_file " + model_file_ + " is not the file that {model} stands for, " +
                         model.path +
                         ":\nthe server would load one and the other's pages would "
                         "be proved. Name it by --model FILE and leave --model-file out");
      }
    }
    return Prepare();
  }

  std::string request_model() const override { return spec_.model; }
  bool tells_timeline() const override { return false; }

  std::vector<std::string> FilledIn(const std::vector<std::string>& args) const override {
    std::vector<std::string> filled;
    for (const std::string& word : args) {
      filled.push_back(
          ReplaceAll(ReplaceAll(word, "{port}", std::to_string(port_)), "{model}", ModelPath()));
    }
    return filled;
  }

  // Accepting a connection wakes nothing; whether it can answer is told by the primer.
  Status WaitReady(MonoTime deadline) override {
    return PollUntil(deadline, "the server did not accept a connection", [&] {
      return AcceptsConnections(url(), {Earlier(deadline, MonoNow() + kNsPerSecond), interrupt()});
    });
  }

  Status LoadModel(MonoTime) override { return NoCall(); }
  Status UnloadModel(MonoTime) override { return NoCall(); }
  Result<PrefixSize> MeasurePrefix(MonoTime deadline) override {
    for (const CommandLine& line : CommandLines()) {
      const std::optional<std::string> folder = SlotFolder(line.words);
      if (folder) return LargestSlotPrefix(url(), *folder, {}, deadline);
    }
    return Target::MeasurePrefix(deadline);
  }
  Result<ServerState> ReadState() override { return NoCall().error(); }

 protected:
  Result<std::vector<std::string>> Argv(const std::vector<std::string>& args) const override {
    std::vector<std::string> argv;
    for (const std::vector<std::string>& words : {words_, spec_.args, args}) {
      for (std::string& word : FilledIn(words)) argv.push_back(std::move(word));
    }
    return argv;
  }

 private:
  const std::string& ModelPath() const { return moved_to_.empty() ? model_path_ : moved_to_; }

  static Status NoCall() {
    return Error(ErrorCode::kUnsupported, "rouse knows no load, unload or state call of a command");
  }

  std::vector<std::string> words_;
  std::string model_path_;
};

template <typename Kind>
Result<std::unique_ptr<Target>> Resolved(const TargetSpec& spec) {
  auto target = std::make_unique<Kind>(spec);
  RETURN_IF_ERROR(target->Resolve());
  return std::unique_ptr<Target>(std::move(target));
}

}  // namespace

std::vector<CommandLine> Target::CommandLines() {
  std::vector<CommandLine> lines;
  for (const int pid : Tree()) {
    const Result<std::string> text = os::ProcRoot::Real().ReadOf(pid, "cmdline");
    if (!text.ok()) continue;  // it has ended
    CommandLine& line = lines.emplace_back();
    line.pid = pid;
    for (const std::string_view word : SplitAt(*text, '\0')) line.words.emplace_back(word);
  }
  return lines;
}

Result<std::unique_ptr<Target>> MakeTarget(const TargetSpec& spec) {
  for (const auto& [header, variable] : spec.headers_env) {
    if (std::getenv(variable.c_str()) != nullptr) continue;
    return Error(ErrorCode::kUsage, "header " + header + " comes from the environment variable " +
                                        variable + ", which is not set");
  }
  switch (spec.kind) {
    case TargetKind::kBuiltin:
      return Resolved<BuiltinTarget>(spec);
    case TargetKind::kCommand:
      return Resolved<CommandTarget>(spec);
    default:
      return MakeManagedTarget(spec);
  }
}

}  // namespace rouse::lab
