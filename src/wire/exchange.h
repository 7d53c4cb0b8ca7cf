// What was seen of one request: the response side of the wire client. Plain data.
//
// Every mark is a point on CLOCK_MONOTONIC taken right when read() or write() returned, before
// anything was parsed. Not seen is an empty optional, never 0. See docs/method.md for the marks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "wire/request.h"

namespace rouse::wire {

// The outcomes that a client can see; the names are those of results::Outcome.
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
  kInterrupted,
};
std::string_view OutcomeName(Outcome outcome);  // "ok", "no_token", ...

enum class Channel { kContent, kReasoning, kToolCall };
std::string_view ChannelName(Channel channel);  // "content", "reasoning", "tool_call"

struct Marks {
  MonoTime send_start;                    // the intended send time; everything is relative to it
  std::optional<MonoTime> connect_start;  // when connecting really began (late senders show here)
  std::optional<MonoTime> tcp_connected;  // before the TLS handshake; equals connected without TLS
  std::optional<MonoTime> connected;      // usable, TLS included; empty for a reused connection
  std::optional<MonoTime> request_sent;
  std::optional<MonoTime> response_headers;
  std::optional<MonoTime> first_byte;
  std::optional<MonoTime> first_event;
  std::optional<MonoTime> first_token;
  std::optional<MonoTime> first_content;
  std::optional<MonoTime> last_token;
  // The read that ended the answer, or the moment at which the client stopped waiting.
  std::optional<MonoTime> end;
};

struct Usage {
  std::optional<int64_t> prompt_tokens;       // cached ones included
  std::optional<int64_t> cached_tokens;       // of the prompt, found in the server's prefix cache
  std::optional<int64_t> completion_tokens;   // reasoning included where the server counts so
  std::optional<int64_t> first_chunk_tokens;  // in the first token event; empty unless known
};

struct StreamFacts {
  int64_t events = 0;        // data events, structural ones and [DONE] included, pings not
  int64_t token_events = 0;  // events that carried generated output in any channel
  int64_t pings = 0;         // comments, empty data, ping events
  int64_t reads = 0;         // reads that brought bytes of the response
  int64_t read_bytes = 0;
  bool coalesced = false;     // some read completed two or more token events: they share its stamp
  bool finish_told = false;   // finish_reason, stop_reason, done, stop, ...
  bool end_told = false;      // [DONE], message_stop, done: true, response.completed, ...
  std::string finish_reason;  // as the server wrote it, or ""
  std::vector<std::string> faults;  // codes: "reconnect", "missing_done", "invalid_utf8", ...
};

struct ConnectionFacts {
  std::optional<bool> reused;
  std::string family;  // "ipv4", "ipv6", "unix", or "" when no connection stood
  std::string remote;  // "127.0.0.1:8080", "[::1]:8080", the socket's path
  std::string local;   // "127.0.0.1:53122"; "" for Unix sockets
  std::string tls;     // "TLSv1.3", or ""
  // The host's name has IPv4 and IPv6 addresses: which one answers is a race that costs time.
  bool two_families = false;
  // The kernel's smallest round-trip time of the connection; empty on Unix sockets.
  std::optional<int64_t> round_trip_ns;
  // errno of the last failed connect; ECONNREFUSED while a server is starting.
  std::optional<int> connect_errno;
};

// Something a user should know before believing the numbers: what was seen, and what to do.
struct Warning {
  std::string code;
  std::string message;
  std::string advice;
};

enum class EventClass { kToken, kStructure, kUsage, kPing, kDone, kError };
std::string_view EventClassName(EventClass event_class);

// One event of the stream, at the read that completed it.
struct EventStamp {
  MonoTime at;
  int64_t bytes = 0;  // of its data
  EventClass event_class = EventClass::kStructure;
  std::optional<Channel> channel;
};
// Further events are counted but not listed.
inline constexpr size_t kListedEventsLimit = 1U << 20U;

// One read that brought bytes. `data` is kept on request only (RequestSpec::keep_raw).
struct ReadStamp {
  MonoTime at;
  int64_t bytes = 0;
  // Time from the kernel's receive stamp of the last segment to `at`; empty on Unix sockets or
  // where the kernel gives none.
  std::optional<int64_t> kernel_delay_ns;
  std::string data;
};

// Why no further bytes came.
enum class StreamEnd { kNone, kComplete, kClosed, kReset, kTimeout, kInterrupted, kStopped };

std::string_view StreamEndName(StreamEnd end);

struct Exchange {
  Api api = Api::kOpenAiChat;
  Outcome outcome = Outcome::kConnectError;
  std::string outcome_detail;  // one sentence; the server's own message for errors
  std::optional<int64_t> http_status;
  std::string content_type;

  int64_t request_bytes = 0;  // head and body

  Marks marks;
  std::optional<Channel> first_token_channel;
  Usage usage;
  StreamFacts stream;
  ConnectionFacts connection;

  // Kernel stamp to read stamp, for the read that completed the first token, and the largest of
  // all: the client's own scheduling delay.
  std::optional<int64_t> client_read_delay_ns;
  std::optional<int64_t> client_read_delay_max_ns;

  std::string server_timings_json;  // `timings`, Ollama's durations, ... verbatim, or ""
  std::string usage_json;           // the last usage object, verbatim, or ""
  std::string rouse_timeline_json;  // the built-in server's own timeline, or ""
  std::string content_text;         // the first 64 KiB of visible answer text
  std::string reasoning_text;       // the first 64 KiB of reasoning
  std::vector<EventStamp> events;   // at most kListedEventsLimit
  std::vector<ReadStamp> reads;     // at most kListedEventsLimit
  StreamEnd stream_end = StreamEnd::kNone;
  std::vector<Warning> warnings;
};

}  // namespace rouse::wire
