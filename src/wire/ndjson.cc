#include "wire/ndjson.h"

namespace rouse::wire {

bool NdjsonParser::Feed(std::string_view bytes, LineSink& sink) {
  while (!bytes.empty() && !too_long_) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > line_limit_bytes_) {
      too_long_ = true;
      break;
    }
    if (end == std::string_view::npos) {
      line_.append(piece);
      break;
    }
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      Deliver(piece, false, sink);
    } else {
      line_.append(piece);
      Deliver(line_, false, sink);
      line_.clear();
    }
  }
  return !too_long_;
}

bool NdjsonParser::Finish(LineSink& sink) {
  if (!line_.empty() && !too_long_) {
    const std::string line = std::move(line_);
    line_.clear();
    Deliver(line, true, sink);
  }
  return !too_long_;
}

// A byte order mark before the first line is no JSON, but some writers put one there.
void NdjsonParser::Deliver(std::string_view line, bool unterminated, LineSink& sink) {
  if (first_line_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  first_line_ = false;
  if (line.ends_with('\r')) line.remove_suffix(1);
  sink.OnLine(line, unterminated);
}

}  // namespace rouse::wire
