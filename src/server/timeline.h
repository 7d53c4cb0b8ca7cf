// Where a request's time went, up to its first token: segments that do not overlap and leave no
// gap, and lanes of what ran meanwhile. `rouse.timeline/1` of docs/method.md. Pure: no clock, no
// I/O.
//
// While a request waits for a load, its time belongs to the load step that it waited for (the
// critical path, engine::WaitedFor); what it waits for other requests, and the work of the
// server itself, is `queue`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "engine/steps.h"

namespace rouse::server {

struct TimelineSegment {
  std::string_view stage;  // "queue", "weights", "runtime_init", "tokenize", "prefill", ...
  MonoTime start;
  MonoTime end;
};

// A load, as far as it is of interest to those who waited for it.
struct LoadWindow {
  MonoTime start;
  MonoTime end;
  std::vector<engine::Step> steps;
};

// The moments of one request. Each must not be before the one above it; one that is, is moved up.
struct RequestMarks {
  MonoTime start;  // accepted, or first byte
  MonoTime taken;  // the engine thread turned to it (and loaded, if needed)
  std::optional<MonoTime> tokenize_start;
  std::optional<MonoTime> tokenize_end;
  std::optional<MonoTime> prefill_end;
  std::optional<MonoTime> first_written;  // the first token's event had been given to the kernel
};

// Tiles [marks.start, the last mark]. Without a first token it ends with what was reached.
std::vector<TimelineSegment> TileRequest(const RequestMarks& marks,
                                         const std::vector<LoadWindow>& loads);

// The steps of loads that ran between `start` and `end`.
std::vector<engine::Step> LanesBetween(const std::vector<LoadWindow>& loads, MonoTime start,
                                       MonoTime end);

// What this process can say about its own start, so that a client that started it can join its
// clock to the first segment.
struct ProcessFacts {
  int pid = 0;
  // From /proc/self/stat, in ticks of 10 ms on most kernels: up to one tick too early.
  std::optional<MonoTime> exec_start;
  int64_t exec_start_resolution_ns = 0;
  std::optional<MonoTime> main_entered;
  std::optional<MonoTime> listening;
};
// Reads /proc; `main_entered` is the caller's.
ProcessFacts ReadProcessFacts(std::optional<MonoTime> main_entered);
std::string ProcessJson(const ProcessFacts& facts);

std::string TimelineJson(const std::vector<TimelineSegment>& segments,
                         const std::vector<engine::Step>& lanes, int64_t cached_tokens,
                         const ProcessFacts& process);

}  // namespace rouse::server
