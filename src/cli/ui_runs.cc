#include "cli/ui_runs.h"

#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/run_progress.h"
#include "report/json.h"

namespace rouse::cli {
namespace {

using Json = nlohmann::ordered_json;
using results::RunSummary;

constexpr int kBusyTimeoutMs = 400;  // then it is told, and tried again
constexpr int64_t kRecent = 12;
// Whether a run's process is alive is not in the database.
constexpr int64_t kRunningAgainNs = 2 * kNsPerSecond;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json OrNull(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

Result<std::string> RecentJson(results::Store& store, int64_t run) {
  ASSIGN_OR_RETURN(const std::vector<results::Attempt> last, store.LoadLastAttempts(run, kRecent));
  Json list = Json::array();
  for (const results::Attempt& attempt : last) {
    list.push_back({{"id", OrNull(attempt.id)},
                    {"condition", attempt.condition},
                    {"outcome", std::string(results::OutcomeName(attempt.outcome))},
                    {"prime", attempt.prime},
                    {"ttft_ns", OrNull(attempt.ttft_ns)},
                    {"end_ns", OrNull(attempt.marks.end)}});
  }
  return Dump(list);
}

// Of a run that is not running: read once, since it does not change (one that is resumed counts
// more attempts afterwards).
Result<std::string> ResultJson(results::Store& store, const RunSummary& run, KnownResults& known) {
  const auto found = known.find(run.id);
  if (found != known.end() && found->second.attempts == run.attempts) return found->second.json;
  ASSIGN_OR_RETURN(const std::vector<results::ConditionTtfts> ttfts, store.LoadTtfts(run.id));
  return (known[run.id] = {run.attempts, report::RunResultJson(report::ResultOf(ttfts))}).json;
}

Result<ListedRun> Listed(results::Store& store, const RunSummary& run, KnownResults& known) {
  std::string json = report::RunLineJson(run);
  if (run.status != "running") {
    ASSIGN_OR_RETURN(const std::string result, ResultJson(store, run, known));
    json.pop_back();
    return ListedRun{run.id, false, json + ",\"result\":" + result + "}"};
  }
  ASSIGN_OR_RETURN(const std::optional<results::RunProgress> progress, store.LoadProgress(run.id));
  ASSIGN_OR_RETURN(const std::string recent, RecentJson(store, run.id));
  json.pop_back();
  json += ",\"progress\":" + (progress ? ProgressJson(*progress) : "null");
  return ListedRun{run.id, true, json + ",\"recent\":" + recent + "}"};
}

}  // namespace

Status UiDatabase::Ready() {
  struct stat info{};
  if (::stat(path_.c_str(), &info) != 0) {
    store_.reset();
    file_.reset();
    if (errno == ENOENT || errno == ENOTDIR) {
      return Error(ErrorCode::kNotFound, "there is no database " + path_);
    }
    return Error::FromErrno(errno, "cannot read the database " + path_);
  }
  const std::pair<dev_t, ino_t> file(info.st_dev, info.st_ino);
  if (store_ && file_ == file) return {};
  store_.reset();
  Result<results::Store> opened =
      results::Store::Open(path_, results::OpenMode::kReadOnly, kBusyTimeoutMs);
  if (!opened.ok()) return opened.error();
  store_.emplace(*std::move(opened));
  // The runs of another file have the same numbers.
  if (file_ != file) known_results_.clear();
  file_ = file;
  ++opened_;
  return {};
}

std::string JsonList(const std::vector<ListedRun>& runs) {
  std::string list;
  for (const ListedRun& run : runs) list += (list.empty() ? "" : ",") + run.json;
  return "[" + list + "]";
}

Result<std::vector<ListedRun>> ListOf(results::Store& store, KnownResults& known) {
  ASSIGN_OR_RETURN(const std::vector<RunSummary> runs, store.ListRuns());
  std::vector<ListedRun> listed;
  listed.reserve(runs.size());
  for (const RunSummary& run : runs) {
    ASSIGN_OR_RETURN(ListedRun one, Listed(store, run, known));
    listed.push_back(std::move(one));
  }
  return listed;
}

UiRuns::Change UiRuns::Look() {
  const MonoTime now = MonoNow();
  std::optional<std::vector<ListedRun>> fresh;
  const Status looked = database_.With([&](results::Store& store) -> Status {
    // Read before the list: a commit in between is seen at the next look.
    ASSIGN_OR_RETURN(const int64_t version, store.DataVersion());
    const bool again = running_ && now - read_at_ >= kRunningAgainNs;
    if (version == version_ && database_.opened() == opened_ && !again) return {};
    ASSIGN_OR_RETURN(fresh, ListOf(store, database_.known_results()));
    version_ = version;
    return {};
  });
  // Before the first run there is no database, and that is no fault.
  const bool missing = !looked.ok() && looked.error().code() == ErrorCode::kNotFound;
  if (missing) fresh.emplace();
  const std::string problem = looked.ok() || missing ? "" : looked.error().message();
  const bool another =
      problem != problem_ || exists_ == missing || (looked.ok() && database_.opened() != opened_);
  problem_ = problem;
  if (!looked.ok()) version_ = -1;
  exists_ = !missing;
  opened_ = database_.opened();
  Change change;
  if (fresh) {
    read_at_ = now;
    change = Took(*std::move(fresh));
  }
  change.all = another;
  return change;
}

UiRuns::Change UiRuns::Took(std::vector<ListedRun> runs) {
  runs_ = std::move(runs);
  running_ = false;
  Change change;
  std::map<int64_t, std::string> told;
  for (const ListedRun& run : runs_) {
    const auto known = told_.find(run.id);
    if (known == told_.end() || known->second != run.json) change.changed.push_back(run);
    running_ = running_ || run.running;
    told.emplace(run.id, run.json);
  }
  for (const auto& [id, json] : told_) {
    if (!told.contains(id)) change.removed.push_back(id);
  }
  told_ = std::move(told);
  return change;
}

std::string UiRuns::AllJson(std::optional<int64_t> only) const {
  std::vector<ListedRun> shown;
  for (const ListedRun& run : runs_) {
    if (!only || run.id == *only) shown.push_back(run);
  }
  return "{\"database\":" + Dump(path_) + ",\"exists\":" + (exists_ ? "true" : "false") +
         ",\"problem\":" + (problem_.empty() ? "null" : Dump(problem_)) +
         ",\"runs\":" + JsonList(shown) + "}";
}

}  // namespace rouse::cli
