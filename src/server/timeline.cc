#include "server/timeline.h"

#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/strings.h"
#include "server/json_text.h"

namespace rouse::server {
namespace {

// Builds the tiling from left to right: each call extends it to `until`, if that is further.
class Tiler {
 public:
  explicit Tiler(MonoTime start) : now_(start) {}

  void ExtendTo(MonoTime until, std::string_view stage) {
    if (until <= now_) return;
    if (!segments_.empty() && segments_.back().stage == stage) {
      segments_.back().end = until;
    } else {
      segments_.push_back({stage, now_, until});
    }
    now_ = until;
  }

  MonoTime now() const { return now_; }
  std::vector<TimelineSegment> Take() { return std::move(segments_); }

 private:
  MonoTime now_;
  std::vector<TimelineSegment> segments_;
};

// The part of the waiting in which a load ran. Between its steps, and after them, the runtime was
// being set up.
void ExtendThroughLoad(Tiler& tiler, const LoadWindow& load, MonoTime until) {
  const std::string_view between = engine::StageName(engine::Stage::kRuntimeInit);
  for (const engine::Segment& segment : engine::WaitedFor(load.steps, tiler.now(), until)) {
    tiler.ExtendTo(segment.start, between);
    tiler.ExtendTo(segment.end, engine::StageName(segment.stage));
  }
  tiler.ExtendTo(until, between);
}

Json OptionalNs(const std::optional<MonoTime>& time) { return time ? Json(time->ns) : Json(); }

}  // namespace

std::vector<TimelineSegment> TileRequest(const RequestMarks& marks,
                                         const std::vector<LoadWindow>& loads) {
  Tiler tiler(marks.start);
  for (const LoadWindow& load : loads) {
    const MonoTime until = std::min(load.end, marks.taken);
    if (until <= tiler.now()) continue;
    tiler.ExtendTo(std::min(load.start, marks.taken), "queue");
    ExtendThroughLoad(tiler, load, until);
  }
  tiler.ExtendTo(marks.taken, "queue");
  if (!marks.tokenize_start) return tiler.Take();
  tiler.ExtendTo(*marks.tokenize_start, "queue");
  if (!marks.tokenize_end) return tiler.Take();
  tiler.ExtendTo(*marks.tokenize_end, engine::StageName(engine::Stage::kTokenize));
  if (!marks.prefill_end) return tiler.Take();
  tiler.ExtendTo(*marks.prefill_end, engine::StageName(engine::Stage::kPrefill));
  if (!marks.first_written) return tiler.Take();
  tiler.ExtendTo(*marks.first_written, engine::StageName(engine::Stage::kFirstDecode));
  return tiler.Take();
}

std::vector<engine::Step> LanesBetween(const std::vector<LoadWindow>& loads, MonoTime start,
                                       MonoTime end) {
  std::vector<engine::Step> lanes;
  for (const LoadWindow& load : loads) {
    for (const engine::Step& step : load.steps) {
      if (step.end > start && step.start < end) lanes.push_back(step);
    }
  }
  return lanes;
}

ProcessFacts ReadProcessFacts(std::optional<MonoTime> main_entered) {
  ProcessFacts facts;
  facts.pid = ::getpid();
  facts.main_entered = main_entered;
  const Result<std::string> stat = ReadSmallFile("/proc/self/stat");
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  if (!stat.ok() || ticks_per_second <= 0) return facts;
  // "7 (a name with ) and blanks) S 1 ...": the fields after the last ')' begin with field 3.
  const size_t close = stat->rfind(')');
  if (close == std::string::npos || close + 2 > stat->size()) return facts;
  const auto fields = SplitAt(std::string_view(*stat).substr(close + 2), ' ');
  constexpr size_t kStartTime = 22 - 3;
  if (fields.size() <= kStartTime) return facts;
  const auto ticks = ParseInt64(fields[kStartTime]);
  if (!ticks) return facts;
  // Ticks count from boot, suspended time included; CLOCK_MONOTONIC does not include it.
  facts.exec_start_resolution_ns = kNsPerSecond / ticks_per_second;
  facts.exec_start = MonoTime{*ticks * facts.exec_start_resolution_ns - SuspendedNs()};
  return facts;
}

namespace {

Json ProcessObject(const ProcessFacts& facts) {
  return {{"pid", facts.pid},
          {"exec_start_ns", OptionalNs(facts.exec_start)},
          {"exec_start_resolution_ns", facts.exec_start_resolution_ns},
          {"main_entered_ns", OptionalNs(facts.main_entered)},
          {"listening_ns", OptionalNs(facts.listening)}};
}

}  // namespace

std::string ProcessJson(const ProcessFacts& facts) { return Dump(ProcessObject(facts)); }

std::string TimelineJson(const std::vector<TimelineSegment>& segments,
                         const std::vector<engine::Step>& lanes, int64_t cached_tokens,
                         const ProcessFacts& process) {
  Json object = {{"schema", "rouse.timeline/1"}, {"clock", "monotonic"}};
  object["segments"] = Json::array();
  for (const TimelineSegment& segment : segments) {
    object["segments"].push_back(
        {{"stage", segment.stage}, {"start_ns", segment.start.ns}, {"end_ns", segment.end.ns}});
  }
  object["lanes"] = Json::array();
  for (const engine::Step& lane : lanes) {
    object["lanes"].push_back({{"name", lane.name},
                               {"start_ns", lane.start.ns},
                               {"end_ns", lane.end.ns},
                               {"bytes", lane.bytes ? Json(*lane.bytes) : Json()}});
  }
  object["cached_tokens"] = cached_tokens;
  object["process"] = ProcessObject(process);
  return Dump(object);
}

}  // namespace rouse::server
