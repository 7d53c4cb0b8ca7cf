#include "base/terminal_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/code_points.h"
#include "base/strings.h"

namespace rouse {
namespace {

struct Decoded {
  uint32_t code_point = 0;
  size_t bytes = 1;
  bool valid = false;
};

Decoded DecodeAt(std::string_view text, size_t place) {
  const auto byte = [&](size_t offset) { return static_cast<unsigned char>(text[place + offset]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || place + bytes > text.size()) return {};
  uint32_t code_point = lead & (0x7fU >> bytes);
  for (size_t offset = 1; offset < bytes; ++offset) {
    if ((byte(offset) & 0xc0U) != 0x80U) return {};
    code_point = code_point << 6U | (byte(offset) & 0x3fU);
  }
  constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < kSmallest[bytes] || code_point > 0x10ffff || surrogate) return {};
  return {code_point, bytes, true};
}

template <size_t kCount>
bool IsIn(const std::array<CodePointRange, kCount>& ranges, uint32_t code_point) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), code_point,
      [](uint32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

int ColumnsOf(uint32_t code_point) {
  if (code_point < 0x300) return 1;
  if (IsIn(kZeroWidthRanges, code_point)) return 0;
  return IsIn(kWideRanges, code_point) ? 2 : 1;
}

// One character as it may be shown, and where the next one begins.
struct Shown {
  std::string_view bytes;
  int columns = 1;
};

Shown ShownAt(std::string_view text, size_t& place) {
  const Decoded decoded = DecodeAt(text, place);
  const size_t start = place;
  place += decoded.bytes;
  if (!decoded.valid || IsIn(kHarmfulRanges, decoded.code_point)) return {"?", 1};
  return {text.substr(start, decoded.bytes), ColumnsOf(decoded.code_point)};
}

// Behind a colour sequence that begins at `place`, or `place` where none does.
size_t AfterColor(std::string_view text, size_t place) {
  if (!text.substr(place).starts_with("\x1b[")) return place;
  const size_t end = text.find_first_not_of("0123456789;", place + 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : place;
}

// Whether `word` is a unit that belongs to the number before it: "ms", "GB/s,", "%".
bool IsUnit(std::string_view word) {
  constexpr std::array<std::string_view, 15> kUnits = {
      "ns", "us", "\u00b5s", "ms", "s", "min", "h", "d", "B", "kB", "MB", "GB", "TB", "PB", "%"};
  while (!word.empty() && std::string_view(",.;:)").find(word.back()) != std::string_view::npos) {
    word.remove_suffix(1);
  }
  return std::find(kUnits.begin(), kUnits.end(), word.substr(0, word.find('/'))) != kUnits.end();
}

std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string_view word : SplitAt(text, ' ')) {
    if (word.empty()) continue;
    const bool after_number =
        !words.empty() && words.back().back() >= '0' && words.back().back() <= '9';
    if (after_number && IsUnit(word)) {
      words.back() += " " + std::string(word);
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

class Lines {
 public:
  explicit Lines(const WrapOptions& options)
      : options_(options), line_(static_cast<size_t>(options.indent), ' '), used_(options.indent) {}

  void Add(const std::string& word) {
    const int width = DisplayColumns(word);
    if (!empty_ && used_ + 1 + width > options_.columns) Break();
    if (!empty_) {
      line_ += ' ';
      ++used_;
    }
    for (size_t place = 0; place < word.size();) {
      const Shown shown = ShownAt(word, place);
      if (used_ + shown.columns > options_.columns && !empty_) Break();
      line_ += shown.bytes;
      used_ += shown.columns;
      empty_ = false;
    }
  }

  std::string Take() { return out_ + line_ + "\n"; }

 private:
  void Break() {
    out_ += line_ + "\n";
    line_.assign(static_cast<size_t>(options_.hanging), ' ');
    used_ = options_.hanging;
    empty_ = true;
  }

  const WrapOptions& options_;
  std::string out_;
  std::string line_;
  int used_;
  bool empty_ = true;
};

}  // namespace

std::string FitText(std::string_view text, int columns) {
  constexpr std::string_view kDots = "...";
  const int dots = static_cast<int>(kDots.size());
  std::string out;
  size_t cut = 0;  // where `out` must end for the dots to fit behind it
  int width = 0;
  for (size_t place = 0; place < text.size();) {
    const Shown shown = ShownAt(text, place);
    if (width + shown.columns > columns) {
      if (columns < dots) return out;
      out.resize(cut);
      out += kDots;
      return out;
    }
    out += shown.bytes;
    width += shown.columns;
    if (width <= columns - dots) cut = out.size();
  }
  return out;
}

std::string SafeText(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) out += ShownAt(text, place).bytes;
  return out;
}

std::vector<CodePoint> CodePointsOf(std::string_view text) {
  std::vector<CodePoint> points;
  for (size_t place = 0; place < text.size();) {
    const Decoded decoded = DecodeAt(text, place);
    points.push_back({.value = decoded.code_point,
                      .bytes = text.substr(place, decoded.bytes),
                      .valid = decoded.valid,
                      .harmful = !decoded.valid || IsIn(kHarmfulRanges, decoded.code_point)});
    place += decoded.bytes;
  }
  return points;
}

int DisplayColumns(std::string_view text) {
  int width = 0;
  for (size_t place = 0; place < text.size();) {
    const size_t after = AfterColor(text, place);
    if (after != place) {
      place = after;
      continue;
    }
    width += ShownAt(text, place).columns;
  }
  return width;
}

std::string PadRight(std::string text, int columns) {
  const int missing = columns - DisplayColumns(text);
  if (missing > 0) text.append(static_cast<size_t>(missing), ' ');
  return text;
}

std::string PadLeft(std::string text, int columns) {
  const int missing = columns - DisplayColumns(text);
  if (missing > 0) text.insert(0, static_cast<size_t>(missing), ' ');
  return text;
}

std::string WrapText(std::string_view text, const WrapOptions& options) {
  Lines lines(options);
  for (const std::string& word : WordsOf(SafeText(text))) lines.Add(word);
  return lines.Take();
}

std::string ShellQuoted(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-/:=,+@%").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(text);
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (SafeText(text) == text) {
    std::string quoted = "'";
    for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
  }
  std::string quoted = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {
      quoted += {'\\', 'x', kDigits[byte >> 4U], kDigits[byte & 0xfU]};
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace rouse
