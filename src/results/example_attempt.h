// An attempt with every field set, each to a value of its own, for the tests of this folder.
#pragma once

#include <string>

#include "results/attempt.h"
#include "results/fields.h"

namespace rouse::results {

inline Attempt ExampleAttempt() {
  Attempt attempt;
  attempt.condition = "page cache cold";
  attempt.outcome = Outcome::kOk;
  attempt.outcome_detail = "";
  attempt.api = "openai-chat";
  attempt.first_token_channel = "content";
  int64_t distinct = 1000;
  for (const IntegerField& field : IntegerFields()) field.at(attempt) = ++distinct;
  attempt.stages[4].source = StageSource::kServer;
  attempt.stages[7].source = StageSource::kClient;
  attempt.segments = {{Stage::kQueue, 1, 2}, {Stage::kPrefill, 2, 9}};
  attempt.lanes = {{"reader 0", 5, 6, 4096}, {"graph", 6, 7, std::nullopt}};
  attempt.stream.coalesced = true;
  attempt.stream.faults = {"ends in the middle of an event"};
  attempt.connection = {false, "ipv4", "127.0.0.1:8080"};
  attempt.counters["target_read_bytes"] = MetricValue(int64_t{98'000'000});
  attempt.counters["cotenant_slowdown_ratio"] = MetricValue(1.0);
  attempt.counters["psi_io_full_us"] = std::nullopt;
  attempt.state_before["page_cache"] = {0.0, "cachestat", "cold", true, "0 of 98 MB"};
  attempt.state_at_send["page_cache"] = {1.0, "cachestat", "", std::nullopt, "", "[1,0.5,0]"};
  attempt.state_after["process"] = {std::string("running"), "pid", "running", false, "pid 7"};
  attempt.state_after["model"] = {std::monostate(), "", "", std::nullopt, "server is gone"};
  attempt.server_json = R"({"timings":{"cache_n":0,"prompt_ms":1.5}})";
  attempt.samples_json =
      R"({"at_ns":[-5,7],"totals":{"target_major_faults":[0,3]},"page_cache":["009","099"]})";
  attempt.null_reasons = {{"psi_io_full_us", "no /proc/pressure"}};
  attempt.warnings = {{"localhost_two_families", "first"}, {"late", "second"}};
  attempt.extra_json = R"({"my_gpu":"none"})";
  return attempt;
}

}  // namespace rouse::results
