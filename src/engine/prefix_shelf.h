// PrefixShelf: the KV of some prefixes in main memory, outside of any context, the latest used
// within a bound. Private to src/engine; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace rouse::engine {

struct KeptPrefix {
  std::vector<Token> tokens = {};
  std::vector<std::byte> state = {};  // as the runtime wrote it, of exactly these tokens
};

class PrefixShelf {
 public:
  // 0 = keeps none.
  explicit PrefixShelf(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Whether a prefix whose state has so many bytes would be kept.
  bool Fits(int64_t state_bytes) const { return state_bytes > 0 && state_bytes <= limit_bytes_; }

  // Puts it in front; one that is a beginning of it, or the same, is superseded, and the oldest go
  // until the rest fits. Dropped at once when it doesn't fit.
  void Put(KeptPrefix prefix);

  // The one with the longest common beginning with `prompt`, moved to the front; null when none
  // shares more than `at_least` tokens. Valid until the next call.
  const KeptPrefix* Find(std::span<const Token> prompt, int64_t at_least);

  void Clear() { kept_.clear(); }

  int64_t count() const { return std::ssize(kept_); }
  int64_t bytes() const;

 private:
  int64_t limit_bytes_;
  std::list<KeptPrefix> kept_;  // latest first
};

// How many tokens two sequences begin with in common.
int64_t CommonPrefix(std::span<const Token> a, std::span<const Token> b);

}  // namespace rouse::engine
