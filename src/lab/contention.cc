#include "lab/contention.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "base/units.h"
#include "lab/control.h"
#include "os/cgroup.h"
#include "os/own_cgroup.h"
#include "os/proc_root.h"
#include "os/proc_status.h"
#include "os/process.h"
#include "os/process_tree_counters.h"

namespace rouse::lab {
namespace {

using Json = nlohmann::json;

constexpr int64_t kSentinelPeriodNs = 50 * kNsPerMs;
// Slowed units are fewer: asking for more would say nothing where there is most to say.
constexpr size_t kUnitsBeforeLeast = 5;
constexpr size_t kUnitsDuringLeast = 3;
constexpr int64_t kStopGraceNs = 5 * kNsPerSecond;
constexpr int64_t kServerPollNs = 20 * kNsPerMs;

int64_t MedianOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return values[middle - 1] + (values[middle] - values[middle - 1]) / 2;
}

constexpr std::string_view kGroupPrefix = "rouse-ballast";

// A running worker process and its two lines.
class Worker {
 public:
  static Result<Worker> Start(const std::vector<std::string>& arguments,
                              const std::string& cgroup_directory, MonoTime deadline);
  // A server of ours with this model, on a port of its own choice, when the model is loaded.
  static Result<Worker> StartServer(const std::string& model, MonoTime deadline);

  // Of such a server.
  const std::string& url() const { return url_; }

  int pid() const { return child_.pid(); }

  // SIGTERM, then its last line. kState when it died before.
  Result<Json> Finish(MonoTime deadline);

 private:
  // Runs this program with these arguments.
  static Result<Worker> Launch(const std::vector<std::string>& arguments,
                               const std::string& cgroup_directory);
  Result<std::string> ReadLine(MonoTime deadline);
  Result<bool> HasLoaded(MonoTime deadline) const;

  os::Child child_;
  std::string pending_;
  std::string url_;
};

Result<Worker> Worker::Launch(const std::vector<std::string>& arguments,
                              const std::string& cgroup_directory) {
  os::SpawnOptions options;
  // By its path: /proc/self/exe would be the warden's own.
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) return Error::FromErrno(errno, "cannot read /proc/self/exe");
  options.argv = {std::string(path.data(), static_cast<size_t>(length))};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.stdout_to = os::OutputTo::Pipe();
  options.cgroup_directory = cgroup_directory;
  options.remove_cgroup = !cgroup_directory.empty();
  // A key of the user's own server is not for ours.
  options.environment_removed = {"ROUSE_API_KEY"};
  Worker worker;
  ASSIGN_OR_RETURN(worker.child_, os::Spawn(options));
  return worker;
}

Result<Worker> Worker::StartServer(const std::string& model, MonoTime deadline) {
  ASSIGN_OR_RETURN(Worker worker, Launch({"serve", "--model", model, "--host", "127.0.0.1",
                                          "--port", "0", "--context", "512", "--quiet"},
                                         ""));
  const Result<std::string> line = worker.ReadLine(deadline);
  if (!line.ok()) return line.error().WithContext("the other server did not start");
  const Json ready = Json::parse(*line, nullptr, false);
  if (!ready.is_object() || !ready.contains("port") || !ready["port"].is_number_integer()) {
    return Error(ErrorCode::kState, "the other server did not start: " + *line);
  }
  worker.url_ = "http://127.0.0.1:" + std::to_string(ready["port"].get<int>());
  for (;;) {
    ASSIGN_OR_RETURN(const bool loaded, worker.HasLoaded(deadline));
    if (loaded) return worker;
    if (MonoNow() >= deadline) {
      return Error(ErrorCode::kTimeout, "the other server did not load its model in time");
    }
    RealClock().SleepFor(kServerPollNs);
  }
}

Result<bool> Worker::HasLoaded(MonoTime deadline) const {
  ASSIGN_OR_RETURN(const ControlReply reply, CallControl(url_, "GET", "/health", "", deadline));
  if (reply.body.find("load failed") == std::string::npos) return reply.status == 200;
  return Error(ErrorCode::kState, "the other server could not load its model: " + reply.body);
}

Result<Worker> Worker::Start(const std::vector<std::string>& arguments,
                             const std::string& cgroup_directory, MonoTime deadline) {
  std::vector<std::string> words = {"worker"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ASSIGN_OR_RETURN(Worker worker, Launch(words, cgroup_directory));
  const Result<std::string> line = worker.ReadLine(deadline);
  const std::string what = "the load \"" + arguments.front() + "\" did not start";
  if (!line.ok()) return line.error().WithContext(what);
  const Json parsed = Json::parse(*line, nullptr, false);
  if (parsed.is_object() && parsed.contains("ready")) return worker;
  const bool told = parsed.is_object() && parsed.contains("error") && parsed["error"].is_string();
  return Error(ErrorCode::kState,
               what + ": " + (told ? parsed["error"].get<std::string>() : *line));
}

Result<std::string> Worker::ReadLine(MonoTime deadline) {
  while (true) {
    const size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    const int64_t left_ns = deadline - MonoNow();
    if (left_ns <= 0) return Error(ErrorCode::kTimeout, "it said nothing in time");
    pollfd entry{.fd = child_.stdout_pipe().get(), .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, static_cast<int>(left_ns / kNsPerMs + 1)) <= 0) continue;
    std::array<char, 65536> buffer{};
    const ssize_t count = read(entry.fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "cannot read its output");
    if (count == 0) return Error(ErrorCode::kState, "it ended early");
    pending_.append(buffer.data(), static_cast<size_t>(count));
  }
}

Result<Json> Worker::Finish(MonoTime deadline) {
  RETURN_IF_ERROR(child_.Signal(SIGTERM));
  const Result<std::string> line = ReadLine(deadline);
  if (!line.ok()) return line.error().WithContext("a load of ours gave no report");
  const Result<os::ExitInfo> exit = child_.Stop(kStopGraceNs);
  if (!exit.ok()) return exit.error();
  child_ = os::Child();
  Json report = Json::parse(*line, nullptr, false);
  if (!report.is_object() || !report.contains("report")) {
    return Error(ErrorCode::kState, "a load of ours failed: " + *line);
  }
  return report;
}

std::vector<std::string> BackgroundArguments(const LoadSpec& spec) {
  if (spec.background == "cpu") {
    return {"cpu", std::to_string(std::max(1U, std::thread::hardware_concurrency()))};
  }
  if (spec.background == "disk") return {"disk", spec.disk_file};
  if (spec.background != "requests") return {};
  std::vector<std::string> arguments = {"requests", spec.url, spec.api, spec.model, "2"};
  for (const auto& [header, variable] : spec.headers_env) {
    arguments.push_back(header + "=" + variable);
  }
  return arguments;
}

struct Group {
  std::string directory;  // "" when there is none
  std::string why_not;
};

Result<std::string> OwnMemoryGroup() {
  ASSIGN_OR_RETURN(const os::CgroupPaths paths, os::FindCgroup(os::ProcRoot::Real(), getpid()));
  if (paths.memory.empty()) return Error(ErrorCode::kNotFound, "no memory hierarchy is mounted");
  return "/" + paths.memory;
}

// A child of our own memory group: so the ballast's pages are told apart from ours, and end with
// it. The kernel, not rouse, decides whether we may make one.
Group MakeBallastGroup() {
  const Result<std::string> own = OwnMemoryGroup();
  if (!own.ok()) return {"", own.error().message()};
  const std::string& parent = *own;
  RemoveStaleBallastGroups(parent);
  const Result<std::string> made = os::MakeCgroup(parent, kGroupPrefix);
  if (made.ok()) return {*made, ""};
  return {"", made.error().message()};
}

class ProcessLoads : public Loads {
 public:
  Status Start(const LoadSpec& spec, MonoTime deadline) {
    // The background first: it must not be what the ballast pushes out.
    std::vector<std::string> arguments = BackgroundArguments(spec);
    if (spec.background == "model") {
      ASSIGN_OR_RETURN(server_, Worker::StartServer(spec.other_model, deadline));
      arguments = {"requests", server_->url(), "openai-chat", "", "2"};
    }
    if (!arguments.empty()) {
      ASSIGN_OR_RETURN(background_, Worker::Start(arguments, "", deadline));
      background_name_ = spec.background;
    }
    if (!spec.ballast_bytes) return {};
    group_ = MakeBallastGroup();
    const std::vector<std::string> ballast = {"ballast", std::to_string(*spec.ballast_bytes)};
    Result<Worker> worker = Worker::Start(ballast, group_.directory, deadline);
    if (!worker.ok() && !group_.directory.empty() &&
        worker.error().message().find("cgroup") != std::string::npos) {
      // A group that can be made but not joined (cgroup v2 without delegation).
      rmdir(group_.directory.c_str());
      group_ = {"", worker.error().message()};
      worker = Worker::Start(ballast, "", deadline);
    }
    if (!worker.ok()) return worker.error();
    ballast_ = *std::move(worker);
    return {};
  }

  LoadReading Read() override {
    LoadReading reading;
    const os::ProcRoot& root = os::ProcRoot::Real();
    if (ballast_) {
      const auto status = os::ReadProcStatus(root, ballast_->pid());
      if (status.ok()) reading.ballast_bytes = status->rss_anon_bytes;
    }
    if (background_) {
      const std::array<int, 1> pids = {background_->pid()};
      const os::ProcessTreeCounters counters = os::ReadProcessTreeCounters(root, pids);
      reading.cpu_ns = counters.cpu_ns;
      reading.read_bytes = counters.read_bytes;
    }
    return reading;
  }

  std::string BallastGroup() const override {
    return group_.directory.empty() ? "in no control group of its own: " + group_.why_not
                                    : "in control group " + group_.directory;
  }

  Result<LoadReport> Finish(MonoTime deadline) override {
    LoadReport report;
    std::optional<Worker> ballast = std::exchange(ballast_, std::nullopt);
    std::optional<Worker> background = std::exchange(background_, std::nullopt);
    // Ended when this returns, after the requests to it.
    const std::optional<Worker> server = std::exchange(server_, std::nullopt);
    if (background) {
      ASSIGN_OR_RETURN(const Json told, background->Finish(deadline));
      if (told.contains("answered")) report.requests_answered = told["answered"].get<int64_t>();
    }
    if (ballast) RETURN_IF_ERROR(AsStatus(ballast->Finish(deadline)));
    return report;
  }

 private:
  static Status AsStatus(const Result<Json>& result) {
    return result.ok() ? Status() : Status(result.error());
  }

  std::optional<Worker> ballast_;
  std::optional<Worker> background_;
  std::optional<Worker> server_;  // of the other model
  std::string background_name_;
  Group group_;
};

class ProcessSentinel : public Sentinel {
 public:
  explicit ProcessSentinel(Worker worker) : worker_(std::move(worker)) {}

  Result<SentinelReading> Finish(MonoTime from, MonoTime to, MonoTime deadline) override {
    ASSIGN_OR_RETURN(const Json report, worker_.Finish(deadline));
    try {
      return CompareSentinelUnits(report.at("start_ns").get<std::vector<int64_t>>(),
                                  report.at("duration_ns").get<std::vector<int64_t>>(), from, to);
    } catch (const Json::exception&) {
      return Error(ErrorCode::kInternal, "the sentinel's report cannot be read");
    }
  }

 private:
  Worker worker_;
};

class ProcessLoadMaker : public LoadMaker {
 public:
  Result<std::unique_ptr<Loads>> StartLoads(const LoadSpec& spec, MonoTime deadline) override {
    auto loads = std::make_unique<ProcessLoads>();
    RETURN_IF_ERROR(loads->Start(spec, deadline));
    return std::unique_ptr<Loads>(std::move(loads));
  }
  Result<std::unique_ptr<Sentinel>> StartSentinel(MonoTime deadline) override {
    ASSIGN_OR_RETURN(Worker worker,
                     Worker::Start({"sentinel", std::to_string(kSentinelPeriodNs)}, "", deadline));
    return std::unique_ptr<Sentinel>(std::make_unique<ProcessSentinel>(std::move(worker)));
  }
};

}  // namespace

LoadMaker& RealLoadMaker() {
  static ProcessLoadMaker maker;
  return maker;
}

std::vector<std::string> RemoveStaleBallastGroups(const std::string& parent_directory) {
  std::vector<std::string> removed = os::RemoveStaleCgroups(parent_directory, kGroupPrefix);
  for (std::string& each : removed) each = "control group " + each;
  return removed;
}

std::vector<std::string> RemoveStaleBallastGroups() {
  const Result<std::string> own = OwnMemoryGroup();
  return own.ok() ? RemoveStaleBallastGroups(*own) : std::vector<std::string>();
}

Result<SentinelReading> CompareSentinelUnits(const std::vector<int64_t>& start_ns,
                                             const std::vector<int64_t>& duration_ns, MonoTime from,
                                             MonoTime to) {
  std::vector<int64_t> before;
  std::vector<int64_t> during;
  for (size_t i = 0; i < std::min(start_ns.size(), duration_ns.size()); ++i) {
    if (start_ns[i] < from.ns) {
      before.push_back(duration_ns[i]);
    } else if (start_ns[i] < to.ns) {
      during.push_back(duration_ns[i]);
    }
  }
  if (before.size() < kUnitsBeforeLeast || during.size() < kUnitsDuringLeast) {
    return Error(ErrorCode::kState, "the sentinel ran " + std::to_string(before.size()) +
                                        " units before and " + std::to_string(during.size()) +
                                        " during the request; 5 and 3 are needed");
  }
  SentinelReading reading;
  reading.before_count = static_cast<int64_t>(before.size());
  reading.during_count = static_cast<int64_t>(during.size());
  reading.before_median_ns = MedianOf(std::move(before));
  reading.during_median_ns = MedianOf(std::move(during));
  reading.slowdown = static_cast<double>(reading.during_median_ns) /
                         static_cast<double>(std::max<int64_t>(1, reading.before_median_ns)) -
                     1;
  return reading;
}

}  // namespace rouse::lab
