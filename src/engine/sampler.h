// Sampler: from logits to the next token. Private to src/engine.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

struct llama_sampler;  // NOLINT(readability-identifier-naming): the library's name

namespace rouse::engine {

class Sampler {
 public:
  // kUsage when a value is out of its range (the message names the field of the API). `banned`
  // tokens are never chosen. No sampler here looks at a vocabulary; one that does (grammar, DRY)
  // must get the tokenizer's, never the weights'.
  static Result<Sampler> Make(const SamplingParams& params, std::vector<Token> banned);

  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

  // `logits`: one per token of the vocabulary. Greedy: the highest, of equal ones the first.
  Result<Token> Sample(std::span<const float> logits);

  uint32_t seed() const { return seed_; }

 private:
  struct Chain;
  Sampler();
  std::unique_ptr<Chain> chain_;  // null when greedy
  std::vector<Token> banned_;     // sorted
  uint32_t seed_ = 0;
};

}  // namespace rouse::engine
