// From reads to an Exchange: everything that the client concludes from the bytes of one response
// and their stamps. No socket and no clock of its own, so that a recorded stream (wire/replay.h), a
// fuzzer or a test can be put through exactly the code that measures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "wire/apis.h"
#include "wire/exchange.h"
#include "wire/http_response.h"
#include "wire/ndjson.h"
#include "wire/request.h"
#include "wire/sse.h"

namespace rouse::wire {

class ExchangeBuilder final : private HttpSink, private SseSink, private LineSink {
 public:
  // `exchange` must outlive the builder; its marks up to request_sent are the caller's.
  ExchangeBuilder(Api api, const Limits& limits, bool keep_raw, Exchange& exchange);

  // One read that brought bytes. Returns whether more is wanted: false after the end of the
  // message, a crossed limit, or bytes that are no HTTP.
  bool OnRead(std::string_view bytes, MonoTime at, std::optional<int64_t> kernel_delay_ns);

  // No more reads: sets marks.end and the outcome, and adds the warnings. `why` is a sentence for
  // timeouts and failed reads. Call once.
  void Finish(StreamEnd end, MonoTime at, std::string_view why);

  // For the caller's deadlines.
  std::optional<MonoTime> finish_told_at() const { return finish_told_at_; }
  std::optional<MonoTime> end_told_at() const { return end_told_at_; }

  // Whether the connection may carry another request (meaningful after Finish).
  bool reusable() const;

 private:
  enum class Body {
    kUndecided,  // no byte that tells has come yet
    kSse,
    kNdjson,
    kWholeJson,  // one JSON value, kept until its end
    kForeign,    // HTML and the like
    kError,      // status 300 and above: kept for its message
    kEncoded,    // compressed: bytes only
  };

  void OnHead(const HttpHead& head) override;
  void OnBody(std::string_view bytes) override;
  void OnEvent(const SseEvent& event) override;
  void OnComment(std::string_view text) override;
  void OnOtherLine(std::string_view line) override;
  void OnLine(std::string_view line, bool unterminated) override;

  Body DecideBody(std::string_view bytes) const;
  void FeedBody(std::string_view bytes);
  void KeepText(std::string_view bytes, size_t limit_bytes);
  void HandleData(std::string_view type, std::string_view data, bool unterminated);
  void HandleDone(size_t bytes);
  void HandleBadEvent(std::string_view type, std::string_view data, bool unterminated);
  void Apply(const EventFacts& facts, size_t bytes);
  bool IsWholeAnswer(const EventFacts& facts) const;
  void ApplyToken(const EventFacts& facts, size_t bytes);
  void ApplyCounts(const EventFacts& facts);
  void List(EventClass event_class, size_t bytes, std::optional<Channel> channel = {});
  void CountPing(size_t bytes);
  void FailWith(std::string detail);
  void AddFault(std::string_view code);

  void FlushParsers();
  void Conclude(StreamEnd end, std::string_view why);
  void ConcludeWithoutHead(StreamEnd end, std::string_view why);
  void ConcludeWholeJson(StreamEnd end, std::string_view why);
  void ConcludeUntold(StreamEnd end, std::string_view why);
  void ConcludeTold(StreamEnd end);
  void Set(Outcome outcome, std::string detail);
  void SetHttpError();

  Api api_;
  Limits limits_;
  bool keep_raw_;
  Exchange& exchange_;
  HttpResponseParser http_;
  SseParser sse_;
  NdjsonParser ndjson_;

  Body body_ = Body::kUndecided;
  std::string kept_;  // an error's or a whole answer's body, or undecided leading blanks
  std::string location_;
  bool ndjson_type_ = false;  // the Content-Type says NDJSON
  bool json_type_ = false;    // the Content-Type says plain JSON
  bool lines_are_one_json_ = false;

  MonoTime read_at_;
  std::optional<int64_t> read_delay_ns_;
  int64_t tokens_in_read_ = 0;
  int64_t body_bytes_ = 0;
  bool finished_ = false;

  std::optional<std::string> fatal_;      // malformed: a limit, or no HTTP
  std::optional<std::string> bad_event_;  // malformed: the first event that was no JSON
  bool cut_event_ = false;                // an unterminated last event that was no JSON
  std::optional<std::string> error_;      // the server's message in the stream
  bool whole_answer_ = false;
  std::string foreign_line_;
  std::optional<MonoTime> finish_told_at_;
  std::optional<MonoTime> end_told_at_;
};

}  // namespace rouse::wire
