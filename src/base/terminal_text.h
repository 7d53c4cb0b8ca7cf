// Text for a terminal: what a foreign string may do there (nothing), how many columns it takes, and
// where a line breaks. Names of conditions, targets and models come from plans, imports and
// servers; they pass through here before a person sees them. Pure; UTF-8 in, UTF-8 out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rouse {

// `text` with control characters (a line break too), invalid UTF-8, private and bidirectional
// characters as '?', cut to `columns` display columns ("..." at its end when it was cut).
std::string FitText(std::string_view text, int columns);

// The same, never cut.
std::string SafeText(std::string_view text);

// One character of a text, for those who write it in another way.
struct CodePoint {
  uint32_t value = 0;
  std::string_view bytes;  // of `text`
  bool valid = false;      // UTF-8; else one byte
  bool harmful = false;    // what FitText replaces
};
std::vector<CodePoint> CodePointsOf(std::string_view text);

// Display columns of harmless text: two for East Asian wide forms, none for combining marks. Colour
// sequences ("\x1b[...m") count nothing.
int DisplayColumns(std::string_view text);

// Blanks up to `columns`, behind or before. Longer text stays as it is.
std::string PadRight(std::string text, int columns);
std::string PadLeft(std::string text, int columns);

struct WrapOptions {
  int columns = 80;
  int indent = 0;   // blanks before the first line
  int hanging = 0;  // blanks before the others
};

// SafeText broken at blanks, each line with "\n" at its end and never wider than `columns`. A
// number stays with its unit ("24.1 ms"), and a word that is too long by itself is broken where the
// line ends, since cutting would lose it. Lines of no text are one empty line.
std::string WrapText(std::string_view text, const WrapOptions& options);

// `text` as one word of a command to paste: quoted when it has to be, and with control characters
// as
// $'\x1b' (bash, zsh, ksh), so that printing it does nothing to the terminal.
std::string ShellQuoted(std::string_view text);

}  // namespace rouse
