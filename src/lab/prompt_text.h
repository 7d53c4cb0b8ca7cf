// Prompts of a wanted length: English text that is made up from a grammar of our own, always the
// same, and the search for the number of words that a server counts as so many tokens. No server's
// tokenizer is known here; the server is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rouse::lab {

// The first `words` words of an endless text: sentences of ordinary English whose words and order
// do not repeat soon, so that no tokenizer finds them unusually cheap or dear.
std::string PromptText(int64_t words);

// Text of that many words with the question at its end; the question alone for 0.
std::string LongPrompt(int64_t words, std::string_view question);

// How far a prompt may be from the wanted length: 1 %, at least 4 tokens.
int64_t PromptTolerance(int64_t wanted_tokens);

// What is known of the lengths so far. One per target and question.
class PromptLengths {
 public:
  // Tokens of the whole prompt with that many words of text, as the server counts them; empty when
  // it does not tell.
  using Count = std::function<Result<std::optional<int64_t>>(int64_t words)>;

  struct Found {
    int64_t words = 0;
    std::optional<int64_t> tokens;  // as counted; empty: the server does not tell, and the words
                                    // are what English needs on average
  };
  // Asks at most eight times, once when other lengths were found before. An error is the count's
  // own; kUsage when even the question alone is longer.
  Result<Found> Find(int64_t wanted_tokens, const Count& count);

 private:
  std::map<int64_t, int64_t> counted_;  // words -> tokens
  std::map<int64_t, Found> found_;
};

}  // namespace rouse::lab
