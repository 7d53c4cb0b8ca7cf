// Lines of JSON (one object a line, LF or CRLF): splits, and nothing else. The last line counts
// without its line end. No I/O, no clock.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rouse::wire {

class LineSink {
 public:
  virtual ~LineSink() = default;
  // Without its line end; blank lines included. Valid during the call only.
  virtual void OnLine(std::string_view line, bool unterminated) = 0;
};

class NdjsonParser {
 public:
  explicit NdjsonParser(size_t line_limit_bytes) : line_limit_bytes_(line_limit_bytes) {}

  // False once a line is longer than the limit; from then on nothing more is delivered.
  bool Feed(std::string_view bytes, LineSink& sink);
  // The stream has ended: delivers the unfinished last line, unless it is empty.
  bool Finish(LineSink& sink);

 private:
  void Deliver(std::string_view line, bool unterminated, LineSink& sink);

  size_t line_limit_bytes_;
  std::string line_;
  bool first_line_ = true;
  bool too_long_ = false;
};

}  // namespace rouse::wire
