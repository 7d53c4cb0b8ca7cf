#include "wire/sse.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace rouse::wire {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Position of the first CR or LF, or npos. Two memchr passes beat a byte loop by far: lines are
// long, and streams with CR are rare.
size_t FindLineEnd(std::string_view bytes) {
  const void* const line_feed = std::memchr(bytes.data(), '\n', bytes.size());
  const size_t until =
      line_feed == nullptr
          ? bytes.size()
          : static_cast<size_t>(static_cast<const char*>(line_feed) - bytes.data());
  const void* const carriage_return = std::memchr(bytes.data(), '\r', until);
  if (carriage_return != nullptr) {
    return static_cast<size_t>(static_cast<const char*>(carriage_return) - bytes.data());
  }
  return line_feed == nullptr ? std::string_view::npos : until;
}

}  // namespace

// One byte order mark at the very start is not part of the stream; it may come in pieces. Bytes
// that only began like one are given back to the line.
std::string_view SseParser::SkipByteOrderMark(std::string_view bytes) {
  while (bom_bytes_ >= 0 && !bytes.empty()) {
    const auto seen = static_cast<size_t>(bom_bytes_);
    if (bytes[0] != kByteOrderMark[seen]) {
      line_.append(kByteOrderMark.substr(0, seen));
      bom_bytes_ = -1;
      break;
    }
    bytes.remove_prefix(1);
    bom_bytes_ = seen + 1 == kByteOrderMark.size() ? -1 : bom_bytes_ + 1;
  }
  return bytes;
}

bool SseParser::Feed(std::string_view bytes, SseSink& sink) {
  if (bom_bytes_ >= 0) bytes = SkipByteOrderMark(bytes);
  while (!bytes.empty() && !too_long_) {
    if (skip_line_feed_) {
      skip_line_feed_ = false;
      if (bytes[0] == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = FindLineEnd(bytes);
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > event_limit_bytes_) {
      too_long_ = true;
      break;
    }
    if (end == std::string_view::npos) {
      line_.append(piece);
      break;
    }
    skip_line_feed_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      HandleLine(piece, sink);
    } else {
      line_.append(piece);
      HandleLine(line_, sink);
      line_.clear();
    }
  }
  return !too_long_;
}

bool SseParser::Finish(SseSink& sink) {
  if (bom_bytes_ > 0) line_.assign(kByteOrderMark.substr(0, static_cast<size_t>(bom_bytes_)));
  bom_bytes_ = -1;
  if (!line_.empty() && !too_long_) {
    const std::string line = std::move(line_);
    line_.clear();
    HandleLine(line, sink);
  }
  if (!too_long_) Dispatch(true, sink);
  return !too_long_;
}

void SseParser::HandleLine(std::string_view line, SseSink& sink) {
  if (line.empty()) {
    Dispatch(false, sink);
    return;
  }
  const size_t colon = line.find(':');
  if (colon == 0) {
    ++recognized_lines_;
    sink.OnComment(line.substr(1));
    return;
  }
  std::string_view value;
  if (colon != std::string_view::npos) {
    value = line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
  }
  HandleField(line.substr(0, colon), value, line, sink);
}

void SseParser::HandleField(std::string_view name, std::string_view value, std::string_view line,
                            SseSink& sink) {
  ++recognized_lines_;
  if (name == "data") {
    if (data_.size() + value.size() + 1 > event_limit_bytes_) {
      too_long_ = true;
      return;
    }
    if (has_data_) data_ += '\n';
    data_.append(value);
    has_data_ = true;
  } else if (name == "event") {
    type_.assign(value);
  } else if (name == "id") {
    if (value.find('\0') == std::string_view::npos) id_.assign(value);
  } else if (name == "retry") {
    const bool digits =
        !value.empty() && std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
    const std::optional<int64_t> retry_ms = digits ? ParseInt64(value) : std::nullopt;
    if (retry_ms) sink.OnRetry(*retry_ms);
  } else {
    --recognized_lines_;
    sink.OnOtherLine(line);
  }
}

// The standard appends LF after each data line and takes the last one off here; `has_data_` is the
// same without the extra byte, and tells `data:` (an event with empty data) from no data (none).
void SseParser::Dispatch(bool unterminated, SseSink& sink) {
  if (has_data_) {
    sink.OnEvent({.type = type_, .data = data_, .id = id_, .unterminated = unterminated});
  }
  data_.clear();
  type_.clear();
  has_data_ = false;
}

}  // namespace rouse::wire
