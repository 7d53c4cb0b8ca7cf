// Opening the file, its version, and what belongs into one transaction. The rows are in
// run_rows.cc and attempt_rows.cc.
#include "results/store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/time.h"
#include "results/schema.h"
#include "results/sqlite.h"
#include "results/store_rows.h"

namespace rouse::results {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "" when neither XDG_DATA_HOME nor HOME says where.
std::string DefaultPath() {
  const std::string data = Variable("XDG_DATA_HOME");
  // The XDG specification tells programs to ignore a relative path here.
  if (data.starts_with('/')) return data + "/rouse/rouse.sqlite";
  const std::string home = Variable("HOME");
  return home.empty() ? "" : home + "/.local/share/rouse/rouse.sqlite";
}

// Only the default place is created: a directory in --db that is missing is more likely a typing
// mistake.
Status MakeDefaultDirectory(const std::string& path) {
  if (path != DefaultPath()) return {};
  const std::string directory = std::filesystem::path(path).parent_path();
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) {
    return Error::FromErrno(code.value(), "cannot create the directory " + directory +
                                              " for the results (--db names another file)");
  }
  return {};
}

struct Identity {
  int64_t application_id = 0;
  int64_t version = 0;
  int64_t objects = 0;  // tables, views, indexes
};

Result<Identity> ReadIdentity(Database& database) {
  Identity identity;
  ASSIGN_OR_RETURN(identity.version, database.QueryInt("PRAGMA user_version"));
  ASSIGN_OR_RETURN(identity.application_id, database.QueryInt("PRAGMA application_id"));
  ASSIGN_OR_RETURN(identity.objects, database.QueryInt("SELECT count(*) FROM sqlite_schema"));
  return identity;
}

Status CheckIdentity(const Identity& identity, const std::string& path) {
  if (identity.objects == 0 && identity.version == 0) return {};
  if (identity.application_id != kApplicationId) {
    return Error(ErrorCode::kCorrupt, path +
                                          " is an SQLite database of another program; nothing "
                                          "was changed in it.\nName another file with --db.");
  }
  if (identity.version > kStoreVersion) {
    return Error(ErrorCode::kState, path + " was written by a later version of rouse (format " +
                                        std::to_string(identity.version) + "; this one knows " +
                                        std::to_string(kStoreVersion) +
                                        ").\nUse that version, or name another file with --db.");
  }
  return {};
}

// Brings the file to the current version; a no-op when it is there already.
Status Migrate(Database& database) {
  ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(database, true));
  // Another process may have done it while we waited for the lock.
  ASSIGN_OR_RETURN(const Identity identity, ReadIdentity(database));
  RETURN_IF_ERROR(CheckIdentity(identity, database.path()));
  for (auto version = static_cast<size_t>(identity.version); version < Migrations().size();
       ++version) {
    RETURN_IF_ERROR(database.Execute(std::string(Migrations()[version])));
  }
  RETURN_IF_ERROR(database.Execute("PRAGMA application_id = " + std::to_string(kApplicationId)));
  RETURN_IF_ERROR(database.Execute("PRAGMA user_version = " + std::to_string(kStoreVersion)));
  return transaction->Commit();
}

Result<std::unique_ptr<Database>> OpenForWriting(const std::string& path) {
  RETURN_IF_ERROR(MakeDefaultDirectory(path));
  ASSIGN_OR_RETURN(auto database, Database::Open(path, true, false));
  ASSIGN_OR_RETURN(const Identity identity, ReadIdentity(*database));
  RETURN_IF_ERROR(CheckIdentity(identity, path));
  if (database->ReadOnly()) {
    return Error(ErrorCode::kPermission, "the database " + path +
                                             " is read-only.\nMake the file and its directory "
                                             "writable, or name another with --db.");
  }
  // WAL lets readers look on while we write. FULL: a stored attempt survives a power cut too, and
  // its price (one fsync an attempt) is paid before the next attempt begins.
  RETURN_IF_ERROR(database->QueryText("PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(database->Execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"));
  if (identity.version < kStoreVersion) RETURN_IF_ERROR(Migrate(*database));
  return database;
}

Result<std::unique_ptr<Database>> OpenForReading(const std::string& path,
                                                 std::optional<int> busy_timeout_ms) {
  ASSIGN_OR_RETURN(auto database, Database::Open(path, false, false));
  if (busy_timeout_ms) database->SetBusyTimeout(*busy_timeout_ms);
  Result<Identity> identity = ReadIdentity(*database);
  if (!identity.ok() && identity.error().code() == ErrorCode::kPermission) {
    // In WAL mode SQLite wants to write beside the file even to read it. In a directory where we
    // may not, a file without a log is complete and can be read as it is.
    struct stat log{};
    if (stat((path + "-wal").c_str(), &log) != 0 || log.st_size == 0) {
      ASSIGN_OR_RETURN(database, Database::Open(path, false, true));
      identity = ReadIdentity(*database);
    }
  }
  if (!identity.ok()) return Error(identity.error());
  RETURN_IF_ERROR(CheckIdentity(*identity, path));
  if (identity->version > 0 && identity->version < kStoreVersion) {
    // An earlier version wrote it: brought up to date by a writer, then read.
    const Result<std::unique_ptr<Database>> writer = OpenForWriting(path);
    if (!writer.ok()) {
      return Error(writer.error().code(),
                   "the database " + path + " has the older format " +
                       std::to_string(identity->version) +
                       " and has to be written once to be read: " + writer.error().message());
    }
  } else if (identity->version < kStoreVersion) {
    return Error(ErrorCode::kNotFound, "the database " + path +
                                           " holds no runs yet.\nRun rouse "
                                           "measure first, or name another with --db.");
  }
  return database;
}

}  // namespace

Result<std::string> StorePath(const std::string& flag) {
  if (!flag.empty()) return flag;
  std::string path = Variable("ROUSE_DB");
  if (path.empty()) path = DefaultPath();
  if (path.empty()) {
    return Error(ErrorCode::kUsage,
                 "no place for the results: HOME is not set.\nName a file with --db or ROUSE_DB.");
  }
  return path;
}

struct Store::Impl {
  std::unique_ptr<Database> database;
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::Open(const std::string& path, OpenMode mode,
                          std::optional<int> busy_timeout_ms) {
  if (path.empty()) return Error(ErrorCode::kUsage, "the name of the database is empty");
  auto impl = std::make_unique<Impl>();
  if (mode == OpenMode::kReadWrite) {
    ASSIGN_OR_RETURN(impl->database, OpenForWriting(path));
  } else {
    ASSIGN_OR_RETURN(impl->database, OpenForReading(path, busy_timeout_ms));
  }
  return Store(std::move(impl));
}

const std::string& Store::path() const { return impl_->database->path(); }

Result<int64_t> Store::CreateRun(const Run& run) { return ImportRun(run, {}); }

Status Store::UpdateRun(const Run& run) {
  CHECK(run.id.has_value());
  Database& database = *impl_->database;
  ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(database, true));
  RETURN_IF_ERROR(ReadRun(database, *run.id));
  RETURN_IF_ERROR(UpdateRunRow(database, *run.id, run));
  RETURN_IF_ERROR(ReplaceRunParts(database, *run.id, run));
  return transaction->Commit();
}

Status Store::AppendAttempt(int64_t run, Attempt& attempt) {
  Database& database = *impl_->database;
  ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(database, true));
  std::optional<int64_t> id = attempt.id;
  if (!id) {
    ASSIGN_OR_RETURN(Statement* const select,
                     database.Prepare("SELECT coalesce(max(id), 0) + 1 FROM attempts "
                                      "WHERE run = ?"));
    RETURN_IF_ERROR(select->Bind(run).Step());
    id = select->Int(0);
    select->Reset();
  }
  attempt.run = run;
  attempt.id = id;
  RETURN_IF_ERROR(InsertAttempt(database, attempt));
  return transaction->Commit();
}

Status Store::SetProgress(int64_t run, const RunProgress& progress) {
  return WriteProgress(*impl_->database, run, progress);
}

Result<std::optional<RunProgress>> Store::LoadProgress(int64_t run) {
  return ReadProgress(*impl_->database, run);
}

Status Store::FinishRun(int64_t run, const std::string& status) {
  ASSIGN_OR_RETURN(
      Statement* const update,
      impl_->database->Prepare("UPDATE runs SET status = ?, ended_wall_ns = ? WHERE id = ?"));
  return update->Bind(status).Bind(WallNowNs()).Bind(run).Run();
}

Result<int64_t> Store::ImportRun(const Run& run, std::span<Attempt> attempts) {
  Database& database = *impl_->database;
  ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(database, true));
  ASSIGN_OR_RETURN(const int64_t id, InsertRunRow(database, run));
  RETURN_IF_ERROR(ReplaceRunParts(database, id, run));
  int64_t last_id = 0;
  for (const Attempt& attempt : attempts) last_id = std::max(last_id, attempt.id.value_or(0));
  for (Attempt& attempt : attempts) {
    attempt.run = id;
    if (!attempt.id) attempt.id = ++last_id;
    RETURN_IF_ERROR(InsertAttempt(database, attempt));
  }
  RETURN_IF_ERROR(transaction->Commit());
  return id;
}

Result<Run> Store::LoadRun(int64_t run) {
  ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(*impl_->database, false));
  return ReadRun(*impl_->database, run);
}

Result<std::vector<Attempt>> Store::LoadAttempts(int64_t run, Detail detail) {
  // One transaction, so that the child rows belong to the attempts that were read.
  ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(*impl_->database, false));
  return ReadAttempts(*impl_->database, run, detail);
}

Result<std::vector<Attempt>> Store::LoadLastAttempts(int64_t run, int64_t count) {
  return ReadLastAttempts(*impl_->database, run, count);
}

Result<std::vector<ConditionTtfts>> Store::LoadTtfts(int64_t run) {
  ASSIGN_OR_RETURN(Statement* const select,
                   impl_->database->Prepare(
                       "SELECT condition, outcome = 'ok', ttft_ns FROM sample WHERE run = ? "
                       "ORDER BY condition"));
  select->Bind(run);
  std::vector<ConditionTtfts> conditions;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) return conditions;
    std::string condition = select->Text(0);
    if (conditions.empty() || conditions.back().condition != condition) {
      conditions.push_back({std::move(condition), {}, 0});
    }
    const std::optional<int64_t> ttft_ns = select->OptionalInt(2);
    if (select->Int(1) == 0) {
      ++conditions.back().failed;
    } else if (ttft_ns) {  // a success whose TTFT was not measured is neither
      conditions.back().ttft_ns.push_back(*ttft_ns);
    }
  }
}

Result<std::vector<RunSummary>> Store::ListRuns() {
  ASSIGN_OR_RETURN(
      Statement* const select,
      impl_->database->Prepare(
          "SELECT runs.id, runs.name, runs.kind, runs.status, runs.target, runs.model, "
          "runs.started_wall_ns, runs.ended_wall_ns, "
          "(SELECT count(*) FROM conditions WHERE conditions.run = runs.id), "
          "(SELECT count(*) FROM attempts WHERE attempts.run = runs.id AND prime = 0), "
          "(SELECT count(*) FROM sample WHERE sample.run = runs.id AND outcome <> 'ok') "
          "FROM runs ORDER BY runs.id"));
  std::vector<RunSummary> runs;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) return runs;
    RunSummary run;
    run.id = select->Int(0);
    run.name = select->Text(1);
    run.kind = select->Text(2);
    run.status = select->Text(3);
    run.target = select->Text(4);
    run.model = select->Text(5);
    run.started_wall_ns = select->Int(6);
    run.ended_wall_ns = select->OptionalInt(7);
    run.conditions = select->Int(8);
    run.attempts = select->Int(9);
    run.failed = select->Int(10);
    runs.push_back(std::move(run));
  }
}

Result<int64_t> Store::LatestRun() {
  ASSIGN_OR_RETURN(const int64_t latest,
                   impl_->database->QueryInt("SELECT coalesce(max(id), 0) FROM runs"));
  if (latest > 0) return latest;
  return Error(ErrorCode::kNotFound, "the database " + path() +
                                         " holds no runs yet.\nRun rouse measure first, or name "
                                         "another with --db.");
}

Result<int64_t> Store::DataVersion() { return impl_->database->QueryInt("PRAGMA data_version"); }

}  // namespace rouse::results
