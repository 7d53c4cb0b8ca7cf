#include "wire/detectors.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/strings.h"
#include "base/units.h"

namespace rouse::wire {
namespace {

// A burst at the end (docs/method.md, "impossible values"): more than nine tenths of the token
// events within a millisecond of the last one, though the answer took much longer.
constexpr int64_t kBurstWindowNs = kNsPerMs;
constexpr int64_t kBurstMinEvents = 5;
constexpr int64_t kBurstMinElapsedNs = 20 * kNsPerMs;
// A buffer that lets go in pieces: several token events a read, over a longer answer.
constexpr int64_t kPiecesMinEvents = 24;
constexpr int64_t kPiecesMinEventsPerRead = 4;
// Where made-up text may begin: a real answer's first words come earlier than a later mention.
constexpr size_t kLoadingTextBytes = 160;

struct FaultText {
  std::string_view code;
  std::string_view message;
  std::string_view advice;
};

constexpr std::array kFaultTexts = std::to_array<FaultText>({
    {"reconnect",
     "the server had closed the kept connection; a new one was opened, and its cost is in the "
     "times",
     "compare with connection = \"fresh\", or shorten the idle time between requests"},
    {"connect_fallback",
     "the first address of the host refused the connection; another one answered",
     "give the address that answers instead of the name"},
    {"request_cut", "the server stopped reading the request before all of it was sent",
     "look at the server's limits for request bodies"},
    {"missing_done",
     "the stream told its finish but not its end ([DONE] or the like); counts may be missing",
     "look for a proxy that cuts streams"},
    {"cut_after_end", "the connection broke after the answer's end was told",
     "the marks hold; look for a proxy or server that cuts connections"},
    {"no_end_of_message",
     "the answer was told to be over but the HTTP message was not ended; waiting was given up",
     "the marks hold; the connection can't be used again"},
    {"bytes_after_end", "bytes came after the end of the HTTP message",
     "the connection can't be used again; the server's Content-Length may be wrong"},
    {"invalid_utf8", "some event held bytes that are not UTF-8; they were replaced",
     "the marks hold; the server cuts characters between events"},
    {"token_after_end", "generated text came after the stream's end was told; it was not counted",
     "look at the events with --events"},
    {"foreign_lines", "the stream holds lines that are no Server-Sent Events",
     "look at the reads with --events; a proxy may write into the stream"},
    {"bare_line_feed", "the answer's header lines end in LF alone", "the marks hold"},
    {"content_encoding", "the body is encoded although only plain bytes were asked for",
     "switch compression off for event streams in the server or proxy"},
    {"event_list_full", "the answer had more events than are listed; all were counted", ""},
});

void Warn(Exchange& exchange, std::string_view code, std::string message, std::string_view advice) {
  exchange.warnings.push_back({std::string(code), std::move(message), std::string(advice)});
}

void WarnOfFaults(Exchange& exchange) {
  for (const std::string& fault : exchange.stream.faults) {
    const auto* const text = std::ranges::find(kFaultTexts, fault, &FaultText::code);
    CHECK(text != kFaultTexts.end());
    Warn(exchange, fault, std::string(text->message), text->advice);
  }
}

std::string Number(int64_t value) { return std::to_string(value); }

void WarnOfLateBurst(Exchange& exchange) {
  const Marks& marks = exchange.marks;
  const int64_t tokens = exchange.stream.token_events;
  if (tokens < kBurstMinEvents || !marks.last_token) return;
  const MonoTime start = marks.request_sent.value_or(marks.send_start);
  const int64_t elapsed_ns = *marks.last_token - start;
  if (elapsed_ns < kBurstMinElapsedNs) return;
  const int64_t late = std::ranges::count_if(exchange.events, [&marks](const EventStamp& event) {
    return event.event_class == EventClass::kToken &&
           *marks.last_token - event.at <= kBurstWindowNs;
  });
  if (late * 10 <= tokens * 9) return;
  Warn(exchange, "late_burst",
       Number(late) + " of " + Number(tokens) +
           " token events came within 1 ms of the last one, after " + FormatDuration(elapsed_ns) +
           ": something holds the stream back, and the TTFT is that of its release",
       "switch buffering and compression off in the proxy (nginx: proxy_buffering off), or ask the "
       "server directly; if it streams only in name, no client can see its first token");
}

void WarnOfPieces(Exchange& exchange) {
  const int64_t tokens = exchange.stream.token_events;
  if (tokens < kPiecesMinEvents) return;
  int64_t stamps = 0;
  MonoTime last;
  for (const EventStamp& event : exchange.events) {
    if (event.event_class != EventClass::kToken || (stamps > 0 && event.at == last)) continue;
    ++stamps;
    last = event.at;
  }
  if (stamps < 2 || tokens < stamps * kPiecesMinEventsPerRead) return;
  Warn(exchange, "coalesced_reads",
       Number(tokens) + " token events came in " + Number(stamps) +
           " reads: a buffer on the way lets go in pieces, and times between tokens mean little",
       "switch buffering off in the proxy, or ask the server directly");
}

// Some proxies stream a text of their own as reasoning while a model is being loaded.
void WarnOfLoadingText(Exchange& exchange) {
  const std::string text = LowerAscii(exchange.reasoning_text.substr(0, kLoadingTextBytes) + "\n" +
                                      exchange.content_text.substr(0, kLoadingTextBytes / 4));
  const bool product = text.find("llama-swap") != std::string::npos;
  constexpr std::array<std::string_view, 6> kVerbs = {"loading ",   "starting ",    "swapping ",
                                                      "waking up ", "waiting for ", "warming up "};
  const bool says_so = std::ranges::any_of(kVerbs, [&text](std::string_view verb) {
    const size_t at = text.find(verb);
    return at != std::string::npos && text.find("model", at) != std::string::npos &&
           text.find("model", at) - at < 40;
  });
  if (!product && !says_so) return;
  Warn(exchange, "loading_text",
       "the first text looks made up by a proxy while it loads a model, not generated: the TTFT is "
       "that of this text",
       "use the TTFC (first visible content), or switch the proxy's loading messages off");
}

void WarnOfTwoFamilies(Exchange& exchange) {
  if (!exchange.connection.two_families) return;
  const std::string& family = exchange.connection.family;
  Warn(exchange, "localhost_two_families",
       "the host's name has IPv4 and IPv6 addresses" +
           (family.empty() ? "" : "; " + family + " was used") +
           ": clients that try the other one first can lose up to seconds",
       "give the address itself, for instance http://127.0.0.1:PORT");
}

void WarnOfKeptConnection(Exchange& exchange) {
  const bool early = exchange.outcome == Outcome::kTruncated && !exchange.http_status;
  if (!early || !exchange.connection.reused.value_or(false)) return;
  Warn(exchange, "kept_connection_closed",
       "the server closed the kept connection instead of answering; nothing was sent again",
       "the server closes idle or much-used connections: see its keep-alive settings");
}

void WarnOfImpossible(Exchange& exchange, std::string_view code, std::string message) {
  Warn(exchange, code, std::move(message), "the value is kept as it came; do not build on it");
}

void WarnOfImpossibleCounts(Exchange& exchange) {
  const Usage& usage = exchange.usage;
  const auto check = [&exchange](std::string_view name, std::optional<int64_t> count) {
    if (count.value_or(0) >= 0) return;
    WarnOfImpossible(exchange, "impossible_count",
                     "the server counts " + Number(*count) + " " + std::string(name));
  };
  check("prompt tokens", usage.prompt_tokens);
  check("cached tokens", usage.cached_tokens);
  check("completion tokens", usage.completion_tokens);
  if (usage.cached_tokens && usage.prompt_tokens && *usage.cached_tokens > *usage.prompt_tokens) {
    WarnOfImpossible(exchange, "impossible_count",
                     "the server counts " + Number(*usage.cached_tokens) +
                         " cached tokens in a prompt of " + Number(*usage.prompt_tokens));
  }
  if (usage.completion_tokens && exchange.outcome == Outcome::kOk &&
      *usage.completion_tokens >= 0 && *usage.completion_tokens < exchange.stream.token_events) {
    WarnOfImpossible(exchange, "impossible_count",
                     "the server counts " + Number(*usage.completion_tokens) +
                         " generated tokens, but " + Number(exchange.stream.token_events) +
                         " events carried generated output");
  }
}

void WarnOfImpossibleTimes(Exchange& exchange) {
  const Marks& marks = exchange.marks;
  if (!marks.first_token) return;
  if (marks.request_sent && *marks.first_token < *marks.request_sent) {
    WarnOfImpossible(exchange, "token_before_request",
                     "the first token came before the request was sent");
    return;
  }
  const std::optional<int64_t> round_trip_ns = exchange.connection.round_trip_ns;
  if (!marks.connected || !round_trip_ns) return;
  const int64_t after_ns = *marks.first_token - *marks.connected;
  if (after_ns >= *round_trip_ns) return;
  WarnOfImpossible(exchange, "ttft_below_round_trip",
                   "the first token came " + FormatDuration(after_ns) +
                       " after connecting, less than one round trip (" +
                       FormatDuration(*round_trip_ns) + ")");
}

}  // namespace

void AddWarnings(Exchange& exchange) {
  WarnOfTwoFamilies(exchange);
  WarnOfFaults(exchange);
  WarnOfKeptConnection(exchange);
  WarnOfLateBurst(exchange);
  WarnOfPieces(exchange);
  WarnOfLoadingText(exchange);
  WarnOfImpossibleCounts(exchange);
  WarnOfImpossibleTimes(exchange);
}

}  // namespace rouse::wire
