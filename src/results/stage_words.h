// What each stage is called in a sentence or a table. The only list of these words: explanations,
// the terminal and the page take theirs from here; StageName (attempt.h) is the one for programs.
#pragma once

#include <string_view>

#include "results/attempt.h"

namespace rouse::results {

std::string_view StageWords(Stage stage);  // "queue", "process start", "tokenizer", ...

}  // namespace rouse::results
