// Loads beside the server under test: memory pressure (a ballast process), background work (cpu,
// disk, requests) and the co-tenant sentinel, which tells how much other services were slowed. Each
// runs in a process of its own (lab/worker.h) that ends with the tool, however that ends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace rouse::lab {

// What is to run beside one attempt.
struct LoadSpec {
  std::optional<int64_t> ballast_bytes;
  std::string background = "none";  // none, cpu, disk, requests, model
  // For `disk`: the file that is read with O_DIRECT.
  std::string disk_file;
  // For `requests`: the server under test, and what asks it.
  std::string url;
  std::string api;
  std::string model;
  std::map<std::string, std::string> headers_env;  // header -> environment variable
  // For `model`: the file that another server of ours has loaded and answers requests with.
  std::string other_model = {};
};

// What the kernel says of the load processes; read without touching the server. Totals since their
// start.
struct LoadReading {
  std::optional<int64_t> ballast_bytes;  // anonymous resident memory of the ballast process
  std::optional<int64_t> cpu_ns;         // of the background process
  std::optional<int64_t> read_bytes;     // from block devices, of the background process
};

// What the loads did, as they tell it at their end.
struct LoadReport {
  std::optional<int64_t> requests_answered;
};

// Running loads. Destroyed: their processes are ended, and a ballast's control group is removed.
class Loads {
 public:
  virtual ~Loads() = default;
  virtual LoadReading Read() = 0;
  // The control group of the ballast, or why it has none.
  virtual std::string BallastGroup() const = 0;
  virtual Result<LoadReport> Finish(MonoTime deadline) = 0;
};

// How much the sentinel's unit of work was slowed while a request ran.
struct SentinelReading {
  int64_t before_count = 0;
  int64_t during_count = 0;
  int64_t before_median_ns = 0;
  int64_t during_median_ns = 0;
  // during / before - 1; negative when it was faster.
  double slowdown = 0;
};

// A small fixed workload, 4.5 ms every 50 ms (about a tenth of one core), from its start on. Less
// work would notice nothing: see kSentinelUnitNs in lab/worker.cc.
class Sentinel {
 public:
  virtual ~Sentinel() = default;
  // Ends it and compares its units in [from, to) with those before `from`. kState when there are
  // fewer than 5 before or 3 in it: then nothing can be said.
  virtual Result<SentinelReading> Finish(MonoTime from, MonoTime to, MonoTime deadline) = 0;
};

// The seam: tests give a maker that starts nothing. Start returns when the load stands; kState with
// the load's own words when it could not be brought about, kTimeout past `deadline`.
class LoadMaker {
 public:
  virtual ~LoadMaker() = default;
  virtual Result<std::unique_ptr<Loads>> StartLoads(const LoadSpec& spec, MonoTime deadline) = 0;
  virtual Result<std::unique_ptr<Sentinel>> StartSentinel(MonoTime deadline) = 0;
};
LoadMaker& RealLoadMaker();

// Removes control groups of ballasts whose tool and warden were both killed, below one directory or
// below our own memory group; returns those that are gone. Every ballast does it first.
std::vector<std::string> RemoveStaleBallastGroups(const std::string& parent_directory);
std::vector<std::string> RemoveStaleBallastGroups();

// The comparison itself, of units given by start and duration. Pure.
Result<SentinelReading> CompareSentinelUnits(const std::vector<int64_t>& start_ns,
                                             const std::vector<int64_t>& duration_ns, MonoTime from,
                                             MonoTime to);

}  // namespace rouse::lab
