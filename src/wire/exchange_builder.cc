#include "wire/exchange_builder.h"

#include <algorithm>

#include "base/strings.h"
#include "wire/detectors.h"
#include "wire/utf8.h"

namespace rouse::wire {
namespace {

constexpr size_t kKeptTextBytes = size_t{64} << 10;
constexpr size_t kExcerptBytes = 80;
constexpr std::string_view kDoneMarker = "[DONE]";
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// For messages: quoted, on one line, short.
std::string Quote(std::string_view text) {
  std::string shown = "\"";
  const std::string valid = ReplaceInvalidUtf8(Utf8Prefix(text, kExcerptBytes));
  for (const char letter : valid) shown += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  return shown + (text.size() > kExcerptBytes ? "...\"" : "\"");
}

std::string MediaType(std::string_view content_type) {
  return LowerAscii(TrimBlanks(content_type.substr(0, content_type.find(';'))));
}

bool IsEncoded(const HttpHead& head) {
  const std::string encoding = LowerAscii(TrimBlanks(head.Field("content-encoding")));
  const std::string transfer = LowerAscii(TrimBlanks(head.Field("transfer-encoding")));
  const bool plain_transfer = transfer.empty() || transfer == "chunked" || transfer == "identity";
  return (!encoding.empty() && encoding != "identity") || !plain_transfer;
}

void AppendLimited(std::string_view text, std::string& kept) {
  if (kept.size() < kKeptTextBytes) kept += Utf8Prefix(text, kKeptTextBytes - kept.size());
}

std::string LimitName(std::string_view name, int64_t bytes, std::string_view what) {
  return std::string(name) + ": " + std::string(what) + " is longer than " + std::to_string(bytes) +
         " bytes";
}

}  // namespace

ExchangeBuilder::ExchangeBuilder(Api api, const Limits& limits, bool keep_raw, Exchange& exchange)
    : api_(api),
      limits_(limits),
      keep_raw_(keep_raw),
      exchange_(exchange),
      http_(limits.header_bytes),
      sse_(static_cast<size_t>(limits.event_bytes)),
      ndjson_(static_cast<size_t>(limits.event_bytes)) {
  exchange_.api = api;
}

// ---- Bytes --------------------------------------------------------------------------------------

bool ExchangeBuilder::OnRead(std::string_view bytes, MonoTime at,
                             std::optional<int64_t> kernel_delay_ns) {
  read_at_ = at;
  read_delay_ns_ = kernel_delay_ns;
  tokens_in_read_ = 0;
  ++exchange_.stream.reads;
  const auto read_bytes = static_cast<int64_t>(bytes.size());
  exchange_.stream.read_bytes += read_bytes;
  if (kernel_delay_ns) {
    exchange_.client_read_delay_max_ns =
        std::max(exchange_.client_read_delay_max_ns.value_or(*kernel_delay_ns), *kernel_delay_ns);
  }
  if (exchange_.reads.size() < kListedEventsLimit) {
    exchange_.reads.push_back(
        {at, read_bytes, kernel_delay_ns, keep_raw_ ? std::string(bytes) : std::string()});
  }
  if (exchange_.stream.read_bytes > limits_.total_bytes) {
    FailWith(LimitName("total_limit", limits_.total_bytes, "the answer"));
    return false;
  }
  const HttpResponseParser::State state = http_.Feed(bytes, *this);
  if (state == HttpResponseParser::State::kFailed) FailWith(http_.error());
  // The end of the message ends its last event, at the same read.
  if (state == HttpResponseParser::State::kComplete) FlushParsers();
  return !fatal_ && state != HttpResponseParser::State::kComplete;
}

void ExchangeBuilder::OnHead(const HttpHead& head) {
  exchange_.marks.response_headers = read_at_;
  exchange_.http_status = head.status;
  exchange_.content_type = head.Field("content-type");
  const std::string type = MediaType(exchange_.content_type);
  json_type_ = type == "application/json";
  ndjson_type_ =
      type.find("ndjson") != std::string::npos || type.find("jsonl") != std::string::npos;
  if (head.status >= 300) {
    body_ = IsEncoded(head) ? Body::kEncoded : Body::kError;
    location_ = head.Field("location");
  } else if (IsEncoded(head)) {
    body_ = Body::kEncoded;
    std::string_view encoding = head.Field("content-encoding");
    if (encoding.empty()) encoding = head.Field("transfer-encoding");
    bad_event_ = "content_encoding: the body is encoded (" + std::string(encoding) +
                 "), which was not asked for; nothing about its time can be known";
    AddFault("content_encoding");
  } else if (type == "text/html") {
    body_ = Body::kForeign;
  }
}

// By the first byte that is no blank: servers send streams under any Content-Type.
ExchangeBuilder::Body ExchangeBuilder::DecideBody(std::string_view bytes) const {
  std::string_view text = bytes;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t start = text.find_first_not_of(kBlanks);
  if (start == std::string_view::npos || kByteOrderMark.starts_with(text.substr(start))) {
    return Body::kUndecided;
  }
  const char first = text[start];
  if (first == '<') return Body::kForeign;
  if (FramingOf(api_) == Framing::kNdjson) return Body::kNdjson;
  return first == '{' || first == '[' ? Body::kWholeJson : Body::kSse;
}

void ExchangeBuilder::OnBody(std::string_view bytes) {
  if (!exchange_.marks.first_byte) exchange_.marks.first_byte = read_at_;
  body_bytes_ += static_cast<int64_t>(bytes.size());
  if (body_ != Body::kUndecided) return FeedBody(bytes);
  kept_.append(bytes);
  body_ = DecideBody(kept_);
  if (body_ == Body::kUndecided && kept_.size() < kKeptTextBytes) return;
  if (body_ == Body::kUndecided) body_ = Body::kForeign;  // nothing but blanks
  const std::string start = std::move(kept_);
  kept_.clear();
  FeedBody(start);
}

void ExchangeBuilder::FeedBody(std::string_view bytes) {
  const auto event_limit = static_cast<size_t>(limits_.event_bytes);
  bool within = true;
  switch (body_) {
    case Body::kSse:
      within = sse_.Feed(bytes, *this);
      break;
    case Body::kNdjson:
      within = ndjson_.Feed(bytes, *this);
      break;
    case Body::kWholeJson:
      within = kept_.size() + bytes.size() <= event_limit;
      if (within) kept_.append(bytes);
      break;
    case Body::kForeign:
    case Body::kError:
      KeepText(bytes, kKeptTextBytes);
      break;
    case Body::kEncoded:
    case Body::kUndecided:
      break;
  }
  if (!within) FailWith(LimitName("event_limit", limits_.event_bytes, "an event"));
}

void ExchangeBuilder::KeepText(std::string_view bytes, size_t limit_bytes) {
  if (kept_.size() < limit_bytes) kept_.append(bytes.substr(0, limit_bytes - kept_.size()));
}

void ExchangeBuilder::FlushParsers() {
  if (finished_) return;
  finished_ = true;
  if (body_ == Body::kSse && !sse_.Finish(*this)) {
    FailWith(LimitName("event_limit", limits_.event_bytes, "an event"));
  }
  if (body_ == Body::kNdjson) static_cast<void>(ndjson_.Finish(*this));
}

// ---- Events -------------------------------------------------------------------------------------

void ExchangeBuilder::OnComment(std::string_view text) { CountPing(text.size()); }

void ExchangeBuilder::OnEvent(const SseEvent& event) {
  HandleData(event.type, event.data, event.unterminated);
}

void ExchangeBuilder::OnLine(std::string_view line, bool unterminated) {
  if (lines_are_one_json_) {
    KeepText(std::string(line) + "\n", static_cast<size_t>(limits_.event_bytes));
    return;
  }
  HandleData("", line, unterminated);
}

// The standard says to ignore such lines; servers use them for errors: `error: {...}` (older
// llama-servers), or bare JSON from a proxy.
void ExchangeBuilder::OnOtherLine(std::string_view line) {
  const std::string text = ReplaceInvalidUtf8(line);
  const std::string_view view = text;
  if (view.starts_with("error:")) {
    if (!error_) error_ = ErrorMessage(view.substr(6));
    List(EventClass::kError, view.size());
    return;
  }
  if (view.starts_with('{')) {
    const std::optional<EventFacts> facts = ReadWholeBody(api_, view);
    if (facts && facts->error) {
      if (!error_) error_ = facts->error;
      List(EventClass::kError, view.size());
      return;
    }
  }
  if (foreign_line_.empty()) foreign_line_ = text.substr(0, 4 * kExcerptBytes);
  AddFault("foreign_lines");
}

void ExchangeBuilder::HandleData(std::string_view type, std::string_view data, bool unterminated) {
  const std::string_view trimmed = TrimBlanks(data);
  if (trimmed.empty()) return CountPing(data.size());
  if (trimmed == kDoneMarker && FramingOf(api_) == Framing::kSse) return HandleDone(data.size());
  std::optional<EventFacts> facts;
  if (IsValidUtf8(trimmed)) {
    facts = ReadEvent(api_, type, trimmed);
  } else {
    AddFault("invalid_utf8");
    facts = ReadEvent(api_, type, ReplaceInvalidUtf8(trimmed));
  }
  if (!facts) return HandleBadEvent(type, trimmed, unterminated);
  if (facts->ping) return CountPing(data.size());
  ++exchange_.stream.events;
  if (!exchange_.marks.first_event) exchange_.marks.first_event = read_at_;
  Apply(*facts, data.size());
}

void ExchangeBuilder::HandleDone(size_t bytes) {
  ++exchange_.stream.events;
  if (!exchange_.marks.first_event) exchange_.marks.first_event = read_at_;
  exchange_.stream.end_told = true;
  if (!end_told_at_) end_told_at_ = read_at_;
  List(EventClass::kDone, bytes);
}

void ExchangeBuilder::HandleBadEvent(std::string_view type, std::string_view data,
                                     bool unterminated) {
  if (unterminated && (data.starts_with('{') || kDoneMarker.starts_with(data))) {
    cut_event_ = true;
    return;
  }
  if (body_ == Body::kNdjson && json_type_ && exchange_.stream.events == 0 && !bad_event_) {
    lines_are_one_json_ = true;  // a pretty-printed answer
    KeepText(std::string(data) + "\n", static_cast<size_t>(limits_.event_bytes));
    return;
  }
  ++exchange_.stream.events;
  if (!exchange_.marks.first_event) exchange_.marks.first_event = read_at_;
  if (type == "error") {
    if (!error_) error_ = ErrorMessage(data);
    List(EventClass::kError, data.size());
    return;
  }
  if (!bad_event_) {
    bad_event_ =
        "event " + std::to_string(exchange_.stream.events) + " is not JSON: " + Quote(data);
  }
  List(EventClass::kError, data.size());
}

// A whole answer in one object is no stream, unless it is the one token that was asked for.
bool ExchangeBuilder::IsWholeAnswer(const EventFacts& facts) const {
  if (!facts.whole_answer || exchange_.stream.token_events > 0) return false;
  const bool single = facts.completion_tokens == 1 && !json_type_;
  return FramingOf(api_) == Framing::kSse || !single;
}

void ExchangeBuilder::Apply(const EventFacts& facts, size_t bytes) {
  const bool after_end = exchange_.stream.end_told;
  ApplyCounts(facts);
  if (facts.error && !error_) error_ = facts.error;
  if (facts.finish) {
    exchange_.stream.finish_told = true;
    if (!finish_told_at_) finish_told_at_ = read_at_;
    if (!facts.finish_reason.empty()) exchange_.stream.finish_reason = facts.finish_reason;
  }
  if (facts.end) {
    exchange_.stream.end_told = true;
    if (!end_told_at_) end_told_at_ = read_at_;
  }
  const bool whole = IsWholeAnswer(facts);
  whole_answer_ = whole_answer_ || whole;
  if (facts.IsToken() && after_end) {
    AddFault("token_after_end");
  } else if (facts.IsToken() && !whole) {
    return ApplyToken(facts, bytes);
  }
  EventClass event_class = facts.HasUsage() ? EventClass::kUsage : EventClass::kStructure;
  if (facts.end) event_class = EventClass::kDone;
  if (facts.error) event_class = EventClass::kError;
  List(event_class, bytes);
}

void ExchangeBuilder::ApplyToken(const EventFacts& facts, size_t bytes) {
  // Reasoning is generated before the answer, and an answer before a call of a tool.
  const Channel channel = facts.has_reasoning ? Channel::kReasoning
                          : facts.has_content ? Channel::kContent
                                              : Channel::kToolCall;
  Marks& marks = exchange_.marks;
  ++exchange_.stream.token_events;
  if (++tokens_in_read_ > 1) exchange_.stream.coalesced = true;
  if (!marks.first_token) {
    marks.first_token = read_at_;
    exchange_.first_token_channel = channel;
    exchange_.client_read_delay_ns = read_delay_ns_;
    const std::optional<int64_t> tokens = facts.tokens ? facts.tokens : facts.tokens_so_far;
    if (tokens && *tokens > 0) exchange_.usage.first_chunk_tokens = tokens;
  }
  if (facts.has_content && !marks.first_content) marks.first_content = read_at_;
  marks.last_token = read_at_;
  AppendLimited(facts.content, exchange_.content_text);
  AppendLimited(facts.reasoning, exchange_.reasoning_text);
  List(EventClass::kToken, bytes, channel);
}

void ExchangeBuilder::ApplyCounts(const EventFacts& facts) {
  Usage& usage = exchange_.usage;
  if (facts.prompt_tokens) usage.prompt_tokens = facts.prompt_tokens;
  if (facts.cached_tokens) usage.cached_tokens = facts.cached_tokens;
  if (facts.completion_tokens) usage.completion_tokens = facts.completion_tokens;
  if (!facts.usage_json.empty()) exchange_.usage_json = facts.usage_json;
  if (!facts.timings_json.empty()) exchange_.server_timings_json = facts.timings_json;
  if (!facts.rouse_json.empty()) exchange_.rouse_timeline_json = facts.rouse_json;
}

void ExchangeBuilder::List(EventClass event_class, size_t bytes, std::optional<Channel> channel) {
  if (exchange_.events.size() >= kListedEventsLimit) return AddFault("event_list_full");
  exchange_.events.push_back({read_at_, static_cast<int64_t>(bytes), event_class, channel});
}

void ExchangeBuilder::CountPing(size_t bytes) {
  ++exchange_.stream.pings;
  List(EventClass::kPing, bytes);
}

void ExchangeBuilder::FailWith(std::string detail) {
  if (!fatal_) fatal_ = std::move(detail);
}

void ExchangeBuilder::AddFault(std::string_view code) {
  std::vector<std::string>& faults = exchange_.stream.faults;
  if (std::ranges::find(faults, code) == faults.end()) faults.emplace_back(code);
}

bool ExchangeBuilder::reusable() const {
  return !fatal_ && http_.keep_alive() && !http_.has_extra_bytes();
}

// ---- The end ------------------------------------------------------------------------------------

void ExchangeBuilder::Finish(StreamEnd end, MonoTime at, std::string_view why) {
  read_at_ = at;
  read_delay_ns_.reset();
  tokens_in_read_ = 0;
  if (end == StreamEnd::kClosed && http_.FeedEof(*this) == HttpResponseParser::State::kComplete) {
    end = StreamEnd::kComplete;
  }
  FlushParsers();
  exchange_.stream_end = end;
  const bool stopped = end == StreamEnd::kStopped && !exchange_.reads.empty();
  exchange_.marks.end = stopped ? exchange_.reads.back().at : at;
  if (http_.has_extra_bytes()) AddFault("bytes_after_end");
  if (http_.saw_bare_line_feed()) AddFault("bare_line_feed");
  Conclude(end, why);
  const Usage& usage = exchange_.usage;
  if (!usage.first_chunk_tokens && exchange_.outcome == Outcome::kOk &&
      usage.completion_tokens == exchange_.stream.token_events) {
    // As many tokens as events, and at least one in each: exactly one in each.
    exchange_.usage.first_chunk_tokens = 1;
  }
  AddWarnings(exchange_);
}

void ExchangeBuilder::Set(Outcome outcome, std::string detail) {
  exchange_.outcome = outcome;
  exchange_.outcome_detail = std::move(detail);
}

void ExchangeBuilder::Conclude(StreamEnd end, std::string_view why) {
  const bool told = exchange_.stream.finish_told || exchange_.stream.end_told;
  if (fatal_) return Set(Outcome::kMalformed, *fatal_);
  if (end == StreamEnd::kInterrupted && !told) return Set(Outcome::kInterrupted, std::string(why));
  if (!exchange_.http_status) return ConcludeWithoutHead(end, why);
  if (*exchange_.http_status >= 300) return SetHttpError();
  if (body_ == Body::kWholeJson || lines_are_one_json_) return ConcludeWholeJson(end, why);
  if (error_) return Set(Outcome::kStreamError, *error_);
  if (body_ == Body::kForeign && body_bytes_ > 0) {
    return Set(Outcome::kMalformed, "the answer is no stream of this API but foreign text: " +
                                        Quote(TrimBlanks(ErrorMessage(kept_))));
  }
  if (bad_event_) return Set(Outcome::kMalformed, *bad_event_);
  if (whole_answer_ && exchange_.stream.token_events == 0) {
    return Set(Outcome::kNotStreamed,
               "the whole answer came in one event: streaming is off, faked or ignored");
  }
  if (!told) return ConcludeUntold(end, why);
  ConcludeTold(end);
}

void ExchangeBuilder::ConcludeWithoutHead(StreamEnd end, std::string_view why) {
  if (end == StreamEnd::kTimeout) return Set(Outcome::kTimeout, std::string(why));
  const std::string how = end == StreamEnd::kReset ? "reset" : "closed";
  const std::string when = exchange_.stream.read_bytes == 0 ? "before any byte of the answer"
                                                            : "inside the answer's header block";
  Set(Outcome::kTruncated, "the connection was " + how + " " + when);
}

void ExchangeBuilder::SetHttpError() {
  const int64_t status = *exchange_.http_status;
  std::string detail = "HTTP status " + std::to_string(status);
  if (status < 400 && !location_.empty()) {
    detail += ": redirect to " + location_.substr(0, location_.find('?')) + ", not followed";
  } else {
    const std::string message = ErrorMessage(ReplaceInvalidUtf8(kept_));
    if (!message.empty()) detail += ": " + message;
  }
  Set(Outcome::kHttpError, std::move(detail));
}

void ExchangeBuilder::ConcludeWholeJson(StreamEnd end, std::string_view why) {
  std::optional<EventFacts> facts = ReadWholeBody(api_, TrimBlanks(ReplaceInvalidUtf8(kept_)));
  if (facts && facts->error) return Set(Outcome::kStreamError, *facts->error);
  if (end == StreamEnd::kTimeout) return Set(Outcome::kTimeout, std::string(why));
  if (end != StreamEnd::kComplete) {
    return Set(Outcome::kTruncated, "the connection ended inside a JSON body that was no stream");
  }
  if (facts && facts->whole_answer) {
    ApplyCounts(*facts);
    return Set(Outcome::kNotStreamed,
               "the whole answer came as one JSON body: streaming is off, or was ignored");
  }
  Set(Outcome::kMalformed, std::string(facts ? "the answer is JSON but no answer of this API: "
                                             : "the answer is no stream of events: ") +
                               Quote(TrimBlanks(kept_)));
}

// The answer's end was not told: a stream that was cut, or none at all.
void ExchangeBuilder::ConcludeUntold(StreamEnd end, std::string_view why) {
  if (end == StreamEnd::kTimeout) return Set(Outcome::kTimeout, std::string(why));
  const bool complete = end == StreamEnd::kComplete;
  if (body_bytes_ == 0 && complete) return Set(Outcome::kNoToken, "the answer's body is empty");
  if (complete && body_ == Body::kSse && sse_.recognized_lines() == 0) {
    return Set(Outcome::kMalformed,
               "the answer is no stream of events but foreign text: " + Quote(foreign_line_));
  }
  if (complete && exchange_.stream.events == 0 && !cut_event_ && exchange_.stream.pings > 0 &&
      !http_.ended_by_close()) {
    return Set(Outcome::kNoToken, "the answer holds nothing but pings");
  }
  if (complete && body_ == Body::kUndecided) {
    return Set(Outcome::kNoToken, "the answer's body is blank");
  }
  std::string detail = end == StreamEnd::kReset ? "the connection was reset"
                       : complete               ? "the answer ended"
                                                : "the connection was closed";
  detail += " after " + std::to_string(exchange_.stream.token_events) + " token events";
  detail += cut_event_ ? ", inside an event" : ", before the end of the answer was told";
  if (!foreign_line_.empty()) detail += "; foreign text in the stream: " + Quote(foreign_line_);
  Set(Outcome::kTruncated, std::move(detail));
}

void ExchangeBuilder::ConcludeTold(StreamEnd end) {
  if (end == StreamEnd::kStopped || end == StreamEnd::kTimeout) AddFault("no_end_of_message");
  if (end == StreamEnd::kClosed || end == StreamEnd::kReset) AddFault("cut_after_end");
  if (!exchange_.stream.end_told) AddFault("missing_done");
  if (exchange_.stream.token_events == 0) {
    std::string detail = "the answer ended without a token";
    const std::string& reason = exchange_.stream.finish_reason;
    if (!reason.empty()) detail += " (finish reason \"" + reason + "\")";
    return Set(Outcome::kNoToken, std::move(detail));
  }
  Set(Outcome::kOk, "");
}

}  // namespace rouse::wire
