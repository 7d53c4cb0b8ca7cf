// Holds back unfinished characters and possible stop strings.
#include "engine/text_gate.h"

#include <algorithm>
#include <utility>

namespace rouse::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Character {
  size_t bytes = 0;         // how many to take
  bool valid = false;       // else they are replaced by one U+FFFD
  bool unfinished = false;  // the text ends within it; bytes is 0
};

// The character at the beginning of `text`, which is not empty. Of a broken one, as many bytes are
// taken as began well (Unicode 15, section 3.9, "maximal subparts").
Character Next(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  size_t length = 0;
  // The second byte's range excludes overlong forms, surrogates and what is above U+10FFFF.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {0, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

}  // namespace

TextGate::TextGate(std::vector<std::string> stop_strings) : stops_(std::move(stop_strings)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

TextGate::Passed TextGate::Push(std::string_view bytes) {
  Passed passed;
  if (stopped_) return passed;
  bytes_ += bytes;
  size_t taken = 0;
  while (taken < bytes_.size()) {
    const std::string_view rest = std::string_view(bytes_).substr(taken);
    const Character next = Next(rest);
    if (next.unfinished) break;
    pending_ += next.valid ? rest.substr(0, next.bytes) : kReplacement;
    taken += next.bytes;
  }
  bytes_.erase(0, taken);

  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = pending_.find(stop);
    if (at < first) {
      first = at;
      passed.stopped_by = stop;
    }
  }
  if (passed.stopped_by.has_value()) {
    stopped_ = true;
    passed.text = pending_.substr(0, first);
    pending_.clear();
    bytes_.clear();
    return passed;
  }
  const size_t sure = UnsureFrom();
  passed.text = pending_.substr(0, sure);
  pending_.erase(0, sure);
  return passed;
}

size_t TextGate::UnsureFrom() const {
  size_t from = pending_.size();
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, pending_.size()); length > 0; --length) {
      if (pending_.size() - length >= from) break;
      if (pending_.ends_with(std::string_view(stop).substr(0, length))) {
        from = pending_.size() - length;
        break;
      }
    }
  }
  // A stop string's beginning may end within a character; never cut there.
  while (from > 0 && from < pending_.size() &&
         (static_cast<unsigned char>(pending_[from]) & 0xC0U) == 0x80) {
    --from;
  }
  return from;
}

std::string TextGate::Finish() {
  if (stopped_) return "";
  std::string rest = std::exchange(pending_, "");
  if (!bytes_.empty()) rest += kReplacement;
  bytes_.clear();
  return rest;
}

}  // namespace rouse::engine
