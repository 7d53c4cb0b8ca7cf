// TextGate: between the tokens' bytes and the client. It lets through text as soon as that is sure:
// whole UTF-8 characters only (tokens may end in the middle of one), and nothing that could still
// become a stop string. Bytes that can't be UTF-8 become U+FFFD. Pure; knows no tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rouse::engine {

class TextGate {
 public:
  // Empty stop strings are ignored.
  explicit TextGate(std::vector<std::string> stop_strings);

  struct Passed {
    std::string text;  // may be empty; valid UTF-8
    // The stop string that is complete now: `text` ends before it, and the gate lets nothing more
    // through. Of several that end in the same call, the one that begins first; of those, the one
    // given first.
    std::optional<std::string> stopped_by;
  };

  // `bytes` in the order in which they were generated.
  Passed Push(std::string_view bytes);

  // At the end of the answer: what was held back. An unfinished character becomes one U+FFFD.
  std::string Finish();

 private:
  // Where in pending_ a beginning of a stop string starts that the end of the text cuts off;
  // pending_.size() when there is none.
  size_t UnsureFrom() const;

  std::vector<std::string> stops_;
  std::string bytes_;    // an unfinished character
  std::string pending_;  // valid text that may still become a stop string
  bool stopped_ = false;
};

}  // namespace rouse::engine
