// Writing `rouse.attempt/1`: text at once, see json_text.h.
#include <nlohmann/json.hpp>
#include <string>

#include "results/fields.h"
#include "results/json.h"
#include "results/json_text.h"

namespace rouse::results {
namespace {

using Json = nlohmann::ordered_json;

// A group of whole-number fields, the null ones included.
void WriteFields(const Attempt& attempt, std::string_view group, JsonText& out) {
  for (const IntegerField& field : IntegerFields()) {
    if (field.group != group) continue;
    out.Key(field.key);
    out.IntOrNull(Read(field, attempt));
  }
}

void WriteGroup(const Attempt& attempt, std::string_view group, JsonText& out) {
  out.Key(group);
  out.BeginObject();
  WriteFields(attempt, group, out);
  out.EndObject();
}

void WriteStageSources(const Attempt& attempt, JsonText& out) {
  out.Key("stage_source");
  out.BeginObject();
  for (int index = 0; index < kStageCount; ++index) {
    const StageTime& stage = attempt.stages[static_cast<size_t>(index)];
    if (!stage.source) continue;
    out.Key(StageName(static_cast<Stage>(index)));
    out.Text(StageSourceName(*stage.source));
  }
  out.EndObject();
}

void WriteTimes(const Attempt& attempt, JsonText& out) {
  out.Key("segments");
  out.BeginArray();
  for (const Segment& segment : attempt.segments) {
    out.BeginObject();
    out.Key("stage");
    out.Text(StageName(segment.stage));
    out.Key("start_ns");
    out.Int(segment.start_ns);
    out.Key("end_ns");
    out.Int(segment.end_ns);
    out.EndObject();
  }
  out.EndArray();
  out.Key("lanes");
  out.BeginArray();
  for (const Lane& lane : attempt.lanes) {
    out.BeginObject();
    out.Key("name");
    out.Text(lane.name);
    out.Key("start_ns");
    out.Int(lane.start_ns);
    out.Key("end_ns");
    out.Int(lane.end_ns);
    out.Key("bytes");
    out.IntOrNull(lane.bytes);
    out.EndObject();
  }
  out.EndArray();
}

void WriteStream(const Attempt& attempt, JsonText& out) {
  out.Key("stream");
  out.BeginObject();
  WriteFields(attempt, "stream", out);
  out.Key("coalesced");
  out.TruthOrNull(attempt.stream.coalesced);
  out.Key("faults");
  out.BeginArray();
  for (const std::string& fault : attempt.stream.faults) out.Text(fault);
  out.EndArray();
  out.EndObject();
  out.Key("connection");
  out.BeginObject();
  out.Key("reused");
  out.TruthOrNull(attempt.connection.reused);
  out.Key("family");
  out.TextOrNull(attempt.connection.family);
  out.Key("remote");
  out.TextOrNull(attempt.connection.remote);
  out.EndObject();
}

void WriteNumber(const MetricValue& value, JsonText& out) {
  if (const auto* const whole = std::get_if<int64_t>(&value)) {
    out.Int(*whole);
  } else {
    out.Real(std::get<double>(value));
  }
}

void WriteCounters(const Counters& counters, JsonText& out) {
  out.Key("counters");
  out.BeginObject();
  for (const auto& [name, value] : counters) {
    out.Key(name);
    if (value) {
      WriteNumber(*value, out);
    } else {
      out.Null();
    }
  }
  out.EndObject();
}

void WriteReading(const LayerReading& reading, JsonText& out) {
  out.BeginObject();
  out.Key("value");
  if (const double* const share = std::get_if<double>(&reading.value)) {
    out.Real(*share);
  } else if (const std::string* const word = std::get_if<std::string>(&reading.value)) {
    out.Text(*word);
  } else {
    out.Null();
  }
  out.Key("proof");
  out.TextOrNull(reading.proof);
  out.Key("wanted");
  out.TextOrNull(reading.wanted);
  out.Key("reached");
  out.TruthOrNull(reading.reached);
  out.Key("detail");
  out.Text(reading.detail);
  if (!reading.strip_json.empty()) {
    out.Key("strip");
    out.Raw(reading.strip_json);
  }
  out.EndObject();
}

void WriteReadings(std::string_view moment, const LayerReadings& readings, JsonText& out) {
  out.Key(moment);
  out.BeginObject();
  for (const auto& [layer, reading] : readings) {
    out.Key(layer);
    WriteReading(reading, out);
  }
  out.EndObject();
}

// What a server said, as JSON when it is that, else as the text that it was. It stands as it is
// unless it has line breaks.
void WriteServer(const std::string& text, JsonText& out) {
  out.Key("server");
  if (text.empty()) {
    out.Raw("{}");
  } else if (!Json::accept(text)) {
    out.Text(text);
  } else if (text.find_first_of("\r\n") == std::string::npos) {
    out.Raw(text);
  } else {
    out.Raw(Json::parse(text, nullptr, false).dump());
  }
}

void WriteRemarks(const Attempt& attempt, JsonText& out) {
  out.Key("null_reasons");
  out.BeginObject();
  for (const auto& [field, reason] : attempt.null_reasons) {
    out.Key(field);
    out.Text(reason);
  }
  out.EndObject();
  out.Key("warnings");
  out.BeginArray();
  for (const Warning& warning : attempt.warnings) {
    out.BeginObject();
    out.Key("code");
    out.Text(warning.code);
    out.Key("message");
    out.Text(warning.message);
    out.EndObject();
  }
  out.EndArray();
}

void WriteHead(const Attempt& attempt, JsonText& out) {
  out.Key("schema");
  out.Text(kAttemptSchema);
  out.Key("id");
  out.IntOrNull(attempt.id);
  out.Key("run");
  out.IntOrNull(attempt.run);
  out.Key("condition");
  out.Text(attempt.condition);
  out.Key("block");
  out.IntOrNull(attempt.block);
  out.Key("position");
  out.IntOrNull(attempt.position);
  out.Key("prime");
  out.Truth(attempt.prime);
  out.Key("outcome");
  out.Text(OutcomeName(attempt.outcome));
  out.Key("outcome_detail");
  out.Text(attempt.outcome_detail);
  out.Key("api");
  out.TextOrNull(attempt.api);
}

void WriteExtra(const std::string& extra_json, JsonText& out) {
  if (extra_json.empty()) return;
  const Json extra = Json::parse(extra_json, nullptr, false);
  if (!extra.is_object()) return;
  for (const auto& [name, value] : extra.items()) {
    if (IsTopLevelField(name)) continue;  // an import from before the schema had it
    out.Key(name);
    out.Raw(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace

std::string AttemptJson(const Attempt& attempt) {
  JsonText out;
  out.BeginObject();
  WriteHead(attempt, out);
  const auto number = [&out](std::string_view key, const std::optional<int64_t>& value) {
    out.Key(key);
    out.IntOrNull(value);
  };
  number("http_status", attempt.http_status);
  number("started_wall_ns", attempt.started_wall_ns);
  number("suspended_ns", attempt.suspended_ns);
  number("idle_ns", attempt.idle_ns);
  WriteGroup(attempt, "marks_ns", out);
  number("ttft_ns", attempt.ttft_ns);
  number("ttfc_ns", attempt.ttfc_ns);
  out.Key("first_token_channel");
  out.TextOrNull(attempt.first_token_channel);
  number("uncertainty_ns", attempt.uncertainty_ns);
  number("tries", attempt.tries);
  WriteGroup(attempt, "stages_ns", out);
  WriteStageSources(attempt, out);
  WriteTimes(attempt, out);
  WriteGroup(attempt, "tokens", out);
  WriteStream(attempt, out);
  WriteCounters(attempt.counters, out);
  WriteReadings("state_before", attempt.state_before, out);
  WriteReadings("state_at_send", attempt.state_at_send, out);
  WriteReadings("state_after", attempt.state_after, out);
  out.Key("samples");
  out.Raw(attempt.samples_json.empty() ? "null" : attempt.samples_json);
  WriteServer(attempt.server_json, out);
  WriteRemarks(attempt, out);
  WriteExtra(attempt.extra_json, out);
  out.EndObject();
  return out.Take();
}

}  // namespace rouse::results
