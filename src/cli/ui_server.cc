#include "cli/ui_server.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/time.h"
#include "cli/ui_pages.h"
#include "http/server.h"
#include "report/html.h"
#include "report/json.h"
#include "report/terminal.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

using http::Request;
using http::Response;
using http::ResponseWriter;
using results::RunSummary;

constexpr int64_t kWatchNs = 300 * kNsPerMs;
constexpr int64_t kPingNs = 15 * kNsPerSecond;
constexpr size_t kStreamLimit = 64;
constexpr size_t kQueueLimit = 256;
constexpr int kPagePollSeconds = 2;
constexpr std::string_view kListPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
// The report page brings a stricter policy of its own for scripts (web/README.md).
constexpr std::string_view kPagePolicy =
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr four{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24U) == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

// A page of another site whose name was made to point to 127.0.0.1 sends that name: refused.
bool IsOwnHost(const Request& request, int port) {
  const std::optional<std::string_view> host = request.Find("Host");
  if (!host) return false;
  const std::string lower = LowerAscii(TrimBlanks(*host));
  const std::string suffix = ":" + std::to_string(port);
  if (!lower.ends_with(suffix)) return false;
  std::string name = lower.substr(0, lower.size() - suffix.size());
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  return IsLoopback(name);
}

Response Make(int status, std::string type, std::string body, std::string_view policy = "") {
  Response response;
  response.status = status;
  response.content_type = std::move(type);
  response.body = std::move(body);
  response.headers = {{"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"}};
  if (!policy.empty()) {
    response.headers.push_back({"Content-Security-Policy", std::string(policy)});
  }
  return response;
}

Response Plain(int status, const std::string& text) {
  return Make(status, "text/plain; charset=utf-8", text + "\n", kListPolicy);
}

std::string TagOf(std::string_view text) {
  // FNV-1a, 64 bits: equality of what this process itself made, no defence against anybody.
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return "\"" + std::to_string(hash) + "-" + std::to_string(text.size()) + "\"";
}

// 304 when the client has this version.
Response Tagged(const Request& request, const std::string& tag,
                const std::function<Response()>& make) {
  Response response;
  const std::optional<std::string_view> known = request.Find("If-None-Match");
  if (known && known->find(tag) != std::string_view::npos) {
    response = Make(304, "", "");
  } else {
    response = make();
  }
  if (response.status == 200 || response.status == 304) response.headers.push_back({"ETag", tag});
  return response;
}

// The database, opened when it is there, and again after an error (it may have been replaced).
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  template <typename Read>
  auto With(Read&& read) -> decltype(read(std::declval<results::Store&>())) {
    if (!store_) {
      Result<results::Store> opened = results::Store::Open(path_, results::OpenMode::kReadOnly);
      if (!opened.ok()) return opened.error();
      store_.emplace(*std::move(opened));
    }
    auto result = read(*store_);
    if (!result.ok() && result.error().code() != ErrorCode::kUsage) store_.reset();
    return result;
  }

 private:
  std::string path_;
  std::optional<results::Store> store_;
};

struct ListedRun {
  int64_t id = 0;
  std::string json;  // one line; what changes here is told
};

// As `rouse list --json` has it; a running one also tells how far it is.
std::string ListedJson(const RunSummary& run, const std::optional<results::RunProgress>& progress) {
  std::string json = report::RunLineJson(run);
  if (run.status != "running" || !progress) return json;
  const nlohmann::ordered_json now = {{"done", progress->done},
                                      {"total", progress->total},
                                      {"condition", progress->condition},
                                      {"doing", progress->doing},
                                      {"eta_ns", progress->eta_ns}};
  json.pop_back();
  return json +
         ",\"progress\":" + now.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "}";
}

Result<std::vector<ListedRun>> ListOf(results::Store& store) {
  ASSIGN_OR_RETURN(const std::vector<RunSummary> runs, store.ListRuns());
  std::vector<ListedRun> listed;
  for (const RunSummary& run : runs) {
    std::optional<results::RunProgress> progress;
    if (run.status == "running") {
      ASSIGN_OR_RETURN(progress, store.LoadProgress(run.id));
    }
    listed.push_back({run.id, ListedJson(run, progress)});
  }
  return listed;
}

// No runs yet is no error: the database may not be there before the first one.
Result<std::vector<ListedRun>> RunsOf(Reader& reader) {
  Result<std::vector<ListedRun>> runs = reader.With(ListOf);
  if (!runs.ok() && runs.error().code() == ErrorCode::kNotFound) return std::vector<ListedRun>();
  return runs;
}

std::string EventText(const std::string& name, const std::string& json) {
  return "event: " + name + "\ndata: " + json + "\n\n";
}

// "[{...},{...}]"
std::string JsonList(const std::vector<const ListedRun*>& runs) {
  std::string list;
  for (const ListedRun* const run : runs) list += (list.empty() ? "" : ",") + run->json;
  return "[" + list + "]";
}

std::string JsonList(const std::vector<ListedRun>& runs) {
  std::vector<const ListedRun*> all;
  for (const ListedRun& run : runs) all.push_back(&run);
  return JsonList(all);
}

class Server final : public UiServer {
 public:
  Server(UiOptions options, std::unique_ptr<http::Server> server)
      : options_(std::move(options)),
        server_(std::move(server)),
        pages_(options_.database),
        watched_(options_.database) {}

  ~Server() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (worker_.joinable()) worker_.join();
    if (watcher_.joinable()) watcher_.join();
    server_->Stop();
  }

  void Begin() {
    worker_ = std::thread([this] { Work(); });
    watcher_ = std::thread([this] { Watch(); });
    server_->Start([this](Request request, std::shared_ptr<ResponseWriter> writer) {
      Handle(std::move(request), std::move(writer));
    });
  }

  std::string host() const override { return server_->host(); }
  int port() const override { return server_->port(); }
  std::string url() const override {
    const std::string name = host();
    const bool six = name.find(':') != std::string::npos;
    return "http://" + (six ? "[" + name + "]" : name) + ":" + std::to_string(port()) + "/";
  }

 private:
  struct Task {
    Request request;
    std::shared_ptr<ResponseWriter> writer;
  };

  // On the I/O thread.
  void Handle(Request request, std::shared_ptr<ResponseWriter> writer) {
    if (!IsOwnHost(request, port())) {
      return writer->Send(Plain(421, "This address is for " + url() + " only."));
    }
    if (request.method != "GET" && request.method != "HEAD") {
      Response refused = Plain(405, "Nothing here can be changed: GET and HEAD only.");
      refused.headers.push_back({"Allow", "GET, HEAD"});
      return writer->Send(std::move(refused));
    }
    if (const std::optional<Response> fixed = Fixed(request)) return writer->Send(*fixed);
    const std::lock_guard lock(mutex_);
    if (request.path == "/events") {
      if (streams_.size() >= kStreamLimit) {
        return writer->Send(Plain(503, "Too many pages are open; close one."));
      }
      joining_.push_back(std::move(writer));
    } else if (tasks_.size() >= kQueueLimit) {
      return writer->Send(Plain(503, "Too much is asked for at once."));
    } else {
      tasks_.push_back({std::move(request), std::move(writer)});
    }
    wake_.notify_all();
  }

  static std::optional<Response> Fixed(const Request& request) {
    struct File {
      std::string_view path;
      std::string_view type;
      std::string_view (*text)();
    };
    static constexpr std::array<File, 3> kFiles = {
        {{"/", "text/html; charset=utf-8", UiListHtml},
         {"/ui.css", "text/css; charset=utf-8", UiListCss},
         {"/ui.js", "text/javascript; charset=utf-8", UiListJs}}};
    for (const File& file : kFiles) {
      if (request.path != file.path) continue;
      return Tagged(request, TagOf(file.text()), [&] {
        return Make(200, std::string(file.type), std::string(file.text()), kListPolicy);
      });
    }
    return std::nullopt;
  }

  void Work() {
    while (true) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task.writer->ClientGone()) task.writer->Send(Answer(task.request));
    }
  }

  static Response Failed(const Error& error) {
    const bool unknown = error.code() == ErrorCode::kUsage || error.code() == ErrorCode::kNotFound;
    return Plain(unknown ? 404 : 500, error.message());
  }

  // On the worker thread.
  Response Answer(const Request& request) {
    if (request.path == "/api/runs") {
      const Result<std::vector<ListedRun>> runs = RunsOf(pages_);
      if (!runs.ok()) return Failed(runs.error());
      const std::string json = "{\"runs\":" + JsonList(*runs) + "}\n";
      return Tagged(request, TagOf(json), [&] { return Make(200, "application/json", json); });
    }
    for (const std::string_view prefix : {"/api/runs/", "/runs/"}) {
      if (!request.path.starts_with(prefix)) continue;
      const std::optional<int64_t> run = ParseInt64(request.path.substr(prefix.size()));
      if (!run || *run < 1) break;
      return prefix == "/runs/" ? Page(*run) : Data(request, *run);
    }
    return Plain(404, "There is no such page. " + url() + " lists the runs.");
  }

  Response Page(int64_t number) {
    const Result<results::Run> run =
        pages_.With([&](results::Store& store) { return store.LoadRun(number); });
    if (!run.ok()) return Failed(run.error());
    const Result<std::string> page = report::PageShell(
        report::PageTitle(*run), "/api/runs/" + std::to_string(number), kPagePollSeconds);
    if (page.ok()) return Make(200, "text/html; charset=utf-8", *page, kPagePolicy);
    // A binary without the page (it says so) still shows what the terminal shows.
    const Result<std::vector<results::Attempt>> attempts =
        pages_.With([&](results::Store& store) { return store.LoadAttempts(number); });
    if (!attempts.ok()) return Failed(attempts.error());
    return Plain(200, report::RenderRun(*run, *attempts, {.unicode = true, .details = true}) +
                          "\n" + page.error().message());
  }

  // The run's data, made anew only when the run has changed.
  Response Data(const Request& request, int64_t number) {
    const Result<results::Run> run =
        pages_.With([&](results::Store& store) { return store.LoadRun(number); });
    if (!run.ok()) return Failed(run.error());
    const Result<std::vector<results::Attempt>> brief = pages_.With([&](results::Store& store) {
      return store.LoadAttempts(number, results::Detail::kSummary);
    });
    if (!brief.ok()) return Failed(brief.error());
    const std::string version = run->status + " " + std::to_string(brief->size()) + " " +
                                std::to_string(run->started_wall_ns) + " " +
                                std::to_string(run->ended_wall_ns.value_or(0)) + " " +
                                std::to_string(number);
    Error failure(ErrorCode::kState, "");
    return Tagged(request, TagOf(version), [&] {
      const Result<std::vector<results::Attempt>> attempts =
          pages_.With([&](results::Store& store) { return store.LoadAttempts(number); });
      if (!attempts.ok()) return Failed(attempts.error());
      return Make(200, "application/json", report::PageJson(*run, *attempts));
    });
  }

  // On the watcher's thread: all event streams are written here.
  void Watch() {
    std::map<int64_t, std::string> told;
    MonoTime pinged = MonoNow();
    while (true) {
      std::vector<std::shared_ptr<ResponseWriter>> joining;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, std::chrono::nanoseconds(kWatchNs),
                       [this] { return stopping_ || !joining_.empty(); });
        if (stopping_) break;
        joining.swap(joining_);
        // Nobody looks: nothing is read.
        if (joining.empty() && streams_.empty()) continue;
      }
      const Result<std::vector<ListedRun>> runs = RunsOf(watched_);
      if (runs.ok()) {
        TellChanges(*runs, told);
        for (const auto& writer : joining) Join(writer, *runs);
      } else {
        for (const auto& writer : joining) writer->Send(Failed(runs.error()));
      }
      if ((MonoNow() - pinged) > kPingNs) {
        pinged = MonoNow();
        Broadcast(": ping\n\n");
      }
    }
    for (const auto& stream : streams_) stream->End();
    streams_.clear();
  }

  void TellChanges(const std::vector<ListedRun>& runs, std::map<int64_t, std::string>& told) {
    std::vector<const ListedRun*> changed;
    for (const ListedRun& run : runs) {
      std::string& last = told[run.id];
      if (last == run.json) continue;
      last = run.json;
      changed.push_back(&run);
    }
    if (changed.empty() || streams_.empty()) return;
    Broadcast(EventText("changed", "{\"runs\":" + JsonList(changed) + "}"));
  }

  void Join(const std::shared_ptr<ResponseWriter>& writer, const std::vector<ListedRun>& runs) {
    writer->Begin(Make(200, "text/event-stream", "", kListPolicy));
    const std::string path = nlohmann::json(options_.database)
                                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const std::string text =
        EventText("all", "{\"database\":" + path + ",\"runs\":" + JsonList(runs) + "}");
    if (!writer->Write("retry: 2000\n" + text)) return;
    const std::lock_guard lock(mutex_);
    streams_.push_back(writer);
  }

  void Broadcast(const std::string& text) {
    std::vector<std::shared_ptr<ResponseWriter>> streams;
    {
      const std::lock_guard lock(mutex_);
      streams = streams_;
    }
    std::erase_if(streams, [&](const auto& stream) { return !stream->Write(text); });
    const std::lock_guard lock(mutex_);
    streams_ = std::move(streams);
  }

  const UiOptions options_;
  const std::unique_ptr<http::Server> server_;
  Reader pages_;    // the worker's
  Reader watched_;  // the watcher's
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<Task> tasks_;
  std::vector<std::shared_ptr<ResponseWriter>> joining_;
  std::vector<std::shared_ptr<ResponseWriter>> streams_;  // changed by the watcher only
  std::thread worker_;
  std::thread watcher_;
};

}  // namespace

Result<std::unique_ptr<UiServer>> UiServer::Start(UiOptions options) {
  if (!IsLoopback(options.host)) {
    return Error(ErrorCode::kUsage,
                 "--host " + options.host +
                     ": ui listens on loopback only (127.0.0.1, ::1 or localhost), since it shows "
                     "everything that is stored to whoever asks.\nFrom elsewhere: ssh -L "
                     "8090:127.0.0.1:8090 HOST, and open http://127.0.0.1:8090 here");
  }
  http::ServerOptions server_options;
  server_options.host = options.host;
  server_options.port = options.port;
  server_options.body_limit_bytes = 0;
  server_options.render_error = [](int status, std::string_view message) {
    return Plain(status, std::string(message));
  };
  ASSIGN_OR_RETURN(std::unique_ptr<http::Server> server,
                   http::Server::Listen(std::move(server_options)));
  auto ui = std::make_unique<Server>(std::move(options), std::move(server));
  ui->Begin();
  return std::unique_ptr<UiServer>(std::move(ui));
}

}  // namespace rouse::cli
