// Reading `rouse.attempt/1`; attempt_text.cc writes it. Which whole-number fields there are is said
// by fields.h; here stand the rest and the rules of what is refused.
#include "results/json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "results/fields.h"
#include "results/samples.h"

namespace rouse::results {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;
constexpr size_t kMostParts = 4096;
// Whole numbers above this lose their last digits when a JSON library reads them as doubles.
constexpr double kLargestExact = 9007199254740992.0;

// Reads members of one object, and remembers the first thing that was wrong.
class Reader {
 public:
  explicit Reader(ParseFor purpose) : import_(purpose == ParseFor::kImport) {}

  void Refuse(const std::string& field, const std::string& why) {
    if (!error_) error_ = Error(ErrorCode::kUsage, field + ": " + why);
  }
  const std::optional<Error>& error() const { return error_; }
  bool import() const { return import_; }

  // The member, or nullptr when it is absent or null.
  static const Json* Member(const Json& object, std::string_view key) {
    const auto found = object.find(std::string(key));
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  // The member as an object or array; nullptr when absent, refused when it is something else.
  const Json* Object(const Json& parent, std::string_view key) {
    const Json* const member = Member(parent, key);
    if (member == nullptr || member->is_object()) return member;
    Refuse(std::string(key), "must be an object or null");
    return nullptr;
  }
  const Json* Array(const Json& parent, std::string_view key) {
    const Json* const member = Member(parent, key);
    if (member == nullptr || member->is_array()) return member;
    Refuse(std::string(key), "must be a list or null");
    return nullptr;
  }

  std::string Text(const Json& parent, std::string_view key, const std::string& path) {
    const Json* const member = Member(parent, key);
    if (member == nullptr) return "";
    if (member->is_string()) return member->get<std::string>();
    Refuse(path, "must be text or null");
    return "";
  }

  std::optional<bool> Truth(const Json& parent, std::string_view key, const std::string& path) {
    const Json* const member = Member(parent, key);
    if (member == nullptr) return std::nullopt;
    if (member->is_boolean()) return member->get<bool>();
    Refuse(path, "must be true, false or null");
    return std::nullopt;
  }

  std::optional<int64_t> Whole(const Json& parent, std::string_view key, const std::string& path) {
    const Json* const member = Member(parent, key);
    return member == nullptr ? std::nullopt : WholeValue(*member, path);
  }

  std::optional<int64_t> WholeValue(const Json& member, const std::string& path) {
    if (member.is_number_unsigned()) {
      const auto value = member.get<uint64_t>();
      if (value > static_cast<uint64_t>(INT64_MAX)) {
        Refuse(path, "is too large");
        return std::nullopt;
      }
      return static_cast<int64_t>(value);
    }
    std::optional<int64_t> value;
    if (member.is_number_integer()) {
      value = member.get<int64_t>();
    } else if (member.is_number_float()) {
      const double number = member.get<double>();
      if (std::floor(number) == number && std::abs(number) <= kLargestExact) {
        value = static_cast<int64_t>(number);
      } else {
        Refuse(path, "must be a whole number, not " + member.dump());
      }
    } else {
      Refuse(path, "must be a whole number or null");
    }
    if (value && *value < 0 && import_) Refuse(path, "must not be negative");
    return value;
  }

  std::optional<MetricValue> Number(const Json& member, const std::string& path) {
    if (member.is_number_float()) {
      const double number = member.get<double>();
      if (number < 0 && import_) Refuse(path, "must not be negative");
      return MetricValue(number);
    }
    const std::optional<int64_t> whole = WholeValue(member, path);
    return whole ? std::optional<MetricValue>(*whole) : std::nullopt;
  }

 private:
  bool import_;
  std::optional<Error> error_;
};

std::string PathOf(std::string_view group, std::string_view key) {
  return group.empty() ? std::string(key) : std::string(group) + "." + std::string(key);
}

void ReadIntegers(const Json& root, Attempt& attempt, Reader& reader) {
  for (const IntegerField& field : IntegerFields()) {
    const Json* const home = field.group.empty() ? &root : reader.Object(root, field.group);
    if (home == nullptr) continue;
    field.at(attempt) = reader.Whole(*home, field.key, PathOf(field.group, field.key));
  }
}

void ReadStageSources(const Json& root, Attempt& attempt, Reader& reader) {
  const Json* const sources = reader.Object(root, "stage_source");
  if (sources == nullptr) return;
  for (const auto& [name, value] : sources->items()) {
    const std::string path = PathOf("stage_source", name);
    const std::optional<Stage> stage = StageFromName(name);
    if (!stage) {
      reader.Refuse(path, "there is no such stage");
      return;
    }
    if (value.is_null()) continue;
    const auto source =
        value.is_string() ? StageSourceFromName(value.get<std::string>()) : std::nullopt;
    if (!source) reader.Refuse(path, "must be client, server, os, derived or null");
    attempt.stages[static_cast<size_t>(*stage)].source = source;
  }
}

void ReadSegments(const Json& root, Attempt& attempt, Reader& reader) {
  const Json* const list = reader.Array(root, "segments");
  if (list == nullptr) return;
  for (const Json& item : *list) {
    if (!item.is_object()) return reader.Refuse("segments", "must hold objects");
    const std::optional<Stage> stage = StageFromName(reader.Text(item, "stage", "segments.stage"));
    const auto start = reader.Whole(item, "start_ns", "segments.start_ns");
    const auto end = reader.Whole(item, "end_ns", "segments.end_ns");
    if (!stage || !start || !end) {
      return reader.Refuse("segments", "each needs a stage, start_ns and end_ns");
    }
    attempt.segments.push_back({*stage, *start, *end});
  }
}

void ReadLanes(const Json& root, Attempt& attempt, Reader& reader) {
  const Json* const list = reader.Array(root, "lanes");
  if (list == nullptr) return;
  for (const Json& item : *list) {
    if (!item.is_object()) return reader.Refuse("lanes", "must hold objects");
    const auto start = reader.Whole(item, "start_ns", "lanes.start_ns");
    const auto end = reader.Whole(item, "end_ns", "lanes.end_ns");
    if (!start || !end) return reader.Refuse("lanes", "each needs start_ns and end_ns");
    attempt.lanes.push_back({reader.Text(item, "name", "lanes.name"), *start, *end,
                             reader.Whole(item, "bytes", "lanes.bytes")});
  }
}

void ReadStream(const Json& root, Attempt& attempt, Reader& reader) {
  const Json* const stream = reader.Object(root, "stream");
  if (stream == nullptr) return;
  attempt.stream.coalesced = reader.Truth(*stream, "coalesced", "stream.coalesced");
  const Json* const faults = reader.Array(*stream, "faults");
  if (faults == nullptr) return;
  for (const Json& fault : *faults) {
    if (!fault.is_string()) return reader.Refuse("stream.faults", "must hold text");
    attempt.stream.faults.push_back(fault.get<std::string>());
  }
}

void ReadConnection(const Json& root, Attempt& attempt, Reader& reader) {
  const Json* const connection = reader.Object(root, "connection");
  if (connection == nullptr) return;
  attempt.connection.reused = reader.Truth(*connection, "reused", "connection.reused");
  attempt.connection.family = reader.Text(*connection, "family", "connection.family");
  attempt.connection.remote = reader.Text(*connection, "remote", "connection.remote");
}

void ReadCounters(const Json& root, Attempt& attempt, Reader& reader) {
  const Json* const counters = reader.Object(root, "counters");
  if (counters == nullptr) return;
  for (const auto& [name, value] : counters->items()) {
    std::optional<MetricValue> number;
    if (!value.is_null()) number = reader.Number(value, PathOf("counters", name));
    attempt.counters[name] = number;
  }
}

std::string ReadStrip(const Json& reading, const std::string& path, Reader& reader) {
  const Json* const strip = Reader::Member(reading, "strip");
  if (strip == nullptr) return "";
  const bool shares = strip->is_array() && strip->size() <= kMostParts &&
                      std::all_of(strip->begin(), strip->end(),
                                  [](const Json& share) { return share.is_number(); });
  if (!shares) reader.Refuse(path, "must be a list of at most 4096 numbers or null");
  return shares ? strip->dump() : "";
}

void ReadSamples(const Json& root, Attempt& attempt, Reader& reader) {
  const Json* const object = reader.Object(root, "samples");
  if (object == nullptr) return;
  const Result<Samples> samples = ParseSamples(object->dump());
  if (!samples.ok()) return reader.Refuse("samples", samples.error().message());
  attempt.samples_json = SamplesJson(*samples);
}

LayerReadings ReadReadings(const Json& root, std::string_view moment, Reader& reader) {
  LayerReadings readings;
  const Json* const layers = reader.Object(root, moment);
  if (layers == nullptr) return readings;
  for (const auto& [layer, item] : layers->items()) {
    const std::string path = PathOf(moment, layer);
    if (!item.is_object()) {
      reader.Refuse(path, "must be an object");
      return readings;
    }
    LayerReading reading;
    if (const Json* const value = Reader::Member(item, "value"); value != nullptr) {
      if (value->is_number()) {
        const double share = value->get<double>();
        if (share < 0 && reader.import()) reader.Refuse(path + ".value", "must not be negative");
        reading.value = share;
      } else if (value->is_string()) {
        reading.value = value->get<std::string>();
      } else {
        reader.Refuse(path + ".value", "must be a number, text or null");
      }
    }
    reading.proof = reader.Text(item, "proof", path + ".proof");
    reading.wanted = reader.Text(item, "wanted", path + ".wanted");
    reading.reached = reader.Truth(item, "reached", path + ".reached");
    reading.detail = reader.Text(item, "detail", path + ".detail");
    reading.strip_json = ReadStrip(item, path + ".strip", reader);
    readings[layer] = std::move(reading);
  }
  return readings;
}

void ReadRemarks(const Json& root, Attempt& attempt, Reader& reader) {
  if (const Json* const reasons = reader.Object(root, "null_reasons"); reasons != nullptr) {
    for (const auto& [field, reason] : reasons->items()) {
      if (!reason.is_string()) return reader.Refuse(PathOf("null_reasons", field), "must be text");
      attempt.null_reasons[field] = reason.get<std::string>();
    }
  }
  const Json* const warnings = reader.Array(root, "warnings");
  if (warnings == nullptr) return;
  for (const Json& item : *warnings) {
    if (!item.is_object()) return reader.Refuse("warnings", "must hold objects");
    attempt.warnings.push_back({reader.Text(item, "code", "warnings.code"),
                                reader.Text(item, "message", "warnings.message")});
  }
}

void ReadHead(const Json& root, Attempt& attempt, Reader& reader) {
  const std::string schema = reader.Text(root, "schema", "schema");
  if (!schema.empty() && schema != kAttemptSchema) {
    reader.Refuse("schema",
                  "is \"" + schema + "\", this version reads " + std::string(kAttemptSchema));
  }
  attempt.id = reader.Whole(root, "id", "id");
  attempt.run = reader.Whole(root, "run", "run");
  attempt.condition = reader.Text(root, "condition", "condition");
  attempt.prime = reader.Truth(root, "prime", "prime").value_or(false);
  attempt.outcome_detail = reader.Text(root, "outcome_detail", "outcome_detail");
  attempt.api = reader.Text(root, "api", "api");
  attempt.first_token_channel = reader.Text(root, "first_token_channel", "first_token_channel");
  const std::string& channel = attempt.first_token_channel;
  if (!channel.empty() && channel != "content" && channel != "reasoning" &&
      channel != "tool_call") {
    reader.Refuse("first_token_channel", "must be content, reasoning, tool_call or null");
  }
  const std::string outcome = reader.Text(root, "outcome", "outcome");
  const std::optional<Outcome> known = OutcomeFromName(outcome);
  if (outcome.empty()) {
    reader.Refuse("outcome", "is missing");
  } else if (!known) {
    reader.Refuse("outcome", "there is no outcome \"" + outcome + "\"");
  }
  attempt.outcome = known.value_or(Outcome::kOk);
}

void ReadExtra(const Json& root, Attempt& attempt) {
  Json extra = Json::object();
  for (const auto& [name, value] : root.items()) {
    if (!IsTopLevelField(name)) extra[name] = value;
  }
  if (!extra.empty()) attempt.extra_json = extra.dump();
}

Result<Json> ParseObject(std::string_view text) {
  try {
    Json root = Json::parse(text, [](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
      if (depth > kDeepest) throw std::length_error("nested deeper than 64 levels");
      return true;
    });
    if (!root.is_object()) return Error(ErrorCode::kUsage, "is not a JSON object");
    return root;
  } catch (const nlohmann::json::out_of_range&) {
    return Error(ErrorCode::kUsage, "holds a number that is not finite as a 64-bit float");
  } catch (const nlohmann::json::exception& error) {
    return Error(ErrorCode::kUsage, std::string("is not JSON: ") + error.what());
  } catch (const std::length_error& error) {
    return Error(ErrorCode::kUsage, std::string("is ") + error.what());
  }
}

}  // namespace

Result<Attempt> ParseAttempt(std::string_view json, ParseFor purpose) {
  ASSIGN_OR_RETURN(const Json root, ParseObject(json));
  Attempt attempt;
  Reader reader(purpose);
  ReadHead(root, attempt, reader);
  ReadIntegers(root, attempt, reader);
  ReadStageSources(root, attempt, reader);
  ReadSegments(root, attempt, reader);
  ReadLanes(root, attempt, reader);
  ReadStream(root, attempt, reader);
  ReadConnection(root, attempt, reader);
  ReadCounters(root, attempt, reader);
  attempt.state_before = ReadReadings(root, "state_before", reader);
  attempt.state_at_send = ReadReadings(root, "state_at_send", reader);
  attempt.state_after = ReadReadings(root, "state_after", reader);
  ReadSamples(root, attempt, reader);
  ReadRemarks(root, attempt, reader);
  if (const Json* const server = Reader::Member(root, "server");
      server != nullptr && !(server->is_object() && server->empty())) {
    attempt.server_json = server->is_string() ? server->get<std::string>() : server->dump();
  }
  ReadExtra(root, attempt);
  if (reader.import()) {
    if (attempt.condition.empty()) reader.Refuse("condition", "is missing");
    if (attempt.outcome == Outcome::kOk && !attempt.ttft_ns) {
      reader.Refuse("ttft_ns", "is missing, though the outcome is ok");
    }
  }
  if (reader.error()) return Error(*reader.error());
  return attempt;
}

std::vector<std::string> ExtraFields(const Attempt& attempt) {
  std::vector<std::string> names;
  if (attempt.extra_json.empty()) return names;
  const Json extra = Json::parse(attempt.extra_json, nullptr, false);
  if (!extra.is_object()) return names;
  for (const auto& [name, value] : extra.items()) names.push_back(name);
  return names;
}

}  // namespace rouse::results
