#include "engine/prefix_shelf.h"

#include <algorithm>
#include <utility>

namespace rouse::engine {
namespace {

int64_t BytesOf(const KeptPrefix& prefix) {
  return std::ssize(prefix.state) + std::ssize(prefix.tokens) * int64_t{sizeof(Token)};
}

}  // namespace

int64_t CommonPrefix(std::span<const Token> a, std::span<const Token> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

void PrefixShelf::Put(KeptPrefix prefix) {
  kept_.remove_if([&](const KeptPrefix& other) {
    return CommonPrefix(other.tokens, prefix.tokens) == std::ssize(other.tokens);
  });
  if (!Fits(BytesOf(prefix))) return;
  kept_.push_front(std::move(prefix));
  while (bytes() > limit_bytes_) kept_.pop_back();
}

const KeptPrefix* PrefixShelf::Find(std::span<const Token> prompt, int64_t at_least) {
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    const int64_t common = CommonPrefix(it->tokens, prompt);
    if (common <= at_least) continue;
    at_least = common;
    best = it;
  }
  if (best == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, best);
  return &kept_.front();
}

int64_t PrefixShelf::bytes() const {
  int64_t sum = 0;
  for (const KeptPrefix& prefix : kept_) sum += BytesOf(prefix);
  return sum;
}

}  // namespace rouse::engine
