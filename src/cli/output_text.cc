#include "cli/output_text.h"

#include <unistd.h>

#include "base/strings.h"
#include "base/terminal_text.h"

namespace rouse::cli {

std::string SafeLines(std::string_view text) {
  std::string out;
  for (const std::string_view line : SplitAt(text, '\n')) out += SafeText(line) + '\n';
  if (!out.empty()) out.pop_back();
  return out;
}

int StdoutColumns(const CommonFlags& flags) { return TerminalOf(flags, STDOUT_FILENO).columns; }

std::string Labelled(std::string_view label, std::string_view text, int label_columns,
                     int columns) {
  const int indent = 2 + label_columns;
  return "  " + PadRight(SafeText(label), label_columns) +
         WrapText(text, {.columns = columns, .indent = indent, .hanging = indent})
             .substr(static_cast<size_t>(indent));
}

std::string Headed(std::string_view file, std::string_view text, int columns) {
  const std::string head = SafeText(file) + ":";
  const std::string line = head + " " + SafeText(text);
  if (DisplayColumns(line) <= columns) return line + "\n";
  return head + "\n" + WrapText(text, {.columns = columns, .indent = 2, .hanging = 2});
}

}  // namespace rouse::cli
