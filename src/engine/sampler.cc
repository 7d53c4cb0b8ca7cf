// Sampling chain over llama.cpp's samplers, in llama-server's order: top_k, top_p, min_p,
// temperature, draw.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "engine/llama_runtime.h"
#include "llama.h"

namespace rouse::engine {
namespace {

Error OutOfRange(const char* field, const char* range) {
  return {ErrorCode::kUsage, std::string(field) + " must be " + range};
}

Status Check(const SamplingParams& params) {
  if (!(params.temperature >= 0 && params.temperature <= 1e6)) {
    return OutOfRange("temperature", "at least 0");
  }
  if (!(params.top_p >= 0 && params.top_p <= 1)) return OutOfRange("top_p", "between 0 and 1");
  if (!(params.min_p >= 0 && params.min_p <= 1)) return OutOfRange("min_p", "between 0 and 1");
  if (params.top_k < 0 || params.top_k > std::numeric_limits<int32_t>::max()) {
    return OutOfRange("top_k", "at least 0 (0 = off)");
  }
  return {};
}

Result<Token> Highest(std::span<const float> logits, const std::vector<Token>& banned) {
  size_t best = logits.size();
  float highest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > highest)) continue;
    if (std::binary_search(banned.begin(), banned.end(), static_cast<Token>(i))) continue;
    best = i;
    highest = logits[i];
  }
  if (best == logits.size()) {
    return Error(ErrorCode::kInternal, "the model's output holds no usable number (all NaN)");
  }
  return static_cast<Token>(best);
}

}  // namespace

struct Sampler::Chain {
  llama_sampler* chain = nullptr;
  std::vector<llama_token_data> candidates;
  ~Chain() { llama_sampler_free(chain); }
};

Sampler::Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

Result<Sampler> Sampler::Make(const SamplingParams& params, std::vector<Token> banned) {
  RETURN_IF_ERROR(Check(params));
  Sampler sampler;
  std::sort(banned.begin(), banned.end());
  sampler.banned_ = std::move(banned);
  sampler.seed_ = params.seed.has_value() ? *params.seed : std::random_device{}();
  if (params.temperature == 0) return sampler;

  sampler.chain_ = std::make_unique<Chain>();
  llama_sampler* chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
  sampler.chain_->chain = chain;
  if (params.top_k > 0) {
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(static_cast<int32_t>(params.top_k)));
  }
  if (params.top_p < 1) {
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(static_cast<float>(params.top_p), 1));
  }
  if (params.min_p > 0) {
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(static_cast<float>(params.min_p), 1));
  }
  llama_sampler_chain_add(chain, llama_sampler_init_temp(static_cast<float>(params.temperature)));
  // The library takes this one value for "draw a seed": then the same seed would give different
  // answers.
  const uint32_t seed = sampler.seed_ == LLAMA_DEFAULT_SEED ? 0 : sampler.seed_;
  llama_sampler_chain_add(chain, llama_sampler_init_dist(seed));
  return sampler;
}

Result<Token> Sampler::Sample(std::span<const float> logits) {
  if (chain_ == nullptr) return Highest(logits, banned_);
  std::vector<llama_token_data>& candidates = chain_->candidates;
  candidates.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates[i] = {static_cast<llama_token>(i), logits[i], 0};
  }
  for (const Token token : banned_) {
    candidates[static_cast<size_t>(token)].logit = -std::numeric_limits<float>::infinity();
  }
  llama_token_data_array array = {candidates.data(), candidates.size(), -1, false};
  try {
    const AbortGuard guard;
    llama_sampler_apply(chain_->chain, &array);
  } catch (const std::exception& e) {
    return Error(ErrorCode::kInternal, std::string("sampling failed: ") + e.what());
  }
  if (array.selected < 0 || static_cast<size_t>(array.selected) >= array.size) {
    return Error(ErrorCode::kInternal, "sampling chose no token");
  }
  const Token token = array.data[array.selected].id;
  llama_sampler_accept(chain_->chain, token);
  return token;
}

}  // namespace rouse::engine
