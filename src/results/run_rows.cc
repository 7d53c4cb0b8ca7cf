// The rows that describe a run, without its attempts.
#include <charconv>
#include <string>

#include "results/store_rows.h"

namespace rouse::results {
namespace {

// A seed has 64 bits without a sign, which SQLite's integers do not hold: decimal text.
std::string SeedText(const std::optional<uint64_t>& seed) {
  return seed ? std::to_string(*seed) : "";
}

std::optional<uint64_t> SeedFromText(const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, seed);
  if (text.empty() || code != std::errc() || stop != end) return std::nullopt;
  return seed;
}

Status InsertEnvironment(Database& database, int64_t id, const Run& run) {
  ASSIGN_OR_RETURN(Statement* const insert,
                   database.Prepare("INSERT INTO run_environment VALUES (?, ?, ?)"));
  for (const auto& [name, value] : run.environment) {
    RETURN_IF_ERROR(insert->Bind(id).Bind(name).Bind(value).Run());
  }
  return {};
}

Status InsertConditions(Database& database, int64_t id, const Run& run) {
  ASSIGN_OR_RETURN(Statement* const insert,
                   database.Prepare("INSERT INTO conditions VALUES (?, ?, ?, ?, ?, ?, ?)"));
  ASSIGN_OR_RETURN(Statement* const insert_state,
                   database.Prepare("INSERT INTO condition_states VALUES (?, ?, ?, ?)"));
  int64_t ordinal = 0;
  for (const ConditionRow& row : run.conditions) {
    insert->Bind(id).Bind(ordinal).Bind(row.name).BindTextOrNull(row.base);
    insert->BindTextOrNull(row.changed).Bind(int64_t{row.compound}).Bind(row.idle_ns);
    RETURN_IF_ERROR(insert->Run());
    for (const auto& [layer, value] : row.state) {
      RETURN_IF_ERROR(insert_state->Bind(id).Bind(ordinal).Bind(layer).Bind(value).Run());
    }
    ++ordinal;
  }
  return {};
}

Status InsertHypotheses(Database& database, int64_t id, const Run& run) {
  ASSIGN_OR_RETURN(
      Statement* const insert,
      database.Prepare("INSERT INTO hypotheses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  ASSIGN_OR_RETURN(Statement* const insert_guard,
                   database.Prepare("INSERT INTO hypothesis_guards VALUES (?, ?, ?, ?)"));
  int64_t ordinal = 0;
  for (const HypothesisRow& row : run.hypotheses) {
    insert->Bind(id).Bind(ordinal).Bind(row.name).Bind(row.metric).Bind(row.statistic);
    insert->Bind(row.treatment).Bind(row.control).Bind(row.expect).Bind(row.margin);
    RETURN_IF_ERROR(insert->Bind(row.confidence).Run());
    int64_t place = 0;
    for (const std::string& guard : row.guards) {
      RETURN_IF_ERROR(insert_guard->Bind(id).Bind(ordinal).Bind(place++).Bind(guard).Run());
    }
    ++ordinal;
  }
  return {};
}

Status InsertCalibration(Database& database, int64_t id, const Run& run) {
  ASSIGN_OR_RETURN(Statement* const insert,
                   database.Prepare("INSERT INTO calibrations VALUES (?, ?, ?, ?, ?, ?, ?)"));
  int64_t ordinal = 0;
  for (const CalibrationRow& row : run.calibration) {
    insert->Bind(id).Bind(ordinal++).Bind(row.streams).Bind(row.samples);
    RETURN_IF_ERROR(insert->Bind(row.median_ns).Bind(row.p99_ns).Bind(row.max_ns).Run());
  }
  return {};
}

Status InsertVerification(Database& database, int64_t id, const Run& run) {
  ASSIGN_OR_RETURN(Statement* const insert,
                   database.Prepare("INSERT INTO verification_cases VALUES "
                                    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  int64_t ordinal = 0;
  for (const VerificationCase& row : run.verification) {
    insert->Bind(id).Bind(ordinal++).Bind(row.name).Bind(CaseKindName(row.kind)).Bind(row.does);
    insert->Bind(row.expects).Bind(row.nothing_lost).Bind(row.bound_ns);
    insert->Bind(CaseStatusName(row.status)).Bind(row.detail);
    RETURN_IF_ERROR(insert->Bind(row.took_ns).Run());
  }
  return {};
}

Status ReadConditions(Database& database, int64_t id, Run& run) {
  ASSIGN_OR_RETURN(Statement* const select,
                   database.Prepare("SELECT name, base, changed, compound, idle_ns "
                                    "FROM conditions WHERE run = ? ORDER BY ordinal"));
  select->Bind(id);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) break;
    ConditionRow condition;
    condition.name = select->Text(0);
    condition.base = select->Text(1);
    condition.changed = select->Text(2);
    condition.compound = select->Int(3) != 0;
    condition.idle_ns = select->OptionalInt(4);
    run.conditions.push_back(std::move(condition));
  }
  ASSIGN_OR_RETURN(Statement* const states,
                   database.Prepare("SELECT ordinal, layer, value FROM condition_states "
                                    "WHERE run = ? ORDER BY ordinal"));
  states->Bind(id);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, states->Step());
    if (!row) return {};
    const auto ordinal = static_cast<size_t>(states->Int(0));
    if (ordinal < run.conditions.size()) {
      run.conditions[ordinal].state[states->Text(1)] = states->Text(2);
    }
  }
}

Status ReadHypotheses(Database& database, int64_t id, Run& run) {
  ASSIGN_OR_RETURN(Statement* const select,
                   database.Prepare("SELECT name, metric, statistic, treatment, control, expect, "
                                    "margin, confidence FROM hypotheses WHERE run = ? "
                                    "ORDER BY ordinal"));
  select->Bind(id);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) break;
    run.hypotheses.push_back({select->Text(0),
                              select->Text(1),
                              select->Text(2),
                              select->Text(3),
                              select->Text(4),
                              select->Text(5),
                              select->Text(6),
                              select->Real(7),
                              {}});
  }
  ASSIGN_OR_RETURN(Statement* const guards,
                   database.Prepare("SELECT ordinal, guard FROM hypothesis_guards WHERE run = ? "
                                    "ORDER BY ordinal, place"));
  guards->Bind(id);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, guards->Step());
    if (!row) return {};
    const auto ordinal = static_cast<size_t>(guards->Int(0));
    if (ordinal < run.hypotheses.size()) {
      run.hypotheses[ordinal].guards.push_back(guards->Text(1));
    }
  }
}

Status ReadSmallParts(Database& database, int64_t id, Run& run) {
  ASSIGN_OR_RETURN(Statement* const select,
                   database.Prepare("SELECT name, value FROM run_environment WHERE run = ?"));
  select->Bind(id);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) break;
    run.environment[select->Text(0)] = select->Text(1);
  }
  ASSIGN_OR_RETURN(Statement* const calibrations,
                   database.Prepare("SELECT streams, samples, median_ns, p99_ns, max_ns "
                                    "FROM calibrations WHERE run = ? ORDER BY ordinal"));
  calibrations->Bind(id);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, calibrations->Step());
    if (!row) return {};
    run.calibration.push_back({calibrations->Int(0), calibrations->Int(1),
                               calibrations->OptionalInt(2), calibrations->OptionalInt(3),
                               calibrations->OptionalInt(4)});
  }
}

Status ReadVerification(Database& database, int64_t id, Run& run) {
  ASSIGN_OR_RETURN(Statement* const select,
                   database.Prepare("SELECT name, kind, does, expects, nothing_lost, bound_ns, "
                                    "status, detail, took_ns FROM verification_cases "
                                    "WHERE run = ? ORDER BY ordinal"));
  select->Bind(id);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select->Step());
    if (!row) return {};
    const std::optional<CaseKind> kind = CaseKindFromName(select->Text(1));
    const std::optional<CaseStatus> status = CaseStatusFromName(select->Text(6));
    if (!kind || !status) {
      return Error(ErrorCode::kCorrupt, "a case of run " + std::to_string(id) + " in " +
                                            database.path() + " has kind \"" + select->Text(1) +
                                            "\" and status \"" + select->Text(6) +
                                            "\", which this version does not know");
    }
    run.verification.push_back({.name = select->Text(0),
                                .kind = *kind,
                                .does = select->Text(2),
                                .expects = select->Text(3),
                                .nothing_lost = select->Text(4),
                                .bound_ns = select->Int(5),
                                .status = *status,
                                .detail = select->Text(7),
                                .took_ns = select->OptionalInt(8)});
  }
}

}  // namespace

Result<int64_t> InsertRunRow(Database& database, const Run& run) {
  ASSIGN_OR_RETURN(Statement* const insert,
                   database.Prepare("INSERT INTO runs (name, kind, status, rouse_version, "
                                    "started_wall_ns, ended_wall_ns, seed, plan_toml, plan_hash, "
                                    "target, model, require_ttft_ns) "
                                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  const std::string seed = SeedText(run.seed);
  insert->Bind(run.name).Bind(run.kind).Bind(run.status).Bind(run.rouse_version);
  insert->Bind(run.started_wall_ns).Bind(run.ended_wall_ns).BindTextOrNull(seed);
  insert->Bind(run.plan_toml).Bind(run.plan_hash).Bind(run.target).Bind(run.model);
  insert->Bind(run.require_ttft_ns);
  RETURN_IF_ERROR(insert->Run());
  return database.LastRowId();
}

Status UpdateRunRow(Database& database, int64_t id, const Run& run) {
  ASSIGN_OR_RETURN(Statement* const update,
                   database.Prepare("UPDATE runs SET name = ?, kind = ?, status = ?, "
                                    "rouse_version = ?, started_wall_ns = ?, ended_wall_ns = ?, "
                                    "seed = ?, plan_toml = ?, plan_hash = ?, target = ?, "
                                    "model = ?, require_ttft_ns = ? WHERE id = ?"));
  const std::string seed = SeedText(run.seed);
  update->Bind(run.name).Bind(run.kind).Bind(run.status).Bind(run.rouse_version);
  update->Bind(run.started_wall_ns).Bind(run.ended_wall_ns).BindTextOrNull(seed);
  update->Bind(run.plan_toml).Bind(run.plan_hash).Bind(run.target).Bind(run.model);
  return update->Bind(run.require_ttft_ns).Bind(id).Run();
}

Status ReplaceRunParts(Database& database, int64_t id, const Run& run) {
  for (const char* const table : {"run_environment", "conditions", "condition_states", "hypotheses",
                                  "hypothesis_guards", "calibrations", "verification_cases"}) {
    ASSIGN_OR_RETURN(Statement* const remove,
                     database.Prepare(std::string("DELETE FROM ") + table + " WHERE run = ?"));
    RETURN_IF_ERROR(remove->Bind(id).Run());
  }
  RETURN_IF_ERROR(InsertEnvironment(database, id, run));
  RETURN_IF_ERROR(InsertConditions(database, id, run));
  RETURN_IF_ERROR(InsertHypotheses(database, id, run));
  RETURN_IF_ERROR(InsertCalibration(database, id, run));
  return InsertVerification(database, id, run);
}

Result<Run> ReadRun(Database& database, int64_t id) {
  ASSIGN_OR_RETURN(Statement* const select,
                   database.Prepare("SELECT name, kind, status, rouse_version, started_wall_ns, "
                                    "ended_wall_ns, seed, plan_toml, plan_hash, target, model, "
                                    "require_ttft_ns FROM runs WHERE id = ?"));
  ASSIGN_OR_RETURN(const bool row, select->Bind(id).Step());
  if (!row) {
    return Error(ErrorCode::kUsage, "there is no run " + std::to_string(id) + " in " +
                                        database.path() + ".\nrouse list shows the runs.");
  }
  Run run;
  run.id = id;
  run.name = select->Text(0);
  run.kind = select->Text(1);
  run.status = select->Text(2);
  run.rouse_version = select->Text(3);
  run.started_wall_ns = select->Int(4);
  run.ended_wall_ns = select->OptionalInt(5);
  run.seed = SeedFromText(select->Text(6));
  run.plan_toml = select->Text(7);
  run.plan_hash = select->Text(8);
  run.target = select->Text(9);
  run.model = select->Text(10);
  run.require_ttft_ns = select->OptionalInt(11);
  select->Reset();
  RETURN_IF_ERROR(ReadConditions(database, id, run));
  RETURN_IF_ERROR(ReadHypotheses(database, id, run));
  RETURN_IF_ERROR(ReadSmallParts(database, id, run));
  RETURN_IF_ERROR(ReadVerification(database, id, run));
  return run;
}

Status WriteProgress(Database& database, int64_t id, const RunProgress& progress) {
  ASSIGN_OR_RETURN(Statement* const replace,
                   database.Prepare("INSERT OR REPLACE INTO run_progress VALUES "
                                    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  replace->Bind(id).Bind(progress.updated_wall_ns).Bind(progress.boot_id).Bind(progress.tool_pid);
  replace->Bind(progress.tool_start_ticks).Bind(progress.position).Bind(progress.done);
  replace->Bind(progress.total).Bind(progress.condition).Bind(progress.doing);
  return replace->Bind(progress.until_wall_ns).Bind(progress.eta_ns).Run();
}

Result<std::optional<RunProgress>> ReadProgress(Database& database, int64_t id) {
  ASSIGN_OR_RETURN(
      Statement* const select,
      database.Prepare("SELECT updated_wall_ns, boot_id, tool_pid, tool_start_ticks, position, "
                       "done, total, condition, doing, until_wall_ns, eta_ns "
                       "FROM run_progress WHERE run = ?"));
  ASSIGN_OR_RETURN(const bool row, select->Bind(id).Step());
  if (!row) return std::optional<RunProgress>();
  RunProgress progress;
  progress.updated_wall_ns = select->Int(0);
  progress.boot_id = select->Text(1);
  progress.tool_pid = select->Int(2);
  progress.tool_start_ticks = select->Int(3);
  progress.position = select->OptionalInt(4);
  progress.done = select->Int(5);
  progress.total = select->Int(6);
  progress.condition = select->Text(7);
  progress.doing = select->Text(8);
  progress.until_wall_ns = select->OptionalInt(9);
  progress.eta_ns = select->Int(10);
  select->Reset();
  return std::optional<RunProgress>(std::move(progress));
}

}  // namespace rouse::results
