#include "results/sqlite.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "base/check.h"

namespace rouse::results {
namespace {

constexpr int kBusyTimeoutMs = 10'000;

// A path as the file: URI that SQLite takes, with the characters escaped that mean something there.
std::string FileUri(const std::string& path) {
  std::string uri = "file:";
  // Two slashes would begin a host's name.
  const size_t first =
      path.starts_with("//") ? path.find_last_of('/', path.find_first_not_of('/')) : 0;
  for (const char letter : std::string_view(path).substr(first)) {
    if (letter == '?' || letter == '#' || letter == '%') {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(letter);
      uri += '%';
      uri += kDigits[byte >> 4U];
      uri += kDigits[byte & 15U];
    } else {
      uri += letter;
    }
  }
  return uri;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// SQLite has the same words for every reason, and beside a read-only file system a wrong errno.
std::string WhyNotOpen(const std::string& path, const std::string& told) {
  struct statvfs disk{};
  const bool fixed =
      statvfs(DirectoryOf(path).c_str(), &disk) == 0 && (disk.f_flag & ST_RDONLY) != 0;
  return fixed ? "its file system is read-only" : told;
}

Error OpenError(const std::string& path, bool writable, int code, const char* text) {
  const std::string directory = DirectoryOf(path);
  struct stat info{};
  if (stat(directory.c_str(), &info) != 0 && errno == ENOENT) {
    return {ErrorCode::kNotFound, "cannot open the database " + path + ": the directory " +
                                      directory +
                                      " does not exist.\nCreate it, or name another "
                                      "file with --db."};
  }
  const bool there = stat(path.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode)) {
    return {ErrorCode::kUsage, path + " is a directory, not a database; name a file in it."};
  }
  if (!there && !writable) {
    return {ErrorCode::kNotFound,
            "there is no database " + path + ".\nRun rouse measure first, or name one with --db."};
  }
  return {ErrorCode::kPermission,
          "cannot open the database " + path + " (" +
              WhyNotOpen(path, std::string(text) + ", code " + std::to_string(code)) +
              ").\nMake the file and its directory accessible, or name another with --db."};
}

// Whether a failed write is explained by a full disk or a limit on file size. SQLite reports the
// latter as a plain I/O error, and its errno is gone by the time that we are asked.
bool OutOfSpace(const std::string& path) {
  struct statvfs disk{};
  constexpr uint64_t kLittle = 1U << 20U;
  if (statvfs(path.c_str(), &disk) == 0 && disk.f_bavail * disk.f_frsize < kLittle) return true;
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  for (const char* const suffix : {"", "-wal", "-shm", "-journal"}) {
    struct stat info{};
    if (stat((path + suffix).c_str(), &info) != 0) continue;
    if (static_cast<uint64_t>(info.st_size) + kLittle >= limit.rlim_cur) return true;
  }
  return false;
}

}  // namespace

// ---- Statement ----

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::Bind(int64_t value) {
  bind_error_ |= sqlite3_bind_int64(statement_, NextParameter(), value);
  return *this;
}

Statement& Statement::Bind(double value) {
  bind_error_ |= sqlite3_bind_double(statement_, NextParameter(), value);
  return *this;
}

Statement& Statement::Bind(std::string_view text) {
  const char* const data = text.data() == nullptr ? "" : text.data();
  bind_error_ |= sqlite3_bind_text64(statement_, NextParameter(), data, text.size(), SQLITE_STATIC,
                                     SQLITE_UTF8);
  return *this;
}

Statement& Statement::Bind(const std::optional<int64_t>& value) {
  return value ? Bind(*value) : BindNull();
}

Statement& Statement::BindNull() {
  bind_error_ |= sqlite3_bind_null(statement_, NextParameter());
  return *this;
}

Statement& Statement::BindTextOrNull(std::string_view text) {
  return text.empty() ? BindNull() : Bind(text);
}

Result<bool> Statement::Step() {
  if (bind_error_ != 0) {
    const int code = bind_error_;
    Reset();
    return database_->ErrorOf(code);
  }
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    Reset();
    return false;
  }
  const Error error = database_->ErrorOf(code);
  Reset();
  return error;
}

Status Statement::Run() {
  ASSIGN_OR_RETURN(const bool row, Step());
  if (row) Reset();
  return {};
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  parameter_ = 0;
  bind_error_ = 0;
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }

std::optional<int64_t> Statement::OptionalInt(int column) const {
  return IsNull(column) ? std::nullopt : std::optional<int64_t>(Int(column));
}

double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Text(int column) const {
  const unsigned char* const text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return "";
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

Statement::Type Statement::TypeOf(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return Type::kInteger;
    case SQLITE_FLOAT:
      return Type::kReal;
    case SQLITE_NULL:
      return Type::kNull;
    default:
      return Type::kText;
  }
}

// ---- Database ----

Result<std::unique_ptr<Database>> Database::Open(const std::string& path, bool writable,
                                                 bool immutable) {
  // A reader too opens for writing where it may (SQLite falls back to reading): only such a
  // connection can clear the log's two files away when it is the last one. It never writes.
  const int access = writable    ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                     : immutable ? SQLITE_OPEN_READONLY
                                 : SQLITE_OPEN_READWRITE;
  const std::string uri = FileUri(path) + (immutable ? "?immutable=1" : "");
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(uri.c_str(), &handle,
                                   access | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    const Error error = OpenError(path, writable, code, sqlite3_errstr(code));
    sqlite3_close(handle);
    return error;
  }
  sqlite3_extended_result_codes(handle, 1);
  auto database = std::unique_ptr<Database>(new Database(path, handle));
  database->SetBusyTimeout(kBusyTimeoutMs);
  if (!writable) RETURN_IF_ERROR(database->Execute("PRAGMA query_only = ON"));
  return database;
}

void Database::SetBusyTimeout(int timeout_ms) {
  busy_timeout_ms_ = timeout_ms;
  sqlite3_busy_timeout(handle_, timeout_ms);
}

Database::~Database() {
  statements_.clear();
  sqlite3_close(handle_);
}

Result<Statement*> Database::Prepare(std::string_view sql) {
  const auto found = statements_.find(std::string(sql));
  if (found != statements_.end()) {
    found->second->Reset();
    return found->second.get();
  }
  sqlite3_stmt* statement = nullptr;
  CHECK(sql.size() < INT_MAX);
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code);
  auto& place = statements_[std::string(sql)];
  place = std::make_unique<Statement>(*this, statement);
  return place.get();
}

Status Database::Execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code);
  return {};
}

Result<int64_t> Database::QueryInt(std::string_view sql) {
  ASSIGN_OR_RETURN(Statement* const statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool row, statement->Step());
  const int64_t value = row ? statement->Int(0) : 0;
  statement->Reset();
  return value;
}

Result<std::string> Database::QueryText(std::string_view sql) {
  ASSIGN_OR_RETURN(Statement* const statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool row, statement->Step());
  std::string value = row ? statement->Text(0) : "";
  statement->Reset();
  return value;
}

int64_t Database::LastRowId() const { return sqlite3_last_insert_rowid(handle_); }

bool Database::ReadOnly() const { return sqlite3_db_readonly(handle_, "main") == 1; }

Error Database::ErrorOf(int code) const {
  const int system_errno = sqlite3_system_errno(handle_);
  const std::string detail =
      std::string(sqlite3_errmsg(handle_)) + ", code " + std::to_string(code) +
      (system_errno != 0 ? std::string(", ") + std::strerror(system_errno) : std::string());
  const std::string kept = " What was stored before is kept.";
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return {ErrorCode::kCorrupt,
              path_ + " is not an SQLite database.\nName another file with --db."};
    case SQLITE_CORRUPT:
      return {ErrorCode::kCorrupt, path_ + " is damaged (" + detail +
                                       ").\nSave what can be read with sqlite3 " + path_ +
                                       " .recover, and name another file with --db."};
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return {ErrorCode::kPermission, "cannot write to the database " + path_ + " (" + detail +
                                          ").\nMake the file and its directory writable, or name "
                                          "another with --db."};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kState, "the database " + path_ +
                                     " is locked: another process has been writing for " +
                                     std::to_string(busy_timeout_ms_) +
                                     " ms.\nWait for it or end it, or name another with --db."};
    case SQLITE_FULL:
      return {ErrorCode::kIo, "the disk is full: cannot write to the database " + path_ + "." +
                                  kept +
                                  "\nFree some space there, or name a file on another disk "
                                  "with --db."};
    case SQLITE_IOERR:
      if (OutOfSpace(path_)) {
        return {ErrorCode::kIo, "no space for the database " + path_ + " (" + detail + ")." + kept +
                                    "\nFree some space there (or raise the quota or file-size "
                                    "limit), or name a file on another disk with --db."};
      }
      return {ErrorCode::kIo, "cannot read or write the database " + path_ + " (" + detail + ")." +
                                  kept + "\nCheck the disk, or name another file with --db."};
    case SQLITE_CANTOPEN:
      return {ErrorCode::kPermission,
              "cannot open the database " + path_ + " (" + WhyNotOpen(path_, detail) +
                  ").\nMake the file and its directory accessible, or name another with --db."};
    default:
      return {ErrorCode::kInternal, "the database " + path_ + " failed (" + detail + ")"};
  }
}

// ---- Transaction ----

Result<std::unique_ptr<Transaction>> Transaction::Begin(Database& database, bool write) {
  RETURN_IF_ERROR(database.Execute(write ? "BEGIN IMMEDIATE" : "BEGIN"));
  return std::unique_ptr<Transaction>(new Transaction(database));
}

Transaction::~Transaction() {
  // SQLite may have rolled back by itself after a full disk; a second time is then an error that
  // tells nothing.
  if (open_) static_cast<void>(database_->Execute("ROLLBACK").ok());
}

Status Transaction::Commit() {
  RETURN_IF_ERROR(database_->Execute("COMMIT"));
  open_ = false;
  return {};
}

}  // namespace rouse::results
