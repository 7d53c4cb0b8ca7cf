// Hand-made attempts for the tests of this folder: a healthy one of a built-in server, and the ways
// in which each seeded cause makes it late.
#pragma once

#include <string>
#include <vector>

#include "results/attempt.h"
#include "results/run.h"

namespace rouse::explain {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kFileBytes = 100'000'000;

inline void SetStage(results::Attempt& attempt, results::Stage stage, int64_t ms) {
  attempt.stages[static_cast<size_t>(stage)] = {ms * kMs, results::StageSource::kServer};
}

inline void AddStage(results::Attempt& attempt, results::Stage stage, int64_t ms) {
  results::StageTime& time = attempt.stages[static_cast<size_t>(stage)];
  time.ns = time.ns.value_or(0) + ms * kMs;
  attempt.ttft_ns = attempt.ttft_ns.value_or(0) + ms * kMs;
}

inline results::LayerReading Reading(std::variant<std::monostate, double, std::string> value,
                                     std::string wanted, std::string proof) {
  results::LayerReading reading;
  reading.value = std::move(value);
  reading.wanted = std::move(wanted);
  reading.proof = std::move(proof);
  reading.reached = true;
  return reading;
}

// 100 ms to the first token, 90 of them prefill; nothing is cold but the connection.
inline results::Attempt Healthy(int64_t id, const std::string& condition = "usual") {
  results::Attempt attempt;
  attempt.id = id;
  attempt.condition = condition;
  attempt.ttft_ns = 100 * kMs;
  for (const results::Stage stage :
       {results::Stage::kQueue, results::Stage::kProcessStart, results::Stage::kWeights,
        results::Stage::kRuntimeInit, results::Stage::kUnattributed}) {
    SetStage(attempt, stage, 0);
  }
  SetStage(attempt, results::Stage::kTokenize, 2);
  SetStage(attempt, results::Stage::kPrefill, 90);
  SetStage(attempt, results::Stage::kFirstDecode, 5);
  SetStage(attempt, results::Stage::kTransport, 3);
  attempt.marks.send_start = 0;
  attempt.marks.first_token = 100 * kMs;
  attempt.marks.last_token = 200 * kMs;
  attempt.tokens.prompt = 45;
  attempt.tokens.cached = 0;
  attempt.stream.token_events = 8;
  attempt.connection.reused = false;
  for (const char* const name :
       {"target_read_bytes", "target_major_faults", "target_run_queue_wait_ns",
        "machine_reclaimed_bytes", "machine_swap_in_bytes", "machine_disk_read_bytes",
        "psi_memory_some_us", "psi_cpu_some_us", "psi_io_some_us", "cgroup_throttled_us"}) {
    attempt.counters[name] = int64_t{0};
  }
  attempt.counters["cpu_clock_hz"] = int64_t{3'000'000'000};
  attempt.state_before["model"] = Reading("loaded", "loaded", "the server's state");
  for (results::LayerReadings* const moment : {&attempt.state_before, &attempt.state_at_send}) {
    (*moment)["page_cache"] = Reading(1.0, "warm", "cachestat");
    (*moment)["process"] = Reading("running", "running", "pid and start time");
  }
  attempt.state_after["prefix_cache"] = Reading("empty", "empty", "cached tokens of the answer");
  return attempt;
}

// Healthy attempts of a server that has to load: the file is cached, the model is not loaded.
inline results::Attempt Loading(int64_t id, const std::string& condition = "usual") {
  results::Attempt attempt = Healthy(id, condition);
  attempt.state_before["model"] = Reading("unloaded", "unloaded", "the server's state");
  AddStage(attempt, results::Stage::kWeights, 20);
  AddStage(attempt, results::Stage::kRuntimeInit, 10);
  attempt.lanes.push_back({"weights", 0, 20 * kMs, kFileBytes});
  return attempt;
}

// The same with the file on the disk: 200 ms at 500 MB/s.
inline results::Attempt ColdLoading(int64_t id, const std::string& condition = "usual") {
  results::Attempt attempt = Loading(id, condition);
  attempt.state_at_send["page_cache"] = Reading(0.0, "cold", "cachestat");
  AddStage(attempt, results::Stage::kWeights, 180);
  attempt.lanes = {{"weights", 0, 200 * kMs, kFileBytes}};
  attempt.counters["target_read_bytes"] = kFileBytes;
  attempt.counters["machine_disk_read_bytes"] = kFileBytes;
  return attempt;
}

inline results::ConditionRow Condition(std::string name, std::string base = "",
                                       std::string changed = "", std::string value = "",
                                       std::optional<int64_t> idle_ns = {}) {
  results::ConditionRow row;
  row.name = std::move(name);
  row.base = std::move(base);
  row.changed = std::move(changed);
  if (!value.empty()) row.state[row.changed] = std::move(value);
  row.idle_ns = idle_ns;
  return row;
}

template <typename Make>
std::vector<results::Attempt> SixOf(const Make& make, const std::string& condition = "usual") {
  std::vector<results::Attempt> attempts;
  for (int64_t i = 1; i <= 6; ++i) {
    attempts.push_back(make(i, condition));
    attempts.back().block = i - 1;
    // A spread of some ms, as any machine has.
    AddStage(attempts.back(), results::Stage::kPrefill, i % 3);
  }
  return attempts;
}

}  // namespace rouse::explain
