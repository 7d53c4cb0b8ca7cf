#include "results/fields.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace rouse::results {
namespace {

using Field = std::optional<int64_t>&;

template <Stage kStage>
Field AtStage(Attempt& a) {
  return a.stages[static_cast<size_t>(kStage)].ns;
}

constexpr auto kFields = std::to_array<IntegerField>({
    {"block", "", "block", [](Attempt& a) -> Field { return a.block; }},
    {"position", "", "position", [](Attempt& a) -> Field { return a.position; }},
    {"http_status", "", "http_status", [](Attempt& a) -> Field { return a.http_status; }},
    {"started_wall_ns", "", "started_wall_ns",
     [](Attempt& a) -> Field { return a.started_wall_ns; }},
    {"suspended_ns", "", "suspended_ns", [](Attempt& a) -> Field { return a.suspended_ns; }},
    {"idle_ns", "", "idle_ns", [](Attempt& a) -> Field { return a.idle_ns; }},
    {"mark_send_start_ns", "marks_ns", "send_start",
     [](Attempt& a) -> Field { return a.marks.send_start; }},
    {"mark_connected_ns", "marks_ns", "connected",
     [](Attempt& a) -> Field { return a.marks.connected; }},
    {"mark_request_sent_ns", "marks_ns", "request_sent",
     [](Attempt& a) -> Field { return a.marks.request_sent; }},
    {"mark_response_headers_ns", "marks_ns", "response_headers",
     [](Attempt& a) -> Field { return a.marks.response_headers; }},
    {"mark_first_byte_ns", "marks_ns", "first_byte",
     [](Attempt& a) -> Field { return a.marks.first_byte; }},
    {"mark_first_event_ns", "marks_ns", "first_event",
     [](Attempt& a) -> Field { return a.marks.first_event; }},
    {"mark_first_token_ns", "marks_ns", "first_token",
     [](Attempt& a) -> Field { return a.marks.first_token; }},
    {"mark_first_content_ns", "marks_ns", "first_content",
     [](Attempt& a) -> Field { return a.marks.first_content; }},
    {"mark_last_token_ns", "marks_ns", "last_token",
     [](Attempt& a) -> Field { return a.marks.last_token; }},
    {"mark_end_ns", "marks_ns", "end", [](Attempt& a) -> Field { return a.marks.end; }},
    {"ttft_ns", "", "ttft_ns", [](Attempt& a) -> Field { return a.ttft_ns; }},
    {"ttfc_ns", "", "ttfc_ns", [](Attempt& a) -> Field { return a.ttfc_ns; }},
    {"uncertainty_ns", "", "uncertainty_ns", [](Attempt& a) -> Field { return a.uncertainty_ns; }},
    {"tries", "", "tries", [](Attempt& a) -> Field { return a.tries; }},
    {"stage_queue_ns", "stages_ns", "queue", AtStage<Stage::kQueue>},
    {"stage_process_start_ns", "stages_ns", "process_start", AtStage<Stage::kProcessStart>},
    {"stage_weights_ns", "stages_ns", "weights", AtStage<Stage::kWeights>},
    {"stage_runtime_init_ns", "stages_ns", "runtime_init", AtStage<Stage::kRuntimeInit>},
    {"stage_tokenize_ns", "stages_ns", "tokenize", AtStage<Stage::kTokenize>},
    {"stage_prefill_ns", "stages_ns", "prefill", AtStage<Stage::kPrefill>},
    {"stage_first_decode_ns", "stages_ns", "first_decode", AtStage<Stage::kFirstDecode>},
    {"stage_transport_ns", "stages_ns", "transport", AtStage<Stage::kTransport>},
    {"stage_unattributed_ns", "stages_ns", "unattributed", AtStage<Stage::kUnattributed>},
    {"prompt_tokens", "tokens", "prompt", [](Attempt& a) -> Field { return a.tokens.prompt; }},
    {"cached_tokens", "tokens", "cached", [](Attempt& a) -> Field { return a.tokens.cached; }},
    {"completion_tokens", "tokens", "completion",
     [](Attempt& a) -> Field { return a.tokens.completion; }},
    {"first_chunk_tokens", "tokens", "first_chunk",
     [](Attempt& a) -> Field { return a.tokens.first_chunk; }},
    {"stream_events", "stream", "events", [](Attempt& a) -> Field { return a.stream.events; }},
    {"stream_token_events", "stream", "token_events",
     [](Attempt& a) -> Field { return a.stream.token_events; }},
    {"stream_pings", "stream", "pings", [](Attempt& a) -> Field { return a.stream.pings; }},
    {"stream_reads", "stream", "reads", [](Attempt& a) -> Field { return a.stream.reads; }},
});

// Every top-level name of the schema.
constexpr auto kTopLevel = std::to_array<std::string_view>({
    "schema",
    "id",
    "run",
    "condition",
    "block",
    "position",
    "prime",
    "outcome",
    "outcome_detail",
    "api",
    "http_status",
    "started_wall_ns",
    "suspended_ns",
    "idle_ns",
    "marks_ns",
    "ttft_ns",
    "ttfc_ns",
    "first_token_channel",
    "uncertainty_ns",
    "tries",
    "stages_ns",
    "stage_source",
    "segments",
    "lanes",
    "tokens",
    "stream",
    "connection",
    "counters",
    "state_before",
    "state_at_send",
    "state_after",
    "samples",
    "server",
    "null_reasons",
    "warnings",
});

}  // namespace

std::span<const IntegerField> IntegerFields() { return kFields; }

const IntegerField* FindIntegerField(std::string_view column) {
  for (const IntegerField& field : kFields) {
    if (field.column == column) return &field;
  }
  return nullptr;
}

bool IsTopLevelField(std::string_view name) {
  return std::find(kTopLevel.begin(), kTopLevel.end(), name) != kTopLevel.end();
}

}  // namespace rouse::results
