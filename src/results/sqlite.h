// The little of SQLite that the store needs, with errors as values that say what a user can do.
// For this folder only: SQLite's own header stays in the .cc files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rouse::results {

class Database;

// One prepared statement. Parameters and columns count from 0. Bound text must live until Step.
// A failed bind shows as the error of the next Step.
class Statement {
 public:
  Statement(Database& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int64_t value);
  Statement& Bind(double value);
  Statement& Bind(std::string_view text);
  Statement& Bind(const std::optional<int64_t>& value);
  Statement& BindNull();
  // NULL for an empty text.
  Statement& BindTextOrNull(std::string_view text);

  // True when there is a row to read. After false or an error the statement may be used again.
  Result<bool> Step();
  // For statements without rows.
  Status Run();
  void Reset();

  bool IsNull(int column) const;
  int64_t Int(int column) const;
  std::optional<int64_t> OptionalInt(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  enum class Type { kNull, kInteger, kReal, kText };
  Type TypeOf(int column) const;

 private:
  int NextParameter() { return ++parameter_; }

  Database* database_;
  sqlite3_stmt* statement_;
  int parameter_ = 0;
  int bind_error_ = 0;
};

class Database {
 public:
  // `immutable`: neither lock nor write anything beside the file; only for one that nobody writes.
  static Result<std::unique_ptr<Database>> Open(const std::string& path, bool writable,
                                                bool immutable);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // A statement that is kept for the next time; it must not be in use already.
  Result<Statement*> Prepare(std::string_view sql);
  Status Execute(const std::string& sql);
  // The first column of the first row.
  Result<int64_t> QueryInt(std::string_view sql);
  Result<std::string> QueryText(std::string_view sql);

  int64_t LastRowId() const;
  // Whether the file could only be opened for reading.
  bool ReadOnly() const;
  const std::string& path() const { return path_; }
  // How long to wait for another process's transaction; 10 s unless set.
  void SetBusyTimeout(int timeout_ms);

  // What `code` means for this file, and what to do about it.
  Error ErrorOf(int code) const;

 private:
  Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

  std::string path_;
  sqlite3* handle_;
  int busy_timeout_ms_ = 0;
  std::unordered_map<std::string, std::unique_ptr<Statement>> statements_;
};

// BEGIN IMMEDIATE (or BEGIN, for reading) until Commit; rolled back when it goes out of scope.
class Transaction {
 public:
  static Result<std::unique_ptr<Transaction>> Begin(Database& database, bool write);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Status Commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
  bool open_ = true;
};

}  // namespace rouse::results
