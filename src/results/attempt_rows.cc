// The rows of one attempt: its own, made of the fields of fields.h and a few that are no whole
// numbers, and the child rows.
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "results/fields.h"
#include "results/store_rows.h"

namespace rouse::results {
namespace {

// The columns that fields.h does not have, in the order in which they are bound and read, after
// key, run and id.
constexpr std::string_view kOtherColumns =
    "condition, prime, outcome, outcome_detail, api, first_token_channel, stream_coalesced, "
    "connection_reused, connection_family, connection_remote, server_json, extra_json, "
    "samples_json";
constexpr int kOtherColumnCount = 13;

std::string SourceColumn(int stage) {
  return "stage_" + std::string(StageName(static_cast<Stage>(stage))) + "_source";
}

// All columns but the key, separated by commas.
std::string ColumnList() {
  std::string list = "run, id, " + std::string(kOtherColumns);
  for (int stage = 0; stage < kStageCount; ++stage) list += ", " + SourceColumn(stage);
  for (const IntegerField& field : IntegerFields()) list += ", " + std::string(field.column);
  return list;
}

std::string InsertSql() {
  std::string marks = "?";
  const size_t count = 2 + kOtherColumnCount + kStageCount + IntegerFields().size();
  for (size_t index = 1; index < count; ++index) marks += ", ?";
  return "INSERT INTO attempts (" + ColumnList() + ") VALUES (" + marks + ")";
}

const std::string& SelectSql() {
  static const std::string sql =
      "SELECT key, " + ColumnList() + " FROM attempts WHERE run = ? ORDER BY key";
  return sql;
}

const std::string& SelectLastSql() {
  static const std::string sql = SelectSql() + " DESC LIMIT ?";
  return sql;
}

std::optional<int64_t> AsInt(const std::optional<bool>& value) {
  return value ? std::optional<int64_t>(*value ? 1 : 0) : std::nullopt;
}

std::optional<bool> AsBool(const std::optional<int64_t>& value) {
  return value ? std::optional<bool>(*value != 0) : std::nullopt;
}

Status InsertOwnRow(Database& database, const Attempt& attempt) {
  static const std::string sql = InsertSql();
  ASSIGN_OR_RETURN(Statement* const insert, database.Prepare(sql));
  insert->Bind(attempt.run).Bind(attempt.id).Bind(attempt.condition);
  insert->Bind(int64_t{attempt.prime}).Bind(OutcomeName(attempt.outcome));
  insert->Bind(attempt.outcome_detail).BindTextOrNull(attempt.api);
  insert->BindTextOrNull(attempt.first_token_channel).Bind(AsInt(attempt.stream.coalesced));
  insert->Bind(AsInt(attempt.connection.reused)).BindTextOrNull(attempt.connection.family);
  insert->BindTextOrNull(attempt.connection.remote).BindTextOrNull(attempt.server_json);
  insert->BindTextOrNull(attempt.extra_json).BindTextOrNull(attempt.samples_json);
  for (const StageTime& stage : attempt.stages) {
    insert->BindTextOrNull(stage.source ? StageSourceName(*stage.source) : std::string_view());
  }
  for (const IntegerField& field : IntegerFields()) insert->Bind(Read(field, attempt));
  return insert->Run();
}

Status InsertTimes(Database& database, int64_t key, const Attempt& attempt) {
  if (!attempt.segments.empty()) {
    ASSIGN_OR_RETURN(Statement* const insert,
                     database.Prepare("INSERT INTO segments VALUES (?, ?, ?, ?, ?)"));
    int64_t place = 0;
    for (const Segment& segment : attempt.segments) {
      insert->Bind(key).Bind(place++).Bind(StageName(segment.stage));
      RETURN_IF_ERROR(insert->Bind(segment.start_ns).Bind(segment.end_ns).Run());
    }
  }
  if (!attempt.lanes.empty()) {
    ASSIGN_OR_RETURN(Statement* const insert,
                     database.Prepare("INSERT INTO lanes VALUES (?, ?, ?, ?, ?, ?)"));
    int64_t place = 0;
    for (const Lane& lane : attempt.lanes) {
      insert->Bind(key).Bind(place++).Bind(lane.name).Bind(lane.start_ns);
      RETURN_IF_ERROR(insert->Bind(lane.end_ns).Bind(lane.bytes).Run());
    }
  }
  return {};
}

Status InsertCounters(Database& database, int64_t key, const Attempt& attempt) {
  if (attempt.counters.empty()) return {};
  ASSIGN_OR_RETURN(Statement* const insert,
                   database.Prepare("INSERT INTO counters VALUES (?, ?, ?)"));
  for (const auto& [name, value] : attempt.counters) {
    insert->Bind(key).Bind(name);
    if (value) {
      std::visit([insert](auto number) { insert->Bind(number); }, *value);
    } else {
      insert->BindNull();
    }
    RETURN_IF_ERROR(insert->Run());
  }
  return {};
}

Status InsertStates(Database& database, int64_t key, std::string_view moment,
                    const LayerReadings& readings) {
  if (readings.empty()) return {};
  ASSIGN_OR_RETURN(Statement* const insert,
                   database.Prepare("INSERT INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  for (const auto& [layer, reading] : readings) {
    insert->Bind(key).Bind(moment).Bind(layer);
    if (const double* share = std::get_if<double>(&reading.value)) {
      insert->Bind(*share);
    } else if (const std::string* word = std::get_if<std::string>(&reading.value)) {
      insert->Bind(std::string_view(*word));
    } else {
      insert->BindNull();
    }
    insert->BindTextOrNull(reading.proof).BindTextOrNull(reading.wanted);
    insert->Bind(AsInt(reading.reached)).Bind(reading.detail);
    RETURN_IF_ERROR(insert->BindTextOrNull(reading.strip_json).Run());
  }
  return {};
}

Status InsertRemarks(Database& database, int64_t key, const Attempt& attempt) {
  int64_t place = 0;
  for (const std::string& fault : attempt.stream.faults) {
    ASSIGN_OR_RETURN(Statement* const insert,
                     database.Prepare("INSERT INTO stream_faults VALUES (?, ?, ?)"));
    RETURN_IF_ERROR(insert->Bind(key).Bind(place++).Bind(fault).Run());
  }
  for (const auto& [field, reason] : attempt.null_reasons) {
    ASSIGN_OR_RETURN(Statement* const insert,
                     database.Prepare("INSERT INTO null_reasons VALUES (?, ?, ?)"));
    RETURN_IF_ERROR(insert->Bind(key).Bind(field).Bind(reason).Run());
  }
  place = 0;
  for (const Warning& warning : attempt.warnings) {
    ASSIGN_OR_RETURN(Statement* const insert,
                     database.Prepare("INSERT INTO warnings VALUES (?, ?, ?, ?)"));
    RETURN_IF_ERROR(insert->Bind(key).Bind(place++).Bind(warning.code).Bind(warning.message).Run());
  }
  return {};
}

Attempt ReadOwnRow(const Statement& row) {
  Attempt attempt;
  attempt.run = row.Int(1);
  attempt.id = row.Int(2);
  int column = 3;
  attempt.condition = row.Text(column++);
  attempt.prime = row.Int(column++) != 0;
  // An outcome that only a later version knows must not pass for a good one.
  attempt.outcome = OutcomeFromName(row.Text(column++)).value_or(Outcome::kMalformed);
  attempt.outcome_detail = row.Text(column++);
  attempt.api = row.Text(column++);
  attempt.first_token_channel = row.Text(column++);
  attempt.stream.coalesced = AsBool(row.OptionalInt(column++));
  attempt.connection.reused = AsBool(row.OptionalInt(column++));
  attempt.connection.family = row.Text(column++);
  attempt.connection.remote = row.Text(column++);
  attempt.server_json = row.Text(column++);
  attempt.extra_json = row.Text(column++);
  attempt.samples_json = row.Text(column++);
  for (StageTime& stage : attempt.stages) {
    if (!row.IsNull(column)) stage.source = StageSourceFromName(row.Text(column));
    ++column;
  }
  for (const IntegerField& field : IntegerFields()) field.at(attempt) = row.OptionalInt(column++);
  return attempt;
}

// Where the attempts of a run are: by the key of their row, the index in the list.
struct Places {
  std::unordered_map<int64_t, size_t> of_key;
  int64_t first = 0;
  int64_t last = -1;
};

// In the order of its primary key, which begins with the attempt's key, SQLite walks a child table
// from the run's first key to its last and sorts nothing.
std::string ChildrenSql(const std::string& table, const std::string& columns,
                        const std::string& order) {
  return "SELECT attempt, " + columns + " FROM " + table +
         " WHERE attempt BETWEEN ? AND ? ORDER BY attempt, " + order;
}

// Runs `take(attempt, row)` for each row that belongs to the run; column 0 is the attempt's key.
// Rows of a run that was written at the same time lie in between and are passed over.
template <typename Take>
Status ReadChildren(Database& database, const std::string& sql, const Places& places,
                    std::vector<Attempt>& attempts, const Take& take) {
  ASSIGN_OR_RETURN(Statement* const select, database.Prepare(sql));
  select->Bind(places.first).Bind(places.last);
  int64_t key = -1;
  Attempt* attempt = nullptr;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) return {};
    if (const int64_t owner = select->Int(0); owner != key) {
      key = owner;
      const auto place = places.of_key.find(key);
      attempt = place == places.of_key.end() ? nullptr : &attempts[place->second];
    }
    if (attempt != nullptr) take(*attempt, *select);
  }
}

void TakeCounter(Attempt& attempt, const Statement& row) {
  std::optional<MetricValue>& place = attempt.counters[row.Text(1)];
  switch (row.TypeOf(2)) {
    case Statement::Type::kInteger:
      place = row.Int(2);
      break;
    case Statement::Type::kReal:
      place = row.Real(2);
      break;
    default:
      break;
  }
}

void TakeState(Attempt& attempt, const Statement& row) {
  const std::string moment = row.Text(1);
  LayerReadings& readings = moment == "before"    ? attempt.state_before
                            : moment == "at_send" ? attempt.state_at_send
                                                  : attempt.state_after;
  LayerReading& reading = readings[row.Text(2)];
  switch (row.TypeOf(3)) {
    case Statement::Type::kInteger:
    case Statement::Type::kReal:
      reading.value = row.Real(3);
      break;
    case Statement::Type::kText:
      reading.value = row.Text(3);
      break;
    case Statement::Type::kNull:
      break;
  }
  reading.proof = row.Text(4);
  reading.wanted = row.Text(5);
  reading.reached = AsBool(row.OptionalInt(6));
  reading.detail = row.Text(7);
  reading.strip_json = row.Text(8);
}

void TakeSegment(Attempt& attempt, const Statement& row) {
  attempt.segments.push_back(
      {StageFromName(row.Text(1)).value_or(Stage::kUnattributed), row.Int(2), row.Int(3)});
}

void TakeLane(Attempt& attempt, const Statement& row) {
  attempt.lanes.push_back({row.Text(1), row.Int(2), row.Int(3), row.OptionalInt(4)});
}

Status ReadAllChildren(Database& database, Detail detail, const Places& places,
                       std::vector<Attempt>& attempts) {
  const auto read = [&](const std::string& table, const std::string& columns,
                        const std::string& order, const auto& take) {
    return ReadChildren(database, ChildrenSql(table, columns, order), places, attempts, take);
  };
  if (detail == Detail::kReport) {
    // One search an attempt, past its three dozen other counters.
    RETURN_IF_ERROR(ReadChildren(database,
                                 "SELECT attempt, name, value FROM attempts CROSS JOIN counters ON "
                                 "attempt = key AND name = 'target_read_bytes' WHERE key BETWEEN ? "
                                 "AND ? ORDER BY key",
                                 places, attempts, TakeCounter));
  } else {
    RETURN_IF_ERROR(read("counters", "name, value", "name", TakeCounter));
    RETURN_IF_ERROR(
        read("null_reasons", "field, reason", "field", [](Attempt& attempt, const Statement& row) {
          attempt.null_reasons[row.Text(1)] = row.Text(2);
        }));
  }
  RETURN_IF_ERROR(read("states", "moment, layer, value, proof, wanted, reached, detail, strip_json",
                       "moment, layer", TakeState));
  RETURN_IF_ERROR(read("segments", "stage, start_ns, end_ns", "place", TakeSegment));
  RETURN_IF_ERROR(read("lanes", "name, start_ns, end_ns, bytes", "place", TakeLane));
  RETURN_IF_ERROR(
      read("stream_faults", "fault", "place", [](Attempt& attempt, const Statement& row) {
        attempt.stream.faults.push_back(row.Text(1));
      }));
  return read("warnings", "code, message", "place", [](Attempt& attempt, const Statement& row) {
    attempt.warnings.push_back({row.Text(1), row.Text(2)});
  });
}

}  // namespace

Status InsertAttempt(Database& database, const Attempt& attempt) {
  RETURN_IF_ERROR(InsertOwnRow(database, attempt));
  const int64_t key = database.LastRowId();
  RETURN_IF_ERROR(InsertTimes(database, key, attempt));
  RETURN_IF_ERROR(InsertCounters(database, key, attempt));
  RETURN_IF_ERROR(InsertStates(database, key, "before", attempt.state_before));
  RETURN_IF_ERROR(InsertStates(database, key, "at_send", attempt.state_at_send));
  RETURN_IF_ERROR(InsertStates(database, key, "after", attempt.state_after));
  return InsertRemarks(database, key, attempt);
}

Result<std::vector<Attempt>> ReadAttempts(Database& database, int64_t run, Detail detail) {
  ASSIGN_OR_RETURN(Statement* const select, database.Prepare(SelectSql()));
  select->Bind(run);
  std::vector<Attempt> attempts;
  Places places;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) break;
    if (places.of_key.empty()) places.first = select->Int(0);
    places.last = select->Int(0);
    places.of_key[places.last] = attempts.size();
    attempts.push_back(ReadOwnRow(*select));
  }
  if (detail == Detail::kSummary) return attempts;
  RETURN_IF_ERROR(ReadAllChildren(database, detail, places, attempts));
  return attempts;
}

Result<std::vector<Attempt>> ReadLastAttempts(Database& database, int64_t run, int64_t count) {
  ASSIGN_OR_RETURN(Statement* const select, database.Prepare(SelectLastSql()));
  select->Bind(run).Bind(count);
  std::vector<Attempt> attempts;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) break;
    attempts.push_back(ReadOwnRow(*select));
  }
  std::reverse(attempts.begin(), attempts.end());
  return attempts;
}

}  // namespace rouse::results
