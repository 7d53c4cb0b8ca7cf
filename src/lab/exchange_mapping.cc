#include "lab/exchange_mapping.h"

#include <string>

#include "base/check.h"

namespace rouse::lab {
namespace {

using results::Attempt;

results::OptionalNs Since(MonoTime start, const std::optional<MonoTime>& mark) {
  if (!mark) return std::nullopt;
  return *mark - start;
}

void StoreMarks(const wire::Marks& from, results::Marks& to) {
  const auto since = [&from](const std::optional<MonoTime>& mark) {
    return Since(from.send_start, mark);
  };
  to.send_start = 0;
  to.connected = since(from.connected);
  to.request_sent = since(from.request_sent);
  to.response_headers = since(from.response_headers);
  to.first_byte = since(from.first_byte);
  to.first_event = since(from.first_event);
  to.first_token = since(from.first_token);
  to.first_content = since(from.first_content);
  to.last_token = since(from.last_token);
  to.end = since(from.end);
}

void StoreTokens(const wire::Usage& from, results::Tokens& to) {
  to.prompt = from.prompt_tokens;
  to.cached = from.cached_tokens;
  to.completion = from.completion_tokens;
  to.first_chunk = from.first_chunk_tokens;
}

// Without a response there is no stream: its counts are unknown, not 0.
void StoreStream(const wire::Exchange& exchange, results::StreamFacts& to) {
  const wire::StreamFacts& from = exchange.stream;
  to.faults = from.faults;
  if (from.reads == 0) return;
  to.reads = from.reads;
  if (!exchange.http_status) return;
  to.events = from.events;
  to.token_events = from.token_events;
  to.pings = from.pings;
  to.coalesced = from.coalesced;
}

// Verbatim, as {"timings": ..., "usage": ...}.
std::string ServerJson(const wire::Exchange& exchange) {
  std::string json;
  const auto add = [&json](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    json += json.empty() ? "{\"" : ",\"";
    json += std::string(name) + "\":" + value;
  };
  add("timings", exchange.server_timings_json);
  add("usage", exchange.usage_json);
  return json.empty() ? json : json + "}";
}

void StoreDelay(const std::string& name, std::optional<int64_t> delay_ns, Attempt& attempt) {
  if (delay_ns) {
    attempt.counters[name] = *delay_ns;
    return;
  }
  attempt.counters[name] = std::nullopt;
  const bool unix_socket = attempt.connection.family == "unix";
  attempt.null_reasons[name] = unix_socket ? "Unix sockets have no kernel receive stamps"
                                           : "no kernel receive stamp was had";
}

void ExplainNulls(const wire::Exchange& exchange, Attempt& attempt) {
  const std::string outcome(wire::OutcomeName(exchange.outcome));
  if (!attempt.ttft_ns) attempt.null_reasons["ttft_ns"] = "no first token (" + outcome + ")";
  if (!attempt.ttfc_ns) {
    attempt.null_reasons["ttfc_ns"] =
        attempt.ttft_ns ? "no visible content" : "no first token (" + outcome + ")";
  }
  if (attempt.connection.reused.value_or(false)) {
    attempt.null_reasons["marks_ns.connected"] = "the connection was a kept one";
  }
  if (attempt.ttft_ns && !attempt.tokens.first_chunk) {
    attempt.null_reasons["tokens.first_chunk"] = "the server did not tell";
  }
}

}  // namespace

void StoreExchange(const wire::Exchange& exchange, Attempt& attempt) {
  const auto outcome = results::OutcomeFromName(wire::OutcomeName(exchange.outcome));
  CHECK(outcome.has_value());  // wire's outcomes are a subset, by name
  attempt.outcome = *outcome;
  attempt.outcome_detail = exchange.outcome_detail;
  attempt.api = wire::ApiName(exchange.api);
  attempt.http_status = exchange.http_status;
  StoreMarks(exchange.marks, attempt.marks);
  attempt.ttft_ns = attempt.marks.first_token;
  attempt.ttfc_ns = attempt.marks.first_content;
  attempt.first_token_channel.clear();
  if (exchange.first_token_channel) {
    attempt.first_token_channel = wire::ChannelName(*exchange.first_token_channel);
  }
  StoreTokens(exchange.usage, attempt.tokens);
  StoreStream(exchange, attempt.stream);
  attempt.connection.reused = exchange.connection.reused;
  attempt.connection.family = exchange.connection.family;
  attempt.connection.remote = exchange.connection.remote;
  attempt.server_json = ServerJson(exchange);
  StoreDelay("client_read_delay_ns", exchange.client_read_delay_ns, attempt);
  StoreDelay("client_read_delay_max_ns", exchange.client_read_delay_max_ns, attempt);
  ExplainNulls(exchange, attempt);
  for (const wire::Warning& warning : exchange.warnings) {
    const std::string advice = warning.advice.empty() ? "" : " (" + warning.advice + ")";
    attempt.warnings.push_back({warning.code, warning.message + advice});
  }
}

}  // namespace rouse::lab
