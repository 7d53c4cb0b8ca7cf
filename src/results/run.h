// A run: one execution of a plan, with the environment that it ran in. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/attempt.h"
#include "results/verification.h"

namespace rouse::results {

struct ConditionRow {
  std::string name;
  std::string base;       // the condition that it differs from in one layer, or ""
  std::string changed;    // the layer that it changes, or "" for a root
  bool compound = false;  // declared to change several layers together
  std::map<std::string, std::string> state;  // layer -> wanted value, inherited ones included
  std::optional<int64_t> idle_ns;
};

struct HypothesisRow {
  std::string name;
  std::string metric;     // "ttft"
  std::string statistic;  // "median", "p90", "p95", "mean"
  std::string treatment;
  std::string control;
  std::string expect;  // "decrease", "increase", "equal"
  std::string margin;  // as written: "100ms" or "10%"
  double confidence = 0.95;
  std::vector<std::string> guards;  // as written: "failure_rate<=0.05"
};

// What the client itself adds, measured against the null server at the start of the run.
struct CalibrationRow {
  int64_t streams = 1;  // concurrent streams
  int64_t samples = 0;
  std::optional<int64_t> median_ns;
  std::optional<int64_t> p99_ns;
  std::optional<int64_t> max_ns;
};

// Where a run stands right now, for somebody who looks on from another process and for the one that
// goes on with it after a crash. Written before each attempt and before each idle time, never while
// something is measured.
struct RunProgress {
  int64_t updated_wall_ns = 0;
  // The process that measures: alive as long as this boot has this pid with this start time.
  std::string boot_id;
  int64_t tool_pid = 0;
  int64_t tool_start_ticks = 0;
  std::optional<int64_t> position;  // of the attempt in flight; none for a prime
  int64_t done = 0;                 // attempts, primes not counted
  int64_t total = 0;
  std::string condition;                 // of the attempt in flight
  std::string doing;                     // what is being waited for, in words
  std::optional<int64_t> until_wall_ns;  // when that is expected to end, where it is known
  int64_t eta_ns = 0;                    // of the whole rest
  bool operator==(const RunProgress&) const = default;
};

struct Run {
  std::optional<int64_t> id;  // set by the store
  std::string name;
  std::string kind;    // "measure" or "import"
  std::string status;  // "running", "complete", "paused", "interrupted", "failed"
  std::string rouse_version;
  int64_t started_wall_ns = 0;
  std::optional<int64_t> ended_wall_ns;
  std::optional<uint64_t> seed;
  std::string plan_toml;                           // the whole plan, verbatim
  std::string plan_hash;                           // SHA-256 of its canonical form, hexadecimal
  std::string target;                              // "builtin", a URL or a command
  std::string model;                               // name or path
  std::map<std::string, std::string> environment;  // kernel, cpu, memory, disk, engine, hashes, ...
  std::vector<ConditionRow> conditions;            // in the order of the plan
  std::vector<HypothesisRow> hypotheses;
  std::vector<CalibrationRow> calibration;
  // The TTFT that was wanted after each idle time, declared before the first attempt.
  std::optional<int64_t> require_ttft_ns;
  std::vector<VerificationCase> verification;  // of a plan with `verify = true`, else empty
};

}  // namespace rouse::results
