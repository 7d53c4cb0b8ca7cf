// JSON written as text at once, for objects of which a report has ten thousand: building a tree of
// values first costs ten times as much. No reader, and no check that names are unique. For this
// folder only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rouse::results {

// One line. Every value of an object needs a Key before it; the caller closes what it opens. Bytes
// that are not UTF-8 come out as U+FFFD, numbers that are not finite as null.
class JsonText {
 public:
  void BeginObject() { Open('{'); }
  void EndObject() { text_ += '}'; }
  void BeginArray() { Open('['); }
  void EndArray() { text_ += ']'; }
  void Key(std::string_view name);

  void Null();
  void Truth(bool value);
  void Int(int64_t value);
  void Real(double value);
  void Text(std::string_view value);
  // JSON as it stands; it must be one value, without line breaks.
  void Raw(std::string_view json);

  void IntOrNull(const std::optional<int64_t>& value) { value ? Int(*value) : Null(); }
  void TruthOrNull(const std::optional<bool>& value) { value ? Truth(*value) : Null(); }
  // null for an empty text.
  void TextOrNull(std::string_view value) { value.empty() ? Null() : Text(value); }

  std::string Take() { return std::move(text_); }

 private:
  // A comma, unless this is the first value of its parent or stands behind a key: text ends in
  // these three letters nowhere else, as strings end in a quote.
  void Separate() {
    if (text_.empty() || text_.back() == '{' || text_.back() == '[' || text_.back() == ':') return;
    text_ += ',';
  }
  void Open(char bracket) {
    Separate();
    text_ += bracket;
  }

  std::string text_;
};

}  // namespace rouse::results
