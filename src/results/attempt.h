// One attempt: a request that was to be sent to a server under a declared state, and all that was
// seen of it. Plain data, the shape of `rouse.attempt/1` (docs/results_format.md).
//
// Not measured is an empty optional, never 0. Times in `marks` are nanoseconds on CLOCK_MONOTONIC
// relative to the intended send time. Stages are exclusive and sum to the TTFT.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rouse::results {

enum class Outcome {
  kOk,
  kNoToken,
  kHttpError,
  kStreamError,
  kMalformed,
  kTruncated,
  kNotStreamed,
  kConnectError,
  kTimeout,
  kTargetExited,
  kStateNotReached,
  kInterrupted,
};
inline constexpr int kOutcomeCount = 12;

// "ok", "no_token", ... as stored and printed.
std::string_view OutcomeName(Outcome outcome);
std::optional<Outcome> OutcomeFromName(std::string_view name);

// Whether the attempt counts in n: all but kStateNotReached and kInterrupted do.
bool CountsInSample(Outcome outcome);

using OptionalNs = std::optional<int64_t>;

struct Marks {
  OptionalNs send_start;  // 0 by definition once a request was intended
  OptionalNs connected;
  OptionalNs request_sent;
  OptionalNs response_headers;
  OptionalNs first_byte;
  OptionalNs first_event;
  OptionalNs first_token;
  OptionalNs first_content;
  OptionalNs last_token;
  OptionalNs end;
};

// What the request was waiting for, in the order in which a start passes through.
enum class Stage {
  kQueue,
  kProcessStart,
  kWeights,
  kRuntimeInit,
  kTokenize,
  kPrefill,
  kFirstDecode,
  kTransport,
  kUnattributed,
};
inline constexpr int kStageCount = 9;
std::string_view StageName(Stage stage);  // "queue", "process_start", ...
std::optional<Stage> StageFromName(std::string_view name);

enum class StageSource { kClient, kServer, kOs, kDerived };
std::string_view StageSourceName(StageSource source);
std::optional<StageSource> StageSourceFromName(std::string_view name);

struct StageTime {
  OptionalNs ns;
  std::optional<StageSource> source;
};

// Indexed by Stage. All empty when there was no first token.
using Stages = std::array<StageTime, kStageCount>;

struct Tokens {
  std::optional<int64_t> prompt;
  std::optional<int64_t> cached;
  std::optional<int64_t> completion;
  std::optional<int64_t> first_chunk;  // tokens that the first token event carried
};

struct StreamFacts {
  std::optional<int64_t> events;
  std::optional<int64_t> token_events;
  std::optional<int64_t> pings;
  std::optional<int64_t> reads;
  std::optional<bool> coalesced;
  std::vector<std::string> faults;
};

struct ConnectionFacts {
  std::optional<bool> reused;
  std::string family;  // "ipv4", "ipv6", "unix", or "" when no connection stood
  std::string remote;  // "127.0.0.1:8080"
};

using MetricValue = std::variant<int64_t, double>;

// Counter name (a row of the metric catalogue) -> value; empty = could not be read, and then
// null_reasons of the attempt says why.
using Counters = std::map<std::string, std::optional<MetricValue>, std::less<>>;

// One layer's state as read back.
struct LayerReading {
  std::variant<std::monostate, double, std::string> value;  // 0.5, "loaded", or unknown
  std::string proof;                                        // "cachestat", "pid and start time"
  std::string wanted;                                       // as the condition declares it, or ""
  std::optional<bool> reached;
  std::string detail;  // the evidence in words, shown when a state was not reached
  // page_cache: the resident share of each equal part of the file, the first byte's first, as a
  // JSON list; "" where it was not read.
  std::string strip_json = {};
};
using LayerReadings = std::map<std::string, LayerReading>;  // layer name -> reading

struct Warning {
  std::string code;
  std::string message;
  bool operator==(const Warning&) const = default;
};

// Something that ran from start to end, relative to the intended send time. Segments of one request
// do not overlap; lanes (background reads, loader threads) may.
struct Segment {
  Stage stage = Stage::kUnattributed;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};
struct Lane {
  std::string name;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::optional<int64_t> bytes;
};

struct Attempt {
  std::optional<int64_t> id;   // counts from 1 within its run; set by the store
  std::optional<int64_t> run;  // set by the store
  std::string condition;
  std::optional<int64_t> block;
  std::optional<int64_t> position;  // place in the run's order, from 0; a prime has none
  bool prime = false;               // an unmeasured first attempt; in no statistic

  Outcome outcome = Outcome::kOk;
  std::string outcome_detail;
  std::string api;
  std::optional<int64_t> http_status;

  std::optional<int64_t> started_wall_ns;  // a label: nanoseconds since the epoch
  std::optional<int64_t> suspended_ns;     // CLOCK_BOOTTIME - CLOCK_MONOTONIC at the send
  std::optional<int64_t> idle_ns;          // the idle time before the request

  Marks marks;
  OptionalNs ttft_ns;
  OptionalNs ttfc_ns;
  std::string first_token_channel;  // "content", "reasoning", "tool_call", or ""
  OptionalNs uncertainty_ns;        // of the TTFT: the retry interval while a server starts
  std::optional<int64_t> tries;     // connection tries; 1 unless the server was starting

  Stages stages;
  std::vector<Segment> segments;
  std::vector<Lane> lanes;

  Tokens tokens;
  StreamFacts stream;
  ConnectionFacts connection;
  Counters counters;
  LayerReadings state_before;
  LayerReadings state_at_send;
  LayerReadings state_after;
  std::string samples_json;  // what was read again and again meanwhile (samples.h), or ""
  std::string server_json;   // what the server said of itself, verbatim JSON, or ""
  std::map<std::string, std::string> null_reasons;
  std::vector<Warning> warnings;
  std::string extra_json;  // an object of top-level fields that the schema lacks, verbatim, or ""
};

}  // namespace rouse::results
