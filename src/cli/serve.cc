// `rouse serve`: the built-in server from the command line. It opens its socket first, so that
// clients can connect while the model's header is still being checked, and begins to load at once.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/terminal_text.h"
#include "base/time.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output_text.h"
#include "engine/engine.h"
#include "models/catalog.h"
#include "server/api_key.h"
#include "server/model_server.h"
#include "server/weights_reader.h"

namespace rouse::cli {
namespace {

constexpr int kInterruptedStatus = 130;

struct ServeFlags {
  CommonFlags common;
  std::string model = std::string(models::kDefaultModel);
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string load = "eager";
  std::string flash_attention = "auto";
  std::string api_key_file;
  std::string api_key;  // refused
  int64_t queue_limit = 64;
  int parallel = 1;
  bool verbose = false;
  std::string sleep_after;
  std::string unload_after;
  std::string keep_leading;
  std::string repack = "off";
  std::string reader = "on";
  engine::EngineOptions engine;
};

// What is in memory, and when it is given back.
void AddMemoryFlags(CLI::App& app, ServeFlags& flags) {
  app.add_option(
      "--sleep-after", flags.sleep_after,
      "Put the model to sleep when nobody asked for so long: the weights' pages and the\n"
      "KV's memory are dropped, all else stays (10m)");
  app.add_option("--unload-after", flags.unload_after,
                 "Unload it when nobody asked for so long: only tokenizer and template stay (2h)");
  app.add_option("--keep-leading", flags.keep_leading,
                 "Lock the part of the file that a first token needs first in memory, also while\n"
                 "asleep and unloaded: bytes (500MB) or a share (20%)");
  app.add_option("--repack", flags.repack,
                 "Rearrange quantized weights for this CPU: off, on (while loading) or auto (when\n"
                 "the prompt that waits is long enough, else when nobody waits)")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app.add_option("--reader", flags.reader, "Read the file ahead of its use: on or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
}

void AddFlags(CLI::App& app, ServeFlags& flags) {
  AddCommonFlags(app, flags.common);
  app.add_option("--model", flags.model, "A GGUF file, or a name that `rouse models` lists")
      ->capture_default_str();
  app.add_option("--host", flags.host, "Address to listen on")->capture_default_str();
  app.add_option("--port", flags.port, "Port to listen on; 0 picks a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--context", flags.engine.context_tokens,
                 "Tokens of prompt and answer together; 0 = as long as the model was trained for")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--threads", flags.engine.threads, "Compute threads; 0 = one per physical core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--flash-attn", flags.flash_attention, "auto, on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app.add_option("--cache-type-k", flags.engine.cache_type_k, "Type of the keys in the KV cache")
      ->capture_default_str();
  app.add_option("--cache-type-v", flags.engine.cache_type_v, "Type of the values in the KV cache")
      ->capture_default_str();
  app.add_option("--gpu-layers", flags.engine.gpu_layers, "Layers on the GPU; -1 = all")
      ->check(CLI::Range(-1, 1 << 20))
      ->capture_default_str();
  app.add_option("--parallel", flags.parallel, "Requests answered at once; others wait")
      ->check(CLI::Range(1, 1))
      ->capture_default_str();
  app.add_option("--queue-limit", flags.queue_limit, "Requests that may wait; one more gets 429")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--load", flags.load, "eager = now, lazy = with the first request")
      ->check(CLI::IsMember({"eager", "lazy"}))
      ->capture_default_str();
  AddMemoryFlags(app, flags);
  app.add_option("--api-key-file", flags.api_key_file,
                 "File with the key that clients must send; else $ROUSE_API_KEY, else no key");
  // Known only to be refused in words that help; not shown by --help.
  app.add_option("--api-key", flags.api_key)->group("");
  app.add_flag("--verbose", flags.verbose, "Say more on stderr: loads, unloads");
  app.footer(
      "When it listens, it prints one line of JSON: {\"schema\": \"rouse.ready/1\", \"host\",\n"
      "\"port\", \"pid\", \"model\"}. Requests that come while the model loads are queued.\n"
      "SIGTERM and SIGINT finish what runs, then end; a second one ends at once.\n\n"
      "Example: rouse serve --model smollm2-135m --port 8080 --sleep-after 10m\n"
      "         curl http://127.0.0.1:8080/v1/chat/completions -d \\\n"
      "           '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"stream\": true}'");
}

Result<std::optional<std::string>> ApiKey(const ServeFlags& flags) {
  if (!flags.api_key.empty()) {
    return Error(
        ErrorCode::kUsage,
        "serve: every user of this machine can read a key on a command line; put it into a "
        "file and give --api-key-file, or into ROUSE_API_KEY");
  }
  if (!flags.api_key_file.empty()) {
    ASSIGN_OR_RETURN(std::string key, server::ReadApiKeyFile(flags.api_key_file));
    return std::optional<std::string>(std::move(key));
  }
  const char* const variable = std::getenv("ROUSE_API_KEY");
  if (variable == nullptr || variable[0] == '\0') return std::optional<std::string>();
  return std::optional<std::string>(variable);
}

server::Log MakeLog(const ServeFlags& flags) {
  const bool quiet = flags.common.quiet;
  const bool verbose = flags.verbose;
  return [quiet, verbose](server::LogLevel level, const std::string& line) {
    static std::mutex mutex;
    if (level == server::LogLevel::kNotice && quiet) return;
    if (level == server::LogLevel::kDetail && !verbose) return;
    const std::string when = FormatWallTime(WallNowNs());
    const std::lock_guard lock(mutex);
    std::fprintf(stderr, "rouse serve: %s %s\n", when.c_str(), SafeText(line).c_str());
  };
}

// Signals and events from other threads, as descriptors that one poll() can wait for.
class Events {
 public:
  // Blocks the signals: before any thread is started, so that all inherit it.
  static Result<Events> Make() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    Events events;
    events.signals_.Reset(signalfd(-1, &signals, SFD_CLOEXEC));
    events.drained_.Reset(eventfd(0, EFD_CLOEXEC));
    events.failed_.Reset(eventfd(0, EFD_CLOEXEC));
    events.stopped_.Reset(eventfd(0, EFD_CLOEXEC));
    if (!events.signals_.valid() || !events.drained_.valid() || !events.failed_.valid() ||
        !events.stopped_.valid()) {
      return Error::FromErrno(errno, "cannot wait for signals");
    }
    return events;
  }

  enum class Kind { kSignal, kDrained, kFailed, kStopped };
  // Waits for the next one, failures first.
  Kind Wait() const {
    while (true) {
      std::array<pollfd, 4> waits = {
          pollfd{failed_.get(), POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0},
          pollfd{drained_.get(), POLLIN, 0}, pollfd{stopped_.get(), POLLIN, 0}};
      if (::poll(waits.data(), waits.size(), -1) <= 0) continue;
      if (waits[0].revents != 0 && Take(failed_, sizeof(uint64_t))) return Kind::kFailed;
      if (waits[1].revents != 0 && Take(signals_, sizeof(signalfd_siginfo))) return Kind::kSignal;
      if (waits[2].revents != 0 && Take(drained_, sizeof(uint64_t))) return Kind::kDrained;
      if (waits[3].revents != 0 && Take(stopped_, sizeof(uint64_t))) return Kind::kStopped;
    }
  }

  // From any thread.
  void TellDrained() const { Tell(drained_); }
  void TellFailed() const { Tell(failed_); }
  void TellStopped() const { Tell(stopped_); }

 private:
  static bool Take(const Fd& fd, size_t bytes) {
    std::array<char, sizeof(signalfd_siginfo)> buffer{};
    return ::read(fd.get(), buffer.data(), bytes) == static_cast<ssize_t>(bytes);
  }
  static void Tell(const Fd& fd) {
    const uint64_t one = 1;
    if (::write(fd.get(), &one, sizeof one) != sizeof one) std::abort();
  }

  Fd signals_;
  Fd drained_;
  Fd failed_;
  Fd stopped_;
};

void PrintReady(const server::ModelServer& server, const std::string& model) {
  const nlohmann::ordered_json ready = {{"schema", "rouse.ready/1"},
                                        {"host", server.host()},
                                        {"port", server.port()},
                                        {"pid", ::getpid()},
                                        {"model", model}};
  std::printf("%s\n", DumpJson(ready).c_str());
  std::fflush(stdout);
}

// "" is never.
Result<std::optional<int64_t>> IdleTime(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::optional<int64_t>();
  const Result<int64_t> parsed = ParseDuration(text);
  if (!parsed.ok()) return Error(ErrorCode::kUsage, flag + ": " + parsed.error().message());
  return std::optional<int64_t>(*parsed);
}

// "20%" or bytes.
Status ParseKeepLeading(const std::string& text, engine::EngineOptions& options) {
  if (text.empty()) return {};
  if (text.ends_with('%')) {
    double percent = 0;
    const char* const end = text.data() + text.size() - 1;
    const auto [rest, status] = std::from_chars(text.data(), end, percent);
    if (status == std::errc() && rest == end && percent >= 0 && percent <= 100) {
      options.keep_leading_ratio = percent / 100;
      return {};
    }
    return Error(ErrorCode::kUsage,
                 "--keep-leading: \"" + text + "\" is not a share from 0% to 100%");
  }
  const Result<int64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return Error(ErrorCode::kUsage, "--keep-leading: " + bytes.error().message() +
                                        "; give bytes (500MB) or a share of the file (20%)");
  }
  options.keep_leading_bytes = *bytes;
  return {};
}

// Whatever can be said of the flags without looking at the model.
Result<server::IdlePolicy> CheckMemoryFlags(ServeFlags& flags) {
  server::IdlePolicy idle;
  ASSIGN_OR_RETURN(idle.sleep_after_ns, IdleTime("--sleep-after", flags.sleep_after));
  ASSIGN_OR_RETURN(idle.unload_after_ns, IdleTime("--unload-after", flags.unload_after));
  RETURN_IF_ERROR(ParseKeepLeading(flags.keep_leading, flags.engine));
  flags.engine.repack = flags.repack == "on"     ? engine::RepackMode::kOn
                        : flags.repack == "auto" ? engine::RepackMode::kAuto
                                                 : engine::RepackMode::kOff;
  return idle;
}

// Everything that can be at fault about the model is found here, before anything is mapped. The
// reader has begun by then, where the weights are wanted at once.
Result<server::ModelServer::RunOptions> PrepareModel(ServeFlags& flags) {
  server::ModelServer::RunOptions run;
  engine::Step header{engine::Stage::kWeights, "header", MonoNow(), {}, {}};
  ASSIGN_OR_RETURN(const models::ModelFile file, models::Resolve(flags.model));
  header.end = MonoNow();
  run.model = {file.name, file.path, file.parts, file.bytes, {header}};
  flags.engine.model_path = file.path;
  const std::map<std::string, engine::FlashAttention> choices = {
      {"auto", engine::FlashAttention::kAuto},
      {"on", engine::FlashAttention::kOn},
      {"off", engine::FlashAttention::kOff}};
  flags.engine.flash_attention = choices.at(flags.flash_attention);
  run.load_now = flags.load == "eager";
  run.reader = std::make_shared<server::WeightsReader>(file.parts, flags.reader == "on");
  if (run.load_now) run.reader->Begin();
  flags.engine.watcher = run.reader;
  run.make_engine = [options = flags.engine] { return engine::MakeLlamaEngine(options); };
  ASSIGN_OR_RETURN(run.engine, run.make_engine());
  return run;
}

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// Waits until the server is to end; its exit status.
int WaitForEnd(server::ModelServer& server, const Events& events, const server::Log& log,
               const std::optional<Error>& failure) {
  bool draining = false;
  std::jthread stopping;
  while (true) {
    switch (events.Wait()) {
      case Events::Kind::kSignal:
        if (draining) _exit(kInterruptedStatus);
        log(server::LogLevel::kNotice, "finishing what runs; a second signal ends at once");
        draining = true;
        server.Drain([&events] { events.TellDrained(); });
        break;
      case Events::Kind::kFailed:
        // Those who waited have their answers; let them be delivered.
        if (!draining) server.Drain([&events] { events.TellDrained(); });
        draining = true;
        break;
      case Events::Kind::kDrained:
        // Waits for whatever the engine is in the middle of; a second signal doesn't.
        stopping = std::jthread([&server, &events] {
          server.Stop();
          events.TellStopped();
        });
        break;
      case Events::Kind::kStopped:
        if (failure) return Fail(*failure);
        log(server::LogLevel::kNotice, "stopped");
        return 0;
    }
  }
}

int Serve(ServeFlags& flags, MonoTime main_entered) {
  const Result<std::optional<std::string>> api_key = ApiKey(flags);
  if (!api_key.ok()) return Fail(api_key.error());
  const Result<server::IdlePolicy> idle = CheckMemoryFlags(flags);
  if (!idle.ok()) return Fail(idle.error());
  const Result<Events> events = Events::Make();
  if (!events.ok()) return Fail(events.error());

  server::ModelServerOptions options;
  options.http.host = flags.host;
  options.http.port = flags.port;
  options.queue_limit = flags.queue_limit;
  options.api_key = *api_key;
  options.main_entered = main_entered;
  options.log = MakeLog(flags);
  const server::Log log = options.log;
  std::optional<Error> failure;  // written before TellFailed(), read after it
  auto server = server::ModelServer::Start(std::move(options));
  if (!server.ok()) return Fail(server.error());

  auto run = PrepareModel(flags);
  if (!run.ok()) return Fail(run.error());
  run->on_first_load_failed = [&failure, &events](const Error& error) {
    failure = error;
    events->TellFailed();
  };
  run->idle = *idle;
  const std::string model = run->model.id;
  (*server)->Run(*std::move(run));  // begins the load and returns
  PrintReady(**server, model);      // from here on /state and /v1/models know the model
  if (!api_key->has_value() && !IsLoopback((*server)->host())) {
    log(server::LogLevel::kNotice,
        "other machines can reach this server and it asks for no key; see --api-key-file");
  }
  log(server::LogLevel::kNotice, "serving " + model + " on http://" + (*server)->host() + ":" +
                                     std::to_string((*server)->port()));
  return WaitForEnd(**server, *events, log, failure);
}

}  // namespace

int RunServe(int argc, const char* const* argv) {
  const MonoTime main_entered = MonoNow();
  CLI::App app("The built-in server: the OpenAI API on one model, which tells its own state",
               "serve");
  ServeFlags flags;
  AddFlags(app, flags);
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  return Serve(flags, main_entered);
}

}  // namespace rouse::cli
