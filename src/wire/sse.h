// Server-Sent Events, parsed as the HTML standard writes it ("9.2.6 Interpreting an event stream"),
// with one deliberate difference: an event that the end of the stream leaves unfinished is
// delivered (marked `unterminated`) where a browser would drop it, since servers end streams
// without the last blank line. Bytes stay bytes here: UTF-8 is the caller's matter, so that a
// character may be split between any two reads. No I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rouse::wire {

struct SseEvent {
  std::string_view type;  // the `event` field, or "" (which means "message")
  std::string_view data;  // `data` lines joined by LF
  std::string_view id;    // the last event id so far
  bool unterminated = false;
};

class SseSink {
 public:
  virtual ~SseSink() = default;
  // The views are valid during the call only.
  virtual void OnEvent(const SseEvent& event) = 0;
  virtual void OnComment(std::string_view text) = 0;
  // `retry` in milliseconds.
  virtual void OnRetry(int64_t /*retry_ms*/) {}
  // A line that is no field of the standard, which says to ignore it: foreign text, or a server's
  // own invention (older llama-servers wrote `error: {...}`).
  virtual void OnOtherLine(std::string_view /*line*/) {}
};

class SseParser {
 public:
  // One event, and one line, may have at most `event_limit_bytes` of data.
  explicit SseParser(size_t event_limit_bytes) : event_limit_bytes_(event_limit_bytes) {}

  // Calls the sink for all that `bytes` completes. False once an event is longer than the limit;
  // from then on nothing more is delivered.
  bool Feed(std::string_view bytes, SseSink& sink);

  // The stream has ended: delivers an unfinished last line and event. False as in Feed.
  bool Finish(SseSink& sink);

  // Lines that were a field of the standard or a comment; 0 says that this was no event stream.
  int64_t recognized_lines() const { return recognized_lines_; }

 private:
  void HandleLine(std::string_view line, SseSink& sink);
  void HandleField(std::string_view name, std::string_view value, std::string_view line,
                   SseSink& sink);
  void Dispatch(bool unterminated, SseSink& sink);
  std::string_view SkipByteOrderMark(std::string_view bytes);

  size_t event_limit_bytes_;
  std::string line_;  // the unfinished last line
  std::string data_;
  std::string type_;
  std::string id_;
  bool has_data_ = false;
  bool skip_line_feed_ = false;  // the last line ended in CR: a LF that follows belongs to it
  int bom_bytes_ = 0;            // bytes of a byte order mark seen so far; -1: past the start
  bool too_long_ = false;
  int64_t recognized_lines_ = 0;
};

}  // namespace rouse::wire
