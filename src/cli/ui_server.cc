#include "cli/ui_server.h"

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/time.h"
#include "cli/ui_runs.h"
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
constexpr int kHttpPort = 80;
constexpr std::string_view kPlainPolicy = "default-src 'none'; frame-ancestors 'none'";
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
  std::string name = lower;
  if (lower.ends_with(suffix)) {
    name.resize(lower.size() - suffix.size());
  } else if (port != kHttpPort) {  // of which browsers say nothing
    return false;
  }
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
  return Make(status, "text/plain; charset=utf-8", text + "\n", kPlainPolicy);
}

std::string HashOf(std::string_view text) {
  // FNV-1a, 64 bits: equality of what this process itself made, no defence against anybody.
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return std::to_string(hash) + "-" + std::to_string(text.size());
}

std::string TagOf(std::string_view text) { return "\"" + HashOf(text) + "\""; }

// Of what draws a run's data, and so of their shape: after an upgrade the data are asked for anew.
std::string BuildTag() {
  const Result<std::string> page = report::PageShell("", {});
  return ROUSE_VERSION "-" + HashOf(page.ok() ? *page : "");
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

// No runs yet is no error: the database may not be there before the first one.
Result<std::vector<ListedRun>> RunsOf(UiDatabase& database) {
  Result<std::vector<ListedRun>> runs =
      database.With([&](results::Store& store) { return ListOf(store, database.known_results()); });
  if (!runs.ok() && runs.error().code() == ErrorCode::kNotFound) return std::vector<ListedRun>();
  return runs;
}

std::string EventText(const std::string& name, const std::string& json) {
  return "event: " + name + "\ndata: " + json + "\n\n";
}

// The policy that the list page states for itself, with what only a header can say.
std::string ListPolicy(const Result<std::string_view>& page) {
  constexpr std::string_view kBegin = "http-equiv=\"Content-Security-Policy\" content=\"";
  const size_t from = page.ok() ? page->find(kBegin) : std::string_view::npos;
  if (from == std::string_view::npos) return std::string(kPlainPolicy);
  const std::string_view rest = page->substr(from + kBegin.size());
  return std::string(rest.substr(0, rest.find('"'))) + "; frame-ancestors 'none'";
}

// A page of another site cannot read what is here, but it could ask for it all day. Opening an
// address by a link is no such thing.
bool IsAskedByAnotherSite(const Request& request) {
  const std::optional<std::string_view> site = request.Find("Sec-Fetch-Site");
  if (!site || *site == "same-origin" || *site == "none") return false;
  return request.Find("Sec-Fetch-Mode").value_or("") != "navigate";
}

// "run=3"; empty: of all runs.
std::optional<int64_t> RunOf(const Request& request) {
  if (!request.query.starts_with("run=")) return std::nullopt;
  return ParseInt64(request.query.substr(4));
}

// For a person whose binary has no pages: the runs as text.
std::string ListText(const std::vector<RunSummary>& runs, const std::string& why) {
  std::string text;
  for (const RunSummary& run : runs) {
    text += "/runs/" + std::to_string(run.id) + "  " + FormatWallTime(run.started_wall_ns) + "  " +
            run.status + "  " + run.name + ", " + std::to_string(run.attempts) + " attempts, " +
            std::to_string(run.failed) + " failed\n";
  }
  return (runs.empty() ? "No runs yet; rouse measure makes one.\n" : text) + "\n" + why;
}

class Server final : public UiServer {
 public:
  Server(UiOptions options, std::unique_ptr<http::Server> server)
      : options_(std::move(options)),
        server_(std::move(server)),
        list_policy_(ListPolicy(report::RunsPage())),
        build_tag_(BuildTag()),
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
  struct Stream {
    std::shared_ptr<ResponseWriter> writer;
    std::optional<int64_t> run;  // tell of this one only
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
    if (IsAskedByAnotherSite(request)) {
      return writer->Send(Plain(403, "Pages of other sites get no answer here."));
    }
    if (const std::optional<Response> fixed = Fixed(request)) return writer->Send(*fixed);
    const std::lock_guard lock(mutex_);
    if (request.path == "/events") {
      if (streams_.size() >= kStreamLimit) {
        return writer->Send(Plain(503, "Too many pages are open; close one."));
      }
      joining_.push_back({std::move(writer), RunOf(request)});
    } else if (tasks_.size() >= kQueueLimit) {
      return writer->Send(Plain(503, "Too much is asked for at once."));
    } else {
      tasks_.push_back({std::move(request), std::move(writer)});
    }
    wake_.notify_all();
  }

  std::optional<Response> Fixed(const Request& request) {
    // Browsers ask for it; a mark of their own is as good as one of ours.
    if (request.path == "/favicon.ico") return Make(204, "", "");
    if (request.path == "/events" && request.method == "HEAD") {
      return Make(200, "text/event-stream", "", kPlainPolicy);
    }
    const Result<std::string_view> page = report::RunsPage();
    if (request.path != "/" || !page.ok()) return std::nullopt;
    return Tagged(request, TagOf(*page), [&] {
      return Make(200, "text/html; charset=utf-8", std::string(*page), list_policy_);
    });
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
    if (request.path == "/") return TextList();
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

  // Where the list page would be, in a binary without it.
  Response TextList() {
    const Result<std::vector<RunSummary>> runs =
        pages_.With([](results::Store& store) { return store.ListRuns(); });
    if (!runs.ok() && runs.error().code() != ErrorCode::kNotFound) return Failed(runs.error());
    return Plain(200, ListText(runs.ok() ? *runs : std::vector<RunSummary>(),
                               report::RunsPage().error().message()));
  }

  Response Page(int64_t number) {
    const Result<results::Run> run =
        pages_.With([&](results::Store& store) { return store.LoadRun(number); });
    const std::string name = std::to_string(number);
    const Result<std::string> page = report::PageShell(
        run.ok() ? report::PageTitle(*run) : "No run " + name,
        {.data = "/api/runs/" + name, .events = "/events?run=" + name, .home = "/"});
    // Without the run the page says why, in the words of its data's answer.
    const int status = run.ok() ? 200 : Failed(run.error()).status;
    if (page.ok()) return Make(status, "text/html; charset=utf-8", *page, kPagePolicy);
    if (!run.ok()) return Failed(run.error());
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
    return Tagged(request, "\"" + build_tag_ + "-" + HashOf(version) + "\"", [&] {
      const Result<std::vector<results::Attempt>> attempts =
          pages_.With([&](results::Store& store) { return store.LoadAttempts(number); });
      if (!attempts.ok()) return Failed(attempts.error());
      return Make(200, "application/json", report::PageJson(*run, *attempts));
    });
  }

  // On the watcher's thread: all event streams are written here.
  void Watch() {
    MonoTime pinged = MonoNow();
    while (true) {
      std::vector<Stream> joining;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, std::chrono::nanoseconds(kWatchNs),
                       [this] { return stopping_ || !joining_.empty(); });
        if (stopping_) break;
        joining.swap(joining_);
        // Nobody looks: nothing is read.
        if (joining.empty() && streams_.empty()) continue;
      }
      Tell(watched_.Look());
      for (Stream& stream : joining) Join(std::move(stream));
      if ((MonoNow() - pinged) > kPingNs) {
        pinged = MonoNow();
        for (Stream& stream : streams_) Write(stream, ": ping\n\n");
      }
      DropGone();
    }
    for (const Stream& stream : streams_) {
      if (stream.writer) stream.writer->End();
    }
    streams_.clear();
  }

  void Tell(const UiRuns::Change& change) {
    for (Stream& stream : streams_) {
      if (change.all) {
        Write(stream, EventText("all", watched_.AllJson(stream.run)));
        continue;
      }
      std::vector<ListedRun> changed;
      for (const ListedRun& run : change.changed) {
        if (!stream.run || *stream.run == run.id) changed.push_back(run);
      }
      if (!changed.empty()) {
        Write(stream, EventText("changed", "{\"runs\":" + JsonList(changed) + "}"));
      }
      std::vector<int64_t> removed = change.removed;
      if (stream.run) std::erase_if(removed, [&](int64_t run) { return run != *stream.run; });
      if (!removed.empty()) {
        Write(stream, EventText("removed", nlohmann::json{{"runs", removed}}.dump()));
      }
    }
  }

  void Join(Stream stream) {
    stream.writer->Begin(Make(200, "text/event-stream", "", kPlainPolicy));
    Write(stream, "retry: 2000\n" + EventText("all", watched_.AllJson(stream.run)));
    const std::lock_guard lock(mutex_);
    streams_.push_back(std::move(stream));
  }

  static void Write(Stream& stream, const std::string& text) {
    if (stream.writer && !stream.writer->Write(text)) stream.writer.reset();
  }

  void DropGone() {
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [](const Stream& stream) { return stream.writer == nullptr; });
  }

  const UiOptions options_;
  const std::unique_ptr<http::Server> server_;
  const std::string list_policy_;
  const std::string build_tag_;
  UiDatabase pages_;  // the worker's
  UiRuns watched_;    // the watcher's
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<Task> tasks_;
  std::vector<Stream> joining_;
  std::vector<Stream> streams_;  // the watcher's; its size is read by others
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
