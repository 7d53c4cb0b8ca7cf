// FitText (declared in terminal.h): foreign text, made fit for a terminal.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "report/terminal.h"

namespace rouse::report {
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
    if ((byte(offset) & 0xc0U) != 0x80) return {};
    code_point = code_point << 6U | (byte(offset) & 0x3fU);
  }
  constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < kSmallest[bytes] || code_point > 0x10ffff || surrogate) return {};
  return {code_point, bytes, true};
}

struct Range {
  uint32_t first;
  uint32_t last;
};

template <size_t kCount>
bool IsIn(const std::array<Range, kCount>& ranges, uint32_t code_point) {
  for (const Range& range : ranges) {
    if (code_point >= range.first && code_point <= range.last) return true;
  }
  return false;
}

// Controls, line separators, and what reorders or hides the text around it.
constexpr std::array<Range, 9> kHarmful = {{{0x0, 0x1f},
                                            {0x7f, 0x9f},
                                            {0x61c, 0x61c},
                                            {0x200b, 0x200f},
                                            {0x2028, 0x202e},
                                            {0x2060, 0x2069},
                                            {0xfeff, 0xfeff},
                                            {0xfff9, 0xfffb},
                                            {0xe0000, 0xe007f}}};

// Combining marks, variation selectors: no columns of their own.
constexpr std::array<Range, 5> kZeroWidth = {
    {{0x300, 0x36f}, {0x483, 0x489}, {0x1ab0, 0x1aff}, {0x20d0, 0x20f0}, {0xfe00, 0xfe0f}}};

// East Asian wide forms and pictographs: two columns (Unicode Standard Annex 11, in blocks).
constexpr std::array<Range, 9> kWide = {{{0x1100, 0x115f},
                                         {0x2e80, 0x303e},
                                         {0x3041, 0xa4cf},
                                         {0xac00, 0xd7a3},
                                         {0xf900, 0xfaff},
                                         {0xfe30, 0xfe6f},
                                         {0xff00, 0xff60},
                                         {0x1f300, 0x1faff},
                                         {0x20000, 0x3fffd}}};

int ColumnsOf(uint32_t code_point) {
  if (IsIn(kZeroWidth, code_point)) return 0;
  return IsIn(kWide, code_point) ? 2 : 1;
}

}  // namespace

std::string FitText(std::string_view text, int columns) {
  constexpr std::string_view kDots = "...";
  const int dots = static_cast<int>(kDots.size());
  std::string out;
  size_t cut = 0;  // where `out` must end for the dots to fit behind it
  int width = 0;
  for (size_t place = 0; place < text.size();) {
    const Decoded decoded = DecodeAt(text, place);
    const bool harmful = !decoded.valid || IsIn(kHarmful, decoded.code_point);
    const int wide = harmful ? 1 : ColumnsOf(decoded.code_point);
    if (width + wide > columns) {
      if (columns < dots) return out;
      out.resize(cut);
      out += kDots;
      return out;
    }
    if (harmful) {
      out += '?';
    } else {
      out += text.substr(place, decoded.bytes);
    }
    width += wide;
    if (width <= columns - dots) cut = out.size();
    place += decoded.bytes;
  }
  return out;
}

}  // namespace rouse::report
