// LlamaEngine: how memory is given back (sleep, unload), and what is done when nobody waits.
#include <algorithm>
#include <utility>

#include "base/units.h"
#include "engine/host.h"
#include "engine/llama_engine.h"

namespace rouse::engine {

Status LlamaEngine::Sleep() {
  WaitForLoad();
  if (Facts()->tier == Tier::kAsleep) {
    // A load that was stopped, or whoever reads through the mappings, may have brought pages back.
    RETURN_IF_ERROR(DropMappedPages(mappings_));
    EnterTier(Tier::kAsleep);
    return {};
  }
  if (weights_ == nullptr || context_ == nullptr) {
    return Error(ErrorCode::kState, options_.model_path + " is not loaded");
  }
  if (mappings_.empty() || weights_->private_bytes().value_or(1) > 0) {
    return Error(ErrorCode::kUnsupported,
                 "the weights of " + options_.model_path +
                     " are not only mapped, so that they can be unloaded, but not put to sleep");
  }
  RETURN_IF_ERROR(DropMappedPages(mappings_));
  KeepPrefixes();
  if (!context_->DropMemory()) DropContext();
  Publish([](EngineFacts& facts) {
    facts.prefix_tokens = 0;
    facts.prefix_bytes.reset();
    facts.prefix_since = MonoNow();
  });
  EnterTier(Tier::kAsleep);
  return {};
}

void LlamaEngine::Unload() {
  StopLoad();
  if (context_ != nullptr && Facts()->tier == Tier::kReady) KeepPrefixes();
  DropWeights();
}

// The KV of what the context holds goes to the shelf.
void LlamaEngine::KeepPrefixes() {
  if (shelf_.Fits(context_->StateBytes())) {
    KeptPrefix kept = {.tokens = context_->held(), .state = context_->SaveState()};
    if (!kept.state.empty()) shelf_.Put(std::move(kept));
  }
  Publish([&](EngineFacts& facts) {
    facts.kept_prefixes = shelf_.count();
    facts.kept_prefix_bytes = shelf_.bytes();
  });
}

void LlamaEngine::DropPrefixes() {
  shelf_.Clear();
  Publish([](EngineFacts& facts) { facts.kept_prefixes = facts.kept_prefix_bytes = 0; });
}

void LlamaEngine::DropContext() {
  context_ = nullptr;
  Publish([](EngineFacts& facts) {
    const MonoTime now = MonoNow();
    if (facts.context.state != LayerState::kAbsent) facts.context = {LayerState::kAbsent, now, {}};
    if (facts.prefix_tokens != 0) facts.prefix_since = now;
    facts.prefix_tokens = 0;
    facts.prefix_bytes.reset();
    facts.context_tokens.reset();
    facts.threads.reset();
    facts.flash_attention.reset();
    facts.cache_type_k.clear();
    facts.cache_type_v.clear();
    facts.kv_bytes.reset();
    facts.compute_bytes.reset();
  });
}

void LlamaEngine::UnmapWeights() {
  if (std::exchange(mappings_told_, false)) options_.watcher->AboutToUnmap();
  mappings_.clear();
  weights_ = nullptr;
}

void LlamaEngine::DropWeights() {
  DropContext();
  // A tokenizer from a plain load would keep the weights in memory.
  if (tokenizer_ != nullptr && tokenizer_->shares_weights()) tokenizer_ = nullptr;
  UnmapWeights();
  Publish([&](EngineFacts& facts) {
    const MonoTime now = MonoNow();
    if (facts.weights.state != LayerState::kAbsent) facts.weights = {LayerState::kAbsent, now, {}};
    if (tokenizer_ == nullptr && facts.tokenizer.state == LayerState::kReady) {
      facts.tokenizer = {LayerState::kAbsent, now, {}};
    }
    facts.repacked = false;
    facts.weights_mapped_bytes.reset();
    facts.weights_private_bytes.reset();
  });
  EnterTier(Tier::kUnloaded);
}

bool LlamaEngine::WantsRepackedNow(std::optional<int64_t> prompt_tokens) const {
  if (options_.repack != RepackMode::kAuto) return options_.repack == RepackMode::kOn;
  const std::shared_ptr<const EngineFacts> facts = Facts();
  const std::optional<int64_t>& break_even = facts->repack_break_even_tokens;
  if (!break_even.has_value() || !prompt_tokens.has_value() || *prompt_tokens < *break_even) {
    return false;
  }
  return CheckRoomForRepacked(facts->weights_bytes.value_or(0)).ok();
}

Result<std::string> LlamaEngine::Improve(std::stop_token stop) {
  WaitForLoad();
  if (stop.stop_requested()) return Error(ErrorCode::kInterrupted, "stopped");
  if (!leading_done_ && file_ != nullptr &&
      (options_.keep_leading_bytes > 0 || options_.keep_leading_ratio > 0)) {
    return LockLeading(stop);
  }
  if (WantsRepackedLater()) return Repack(stop);
  return std::string();
}

Result<std::string> LlamaEngine::LockLeading(const std::stop_token& stop) {
  const int64_t bytes =
      options_.keep_leading_bytes > 0
          ? std::min(options_.keep_leading_bytes, file_->bytes)
          : static_cast<int64_t>(options_.keep_leading_ratio * static_cast<double>(file_->bytes));
  leading_done_ = true;  // unless it is stopped, once a load is enough
  if (!leading_.has_value()) {
    const std::optional<int64_t> available = AvailableMemoryBytes(options_.system_root);
    if (available.has_value() && bytes > *available) {
      const std::string problem = FormatBytes(bytes) + " were to be kept in memory, and " +
                                  FormatBytes(*available) + " are available; see --keep-leading";
      Publish([&](EngineFacts& facts) { facts.locked_problem = problem; });
      return Error(ErrorCode::kExhausted, problem);
    }
    leading_.emplace(file_->parts, bytes);
  }
  ASSIGN_OR_RETURN(const bool complete, leading_->LockOn(stop));
  Publish([&](EngineFacts& facts) {
    facts.locked_bytes = leading_->locked_bytes();
    facts.locked_problem = leading_->problem();
  });
  if (!complete) {
    leading_done_ = false;
    return Error(ErrorCode::kInterrupted, "locking the leading layers was stopped");
  }
  std::string told = "locked " + FormatBytes(leading_->locked_bytes()) + " of the leading layers";
  if (!leading_->problem().empty())
    told += " of " + FormatBytes(bytes) + ": " + leading_->problem();
  return told;
}

}  // namespace rouse::engine
