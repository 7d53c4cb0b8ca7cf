// A hash over all that the engine's library knows of a vocabulary: tokens, scores, attributes,
// pieces, merges, special ids, and how it splits a text in many scripts. For the test that holds
// rouse's edits of the library against the library without them.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace rouse::engine {

// Loads the vocabulary of a file in the plain way.
Result<std::string> HashVocabulary(const std::string& path);

// A text that every vocabulary has something to do with: sentences in many languages, code,
// numbers, blanks, special tokens, and random characters of all planes. About 12 KB.
const std::string& HashedText();

}  // namespace rouse::engine
