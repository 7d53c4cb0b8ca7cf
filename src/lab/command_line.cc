#include "lab/command_line.h"

namespace rouse::lab {

Result<std::vector<std::string>> SplitCommand(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  const auto fail = [&](const std::string& what) {
    return Error(ErrorCode::kUsage, "command \"" + std::string(text) + "\": " + what);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '\\' && quote != '\'') {
      if (++i == text.size()) return fail("ends with a backslash");
      word += text[i];
      in_word = true;
    } else if (quote != 0) {
      if (letter == quote) {
        quote = 0;
      } else {
        word += letter;
      }
    } else if (letter == '\'' || letter == '"') {
      quote = letter;
      in_word = true;
    } else if (letter == ' ' || letter == '\t' || letter == '\n') {
      if (in_word) words.push_back(std::exchange(word, ""));
      in_word = false;
    } else {
      word += letter;
      in_word = true;
    }
  }
  if (quote != 0) return fail("has an open quote");
  if (in_word) words.push_back(word);
  if (words.empty()) return fail("is empty");
  return words;
}

std::string ReplaceAll(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace rouse::lab
