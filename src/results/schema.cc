#include "results/schema.h"

#include <array>

#include "results/store.h"

namespace rouse::results {
namespace {

// Columns without a declared type hold integers and reals as they were given.
constexpr std::string_view kVersion1 = R"sql(
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  status TEXT NOT NULL,
  rouse_version TEXT NOT NULL,
  started_wall_ns INTEGER NOT NULL,
  ended_wall_ns INTEGER,
  seed TEXT,
  plan_toml TEXT NOT NULL,
  plan_hash TEXT NOT NULL,
  target TEXT NOT NULL,
  model TEXT NOT NULL
);
CREATE TABLE run_environment (
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE conditions (
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  base TEXT,
  changed TEXT,
  compound INTEGER NOT NULL,
  idle_ns INTEGER,
  PRIMARY KEY (run, ordinal)
) WITHOUT ROWID;
CREATE TABLE condition_states (
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  layer TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, ordinal, layer)
) WITHOUT ROWID;
CREATE TABLE hypotheses (
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  metric TEXT NOT NULL,
  statistic TEXT NOT NULL,
  treatment TEXT NOT NULL,
  control TEXT NOT NULL,
  expect TEXT NOT NULL,
  margin TEXT NOT NULL,
  confidence REAL NOT NULL,
  PRIMARY KEY (run, ordinal)
) WITHOUT ROWID;
CREATE TABLE hypothesis_guards (
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  place INTEGER NOT NULL,
  guard TEXT NOT NULL,
  PRIMARY KEY (run, ordinal, place)
) WITHOUT ROWID;
CREATE TABLE calibrations (
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  streams INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  median_ns INTEGER,
  p99_ns INTEGER,
  max_ns INTEGER,
  PRIMARY KEY (run, ordinal)
) WITHOUT ROWID;

CREATE TABLE attempts (
  key INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  id INTEGER NOT NULL,
  condition TEXT NOT NULL,
  prime INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  outcome_detail TEXT NOT NULL,
  api TEXT,
  first_token_channel TEXT,
  block INTEGER,
  position INTEGER,
  http_status INTEGER,
  started_wall_ns INTEGER,
  suspended_ns INTEGER,
  idle_ns INTEGER,
  mark_send_start_ns INTEGER,
  mark_connected_ns INTEGER,
  mark_request_sent_ns INTEGER,
  mark_response_headers_ns INTEGER,
  mark_first_byte_ns INTEGER,
  mark_first_event_ns INTEGER,
  mark_first_token_ns INTEGER,
  mark_first_content_ns INTEGER,
  mark_last_token_ns INTEGER,
  mark_end_ns INTEGER,
  ttft_ns INTEGER,
  ttfc_ns INTEGER,
  uncertainty_ns INTEGER,
  tries INTEGER,
  stage_queue_ns INTEGER,
  stage_process_start_ns INTEGER,
  stage_weights_ns INTEGER,
  stage_runtime_init_ns INTEGER,
  stage_tokenize_ns INTEGER,
  stage_prefill_ns INTEGER,
  stage_first_decode_ns INTEGER,
  stage_transport_ns INTEGER,
  stage_unattributed_ns INTEGER,
  stage_queue_source TEXT,
  stage_process_start_source TEXT,
  stage_weights_source TEXT,
  stage_runtime_init_source TEXT,
  stage_tokenize_source TEXT,
  stage_prefill_source TEXT,
  stage_first_decode_source TEXT,
  stage_transport_source TEXT,
  stage_unattributed_source TEXT,
  prompt_tokens INTEGER,
  cached_tokens INTEGER,
  completion_tokens INTEGER,
  first_chunk_tokens INTEGER,
  stream_events INTEGER,
  stream_token_events INTEGER,
  stream_pings INTEGER,
  stream_reads INTEGER,
  stream_coalesced INTEGER,
  connection_reused INTEGER,
  connection_family TEXT,
  connection_remote TEXT,
  server_json TEXT,
  extra_json TEXT,
  UNIQUE (run, id)
);
CREATE INDEX attempts_by_condition ON attempts (run, condition);
CREATE TABLE stream_faults (
  attempt INTEGER NOT NULL REFERENCES attempts(key) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  fault TEXT NOT NULL,
  PRIMARY KEY (attempt, place)
) WITHOUT ROWID;
CREATE TABLE segments (
  attempt INTEGER NOT NULL REFERENCES attempts(key) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  stage TEXT NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  PRIMARY KEY (attempt, place)
) WITHOUT ROWID;
CREATE TABLE lanes (
  attempt INTEGER NOT NULL REFERENCES attempts(key) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  name TEXT NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  bytes INTEGER,
  PRIMARY KEY (attempt, place)
) WITHOUT ROWID;
CREATE TABLE counters (
  attempt INTEGER NOT NULL REFERENCES attempts(key) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value,
  PRIMARY KEY (attempt, name)
) WITHOUT ROWID;
CREATE TABLE states (
  attempt INTEGER NOT NULL REFERENCES attempts(key) ON DELETE CASCADE,
  moment TEXT NOT NULL CHECK (moment IN ('before', 'at_send', 'after')),
  layer TEXT NOT NULL,
  value,
  proof TEXT,
  wanted TEXT,
  reached INTEGER,
  detail TEXT NOT NULL,
  PRIMARY KEY (attempt, moment, layer)
) WITHOUT ROWID;
CREATE TABLE null_reasons (
  attempt INTEGER NOT NULL REFERENCES attempts(key) ON DELETE CASCADE,
  field TEXT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (attempt, field)
) WITHOUT ROWID;
CREATE TABLE warnings (
  attempt INTEGER NOT NULL REFERENCES attempts(key) ON DELETE CASCADE,
  place INTEGER NOT NULL,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  PRIMARY KEY (attempt, place)
) WITHOUT ROWID;

-- The attempts that statistics count: no primes, none whose request was never meant to be judged.
CREATE VIEW sample AS
  SELECT * FROM attempts
  WHERE prime = 0 AND outcome NOT IN ('state_not_reached', 'interrupted');
)sql";

// A run's progress, for `rouse list --follow` and `--resume`; the TTFT that a run was to hold.
constexpr std::string_view kVersion2 = R"sql(
ALTER TABLE runs ADD COLUMN require_ttft_ns INTEGER;
CREATE TABLE run_progress (
  run INTEGER PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE,
  updated_wall_ns INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  tool_pid INTEGER NOT NULL,
  tool_start_ticks INTEGER NOT NULL,
  position INTEGER,
  done INTEGER NOT NULL,
  total INTEGER NOT NULL,
  condition TEXT NOT NULL,
  doing TEXT NOT NULL,
  until_wall_ns INTEGER,
  eta_ns INTEGER NOT NULL
);
)sql";

// The page cache by parts of the file, and what was sampled while an attempt ran; both JSON.
constexpr std::string_view kVersion3 = R"sql(
ALTER TABLE states ADD COLUMN strip_json TEXT;
ALTER TABLE attempts ADD COLUMN samples_json TEXT;
)sql";

// The cases of a run with `verify = true`. Files that call themselves version 3 may have them
// already.
constexpr std::string_view kVersion4 = R"sql(
CREATE TABLE IF NOT EXISTS verification_cases (
  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  does TEXT NOT NULL,
  expects TEXT NOT NULL,
  nothing_lost TEXT NOT NULL,
  bound_ns INTEGER NOT NULL,
  status TEXT NOT NULL,
  detail TEXT NOT NULL,
  took_ns INTEGER,
  PRIMARY KEY (run, ordinal)
) WITHOUT ROWID;
)sql";

constexpr std::array<std::string_view, 4> kMigrations = {kVersion1, kVersion2, kVersion3,
                                                         kVersion4};
static_assert(kMigrations.size() == kStoreVersion, "a file says which migrations it has");

}  // namespace

std::span<const std::string_view> Migrations() { return kMigrations; }

}  // namespace rouse::results
