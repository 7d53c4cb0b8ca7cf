#include "server/model_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "server/api_error.h"
#include "server/api_key.h"
#include "server/completion_request.h"
#include "server/metrics.h"
#include "server/observer.h"
#include "server/residency.h"
#include "server/state.h"

namespace rouse::server {
namespace {

using Writer = std::shared_ptr<http::ResponseWriter>;

// Larger bodies are parsed off the I/O thread: 8 MiB of JSON take it some 50 ms.
constexpr size_t kParseHereBytes = size_t{128} * 1024;

http::Response JsonResponse(std::string body) {
  http::Response response;
  response.body = std::move(body);
  return response;
}

class ModelServerImpl : public ModelServer {
 public:
  ModelServerImpl(std::unique_ptr<http::Server> http, ModelServerOptions options)
      : api_key_(std::move(options.api_key)),
        log_(options.log ? std::move(options.log) : [](LogLevel, const std::string&) {}),
        started_wall_s_(WallNowNs() / kNsPerSecond),
        process_(ReadProcessFacts(options.main_entered)),
        queue_limit_(std::max<int64_t>(1, options.queue_limit)),
        worker_(queue_limit_, &metrics_, log_),
        http_(std::move(http)) {
    process_.listening = MonoNow();
    http_->Start(
        [this](const http::Request& request, const Writer& writer) { Handle(request, writer); },
        [this](std::string_view bytes) { OnFirstBytes(bytes); });
  }

  ~ModelServerImpl() override { Stop(); }

  int port() const override { return http_->port(); }
  std::string host() const override { return http_->host(); }

  void Run(RunOptions options) override {
    Worker::StartOptions start;
    start.model = std::move(options.model);
    start.engine = std::move(options.engine);
    start.process = process_;
    start.load_now = options.load_now;
    start.idle = options.idle;
    start.make_engine = std::move(options.make_engine);
    reader_ = options.reader;
    start.reader = std::move(options.reader);
    start.on_first_load_failed = std::move(options.on_first_load_failed);
    worker_.Start(std::move(start));
  }

  void Drain(std::function<void()> drained) override {
    draining_ = true;
    http_->Drain(std::move(drained));
  }

  void Stop() override {
    // First the source of jobs, whose callbacks use the worker; then those that answer.
    http_->Stop();
    observer_.Stop();
    worker_.Stop();
  }

 private:
  using Method = void (ModelServerImpl::*)(const http::Request&, const Writer&);
  struct Route {
    std::string_view method;
    std::string_view path;
    Method handle;
    bool open = false;  // without a key
  };
  static std::span<const Route> Routes();

  // On the I/O thread, as all handlers below.
  void Handle(const http::Request& request, const Writer& writer) {
    const std::string_view sent = request.method;
    const std::string_view method = sent == "HEAD" ? std::string_view("GET") : sent;
    std::string allowed;
    for (const Route& route : Routes()) {
      if (route.path != request.path) continue;
      if (route.method != method) {
        allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
        continue;
      }
      if (!route.open && api_key_ && !CarriesKey(request, *api_key_)) return Unauthorized(*writer);
      return (this->*route.handle)(request, writer);
    }
    if (IsForText(request.path)) EndReading();
    if (!allowed.empty()) return WrongMethod(request, allowed, *writer);
    writer->Send(ErrorResponse({.status = 404,
                                .message = "there is no " + request.path +
                                           " here; see GET "
                                           "/v1/models, /health, /state, /metrics and POST "
                                           "/v1/chat/completions, /v1/completions, /models/load, "
                                           "/models/sleep, /models/unload",
                                .code = "path_not_found"}));
  }

  void Unauthorized(http::ResponseWriter& writer) {
    writer.Send(ErrorResponse({.status = 401,
                               .message = "a valid API key is needed: Authorization: Bearer KEY",
                               .code = "invalid_api_key"}));
  }

  void WrongMethod(const http::Request& request, const std::string& allowed,
                   http::ResponseWriter& writer) {
    http::Response response =
        ErrorResponse({.status = 405,
                       .message = request.path + " takes " + allowed + ", not " + request.method,
                       .code = "method_not_allowed"});
    response.headers.push_back({"Allow", allowed});
    writer.Send(std::move(response));
  }

  // Anybody may connect; only who has the key may make the disk work.
  void OnFirstBytes(std::string_view bytes) {
    if (api_key_ || !bytes.starts_with("POST ")) return;
    if (IsForText(bytes.substr(5, bytes.find_first_of(" ?", 5) - 5))) BeginReading();
  }

  static bool IsForText(std::string_view path) { return path.ends_with("/completions"); }

  void BeginReading() {
    const std::shared_ptr<WeightsReader> reader = reader_.load();
    if (reader == nullptr) return;
    switch (worker_.snapshot()->phase) {
      case Phase::kUnloaded:
      case Phase::kAsleep:
      case Phase::kFailed:
        return reader->BeginEarly();
      case Phase::kStarting:  // has begun, or waits until the header was found to be sound
      case Phase::kLoading:
      case Phase::kReady:
        return;
    }
  }

  // What began with the first bytes of a request that is refused.
  void EndReading() {
    if (const std::shared_ptr<WeightsReader> reader = reader_.load()) reader->EndEarly();
  }

  ServerSnapshot Snapshot() const {
    ServerSnapshot snapshot;
    snapshot.now = MonoNow();
    snapshot.model = worker_.model();
    snapshot.worker = worker_.snapshot();
    snapshot.facts = worker_.facts();
    snapshot.process = process_;
    snapshot.waiting = worker_.waiting();
    snapshot.queue_limit = queue_limit_;
    if (const std::shared_ptr<WeightsReader> reader = reader_.load(); reader != nullptr) {
      snapshot.reader = reader->Report();
      snapshot.reader_total_bytes = reader->TotalReadBytes();
      snapshot.tail = reader->Tail();
    }
    snapshot.connections = http_->ConnectionCount();
    snapshot.draining = draining_;
    return snapshot;
  }

  ServerSnapshot SnapshotWithMemory() const {
    ServerSnapshot snapshot = Snapshot();
    const auto memory = os::ReadProcStatus(os::ProcRoot::Real(), process_.pid);
    if (memory.ok()) snapshot.memory = *memory;
    return snapshot;
  }

  void GetHealth(const http::Request&, const Writer& writer) {
    writer->Send(HealthResponse(Snapshot()));
  }

  void GetModels(const http::Request&, const Writer& writer) {
    writer->Send(JsonResponse(ModelsJson(Snapshot(), started_wall_s_)));
  }

  void GetState(const http::Request&, const Writer& writer) {
    Observe(writer, [this, writer](const Result<ModelResidency>& residency) {
      writer->Send(JsonResponse(StateJson(SnapshotWithMemory(), residency)));
    });
  }

  void GetMetrics(const http::Request&, const Writer& writer) {
    Observe(writer, [this, writer](const Result<ModelResidency>& residency) {
      http::Response response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics_.Render(ReadGauges(SnapshotWithMemory(), residency));
      writer->Send(std::move(response));
    });
  }

  // Reads residency on the observer thread and goes on there.
  void Observe(const Writer& writer, std::function<void(const Result<ModelResidency>&)> answer) {
    PostTask(writer, [this, answer = std::move(answer)] {
      const auto model = worker_.model();
      const auto now = worker_.snapshot();
      if (model == nullptr) return answer(Error(ErrorCode::kState, "the server is still starting"));
      const bool mapped = now->phase == Phase::kReady || now->phase == Phase::kAsleep;
      answer(mapped ? ReadModelResidency(model->parts, now->loaded_files)
                    : ReadModelResidency(model->parts));
    });
  }

  void PostTask(const Writer& writer, std::function<void()> task) {
    if (observer_.Post(std::move(task))) return;
    EndReading();
    Overloaded(*writer, "too many requests of this kind wait");
  }

  void PostChat(const http::Request& request, const Writer& writer) {
    PostCompletion(CompletionKind::kChat, request, writer);
  }
  void PostText(const http::Request& request, const Writer& writer) {
    PostCompletion(CompletionKind::kText, request, writer);
  }

  void PostCompletion(CompletionKind kind, const http::Request& request, const Writer& writer) {
    if (request.body.size() <= kParseHereBytes) return Complete(kind, request, writer);
    auto shared = std::make_shared<const http::Request>(request);
    PostTask(writer, [this, kind, shared, writer] { Complete(kind, *shared, writer); });
  }

  void Complete(CompletionKind kind, const http::Request& request, const Writer& writer) {
    auto parsed = ParseCompletionRequest(request.body, kind);
    if (!parsed) return Refuse(*writer, parsed.error());
    const auto model = worker_.model();
    if (model != nullptr && !parsed->model.empty() && parsed->model != model->id) {
      return Refuse(*writer, UnknownModel(parsed->model, model->id));
    }
    BeginReading();
    auto job = std::make_shared<Job>();
    job->kind = Job::Kind::kCompletion;
    job->request = std::move(*parsed);
    job->writer = writer;
    job->times = request.times;
    Submit(job);
  }

  void Refuse(http::ResponseWriter& writer, const ApiError& error) {
    EndReading();
    metrics_.CountRequest(RequestOutcome::kRefused);
    writer.Send(ErrorResponse(error));
  }

  void Submit(const std::shared_ptr<Job>& job) {
    const Writer writer = job->writer;
    const bool counted = job->kind == Job::Kind::kCompletion;
    const Admission admission = worker_.Submit(job);
    if (counted && admission != Admission::kQueued) EndReading();
    switch (admission) {
      case Admission::kQueued:
        return;
      case Admission::kFull:
        if (counted) metrics_.CountRequest(RequestOutcome::kOverload);
        return Overloaded(*writer, "the queue is full: " + std::to_string(queue_limit_) +
                                       " requests wait (see --queue-limit)");
      case Admission::kClosed:
        if (counted) metrics_.CountRequest(RequestOutcome::kFailed);
        writer->Send(ErrorResponse(
            {.status = 503, .message = "the server is shutting down", .code = "shutting_down"}));
        return;
    }
  }

  // When it is worth while to try again: when the estimate says that those who wait are served.
  void Overloaded(http::ResponseWriter& writer, const std::string& message) {
    const EtaHistory::Estimate eta = FirstTokenEta(Snapshot(), std::nullopt);
    const int64_t wait_s = eta.ns ? (*eta.ns + kNsPerSecond - 1) / kNsPerSecond : 1;
    writer.Send(ErrorResponse({.status = 429,
                               .message = message,
                               .code = "queue_full",
                               .retry_after_s = std::clamp<int64_t>(wait_s, 1, 600)}));
  }

  void PostLoad(const http::Request& request, const Writer& writer) {
    Control(Job::Kind::kLoad, request, writer);
  }
  void PostSleep(const http::Request& request, const Writer& writer) {
    Control(Job::Kind::kSleep, request, writer);
  }
  void PostUnload(const http::Request& request, const Writer& writer) {
    Control(Job::Kind::kUnload, request, writer);
  }

  // A load answers at once unless "wait" says otherwise (as llama-server's router does); sleep and
  // unload when they are done, since that takes milliseconds and "is it gone?" is what is asked.
  void Control(Job::Kind kind, const http::Request& request, const Writer& writer) {
    const auto parsed = ParseModelRequest(request.body);
    if (!parsed) return writer->Send(ErrorResponse(parsed.error()));
    const auto model = worker_.model();
    if (model == nullptr) {
      return writer->Send(ErrorResponse({.status = 503, .message = "the server is starting"}));
    }
    if (parsed->model != model->id) {
      return writer->Send(ErrorResponse(UnknownModel(parsed->model, model->id)));
    }
    auto job = std::make_shared<Job>();
    job->kind = kind;
    job->times = request.times;
    const bool at_once = kind == Job::Kind::kLoad && !parsed->wait;
    if (!at_once) {
      job->writer = writer;
      return Submit(job);
    }
    switch (worker_.Submit(job)) {
      case Admission::kQueued:
        return writer->Send(JsonResponse("{\"success\":true}"));
      case Admission::kFull:
        return Overloaded(*writer, "the queue is full");
      case Admission::kClosed:
        return writer->Send(
            ErrorResponse({.status = 503, .message = "the server is shutting down"}));
    }
  }

  const std::optional<std::string> api_key_;
  const Log log_;
  const int64_t started_wall_s_;
  ProcessFacts process_;
  const int64_t queue_limit_;
  std::atomic<bool> draining_{false};
  std::atomic<std::shared_ptr<WeightsReader>> reader_;
  Metrics metrics_;
  Worker worker_;
  Observer observer_;
  std::unique_ptr<http::Server> http_;
};

std::span<const ModelServerImpl::Route> ModelServerImpl::Routes() {
  using Self = ModelServerImpl;
  static constexpr std::array kRoutes = {
      Route{"GET", "/health", &Self::GetHealth, true},
      Route{"GET", "/v1/health", &Self::GetHealth, true},
      Route{"GET", "/v1/models", &Self::GetModels},
      Route{"GET", "/models", &Self::GetModels},
      Route{"GET", "/state", &Self::GetState},
      Route{"GET", "/metrics", &Self::GetMetrics},
      Route{"POST", "/v1/chat/completions", &Self::PostChat},
      Route{"POST", "/chat/completions", &Self::PostChat},
      Route{"POST", "/v1/completions", &Self::PostText},
      Route{"POST", "/models/load", &Self::PostLoad},
      Route{"POST", "/models/sleep", &Self::PostSleep},
      Route{"POST", "/models/unload", &Self::PostUnload},
  };
  return kRoutes;
}

}  // namespace

Result<std::unique_ptr<ModelServer>> ModelServer::Start(ModelServerOptions options) {
  options.http.render_error = [](int status, std::string_view message) {
    return ErrorResponse({.status = status, .message = std::string(message)});
  };
  ASSIGN_OR_RETURN(std::unique_ptr<http::Server> http, http::Server::Listen(options.http));
  return std::unique_ptr<ModelServer>(
      std::make_unique<ModelServerImpl>(std::move(http), std::move(options)));
}

}  // namespace rouse::server
