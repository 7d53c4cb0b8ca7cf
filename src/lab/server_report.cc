#include "lab/server_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace rouse::lab {
namespace {

using nlohmann::json;

Error Bad(const std::string& what) {
  return Error(ErrorCode::kCorrupt, "the server's rouse.timeline/1: " + what);
}

std::optional<int64_t> Integer(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const json* Array(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

Result<results::Segment> ParseSegment(const json& item, MonoTime send_start) {
  if (!item.is_object()) return Bad("a segment is no object");
  const std::optional<results::Stage> stage = results::StageFromName(Text(item, "stage"));
  if (!stage) return Bad("unknown stage \"" + Text(item, "stage") + "\"");
  const std::optional<int64_t> start = Integer(item, "start_ns");
  const std::optional<int64_t> end = Integer(item, "end_ns");
  if (!start || !end) return Bad("a segment without start_ns and end_ns");
  return results::Segment{.stage = *stage,
                          .start_ns = MonoTime{*start} - send_start,
                          .end_ns = MonoTime{*end} - send_start};
}

Result<results::Lane> ParseLane(const json& item, MonoTime send_start) {
  if (!item.is_object()) return Bad("a lane is no object");
  const std::optional<int64_t> start = Integer(item, "start_ns");
  const std::optional<int64_t> end = Integer(item, "end_ns");
  if (!start || !end) return Bad("a lane without start_ns and end_ns");
  return results::Lane{.name = Text(item, "name"),
                       .start_ns = MonoTime{*start} - send_start,
                       .end_ns = MonoTime{*end} - send_start,
                       .bytes = Integer(item, "bytes")};
}

std::optional<int64_t> NonNegative(double value) {
  if (!std::isfinite(value) || value < 0 || value > 9e18) return std::nullopt;
  return std::llround(value);
}

}  // namespace

Result<ServerTimeline> ParseTimeline(std::string_view text, MonoTime send_start) {
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded() || !object.is_object()) return Bad("no JSON object");
  if (Text(object, "schema") != "rouse.timeline/1") return Bad("another schema");
  if (Text(object, "clock") != "monotonic") {
    return Bad("its clock is \"" + Text(object, "clock") + "\", not monotonic");
  }
  ServerTimeline timeline;
  const json* const segments = Array(object, "segments");
  if (segments == nullptr) return Bad("no segments");
  for (const json& item : *segments) {
    ASSIGN_OR_RETURN(const results::Segment segment, ParseSegment(item, send_start));
    timeline.segments.push_back(segment);
  }
  if (const json* const lanes = Array(object, "lanes")) {
    for (const json& item : *lanes) {
      ASSIGN_OR_RETURN(results::Lane lane, ParseLane(item, send_start));
      timeline.lanes.push_back(std::move(lane));
    }
  }
  timeline.cached_tokens = Integer(object, "cached_tokens");
  return timeline;
}

std::optional<int64_t> ReportedPrefillNs(std::string_view timings_json) {
  const json object = json::parse(timings_json, nullptr, false);
  if (object.is_discarded() || !object.is_object()) return std::nullopt;
  const auto timings = object.find("timings");
  const json& inner = timings != object.end() && timings->is_object() ? *timings : object;
  if (const auto ms = inner.find("prompt_ms"); ms != inner.end() && ms->is_number()) {
    return NonNegative(ms->get<double>() * static_cast<double>(kNsPerMs));
  }
  if (const auto ns = inner.find("prompt_eval_duration"); ns != inner.end() && ns->is_number()) {
    return NonNegative(ns->get<double>());
  }
  return std::nullopt;
}

}  // namespace rouse::lab
