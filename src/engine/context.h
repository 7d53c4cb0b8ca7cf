// Context: KV cache, compute buffers and the forward pass over one sequence of tokens. It knows
// which tokens its KV cache holds. Private to src/engine; one thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/model.h"

struct ggml_threadpool;
struct llama_context;

namespace rouse::engine {

class LogCollector;

// Whether the engine can keep keys or values in this type ("f16", "q8_0", ...).
bool IsCacheType(std::string_view name);

class Context {
 public:
  // `weights` must outlive it. kExhausted (names --context) when the KV cache does not fit into
  // the memory that is available: estimated first, because the kernel would rather kill the
  // process than refuse. kUsage for a type or flag that this model's shape does not allow.
  static Result<std::unique_ptr<Context>> Create(const Weights& weights,
                                                 const EngineOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int64_t tokens_limit() const { return tokens_limit_; }
  int threads() const { return threads_; }
  std::optional<int64_t> kv_bytes() const { return kv_bytes_; }
  std::optional<int64_t> compute_bytes() const { return compute_bytes_; }
  // As the library made it; empty where it does not tell.
  std::optional<bool> flash_attention() const { return flash_attention_; }
  const std::string& cache_type_k() const { return cache_type_k_; }
  const std::string& cache_type_v() const { return cache_type_v_; }

  // The tokens whose KV is held, in order.
  const std::vector<Token>& held() const { return held_; }

  // Keeps the KV of the first `count` held tokens. Where the model's state can't go back
  // (recurrent ones, some sliding windows), everything is dropped. Returns how many are held then.
  int64_t KeepPrefix(int64_t count);
  void Clear();

  // What is held, in the runtime's own form; for RestoreState() of a context of the same weights
  // and options. Empty on failure. About 1 GB/s.
  std::vector<std::byte> SaveState() const;
  int64_t StateBytes() const;
  // Replaces what is held. False: the runtime refused; nothing is held then.
  bool RestoreState(std::span<const Token> tokens, std::span<const std::byte> state);

  // Gives the memory of KV cache and compute buffers back to the kernel; what was held is gone, the
  // context stays usable. False where the library can't (built without rouse's edits).
  bool DropMemory();

  // Computes `tokens` after the held ones, in parts; they must fit. False: `stop` was requested;
  // what was computed by then is held. On an error everything is dropped.
  Result<bool> Decode(std::span<const Token> tokens, std::stop_token stop);

  // Of the last token of the last complete Decode(): one per token of the vocabulary. Valid until
  // the next call.
  Result<std::span<const float>> Logits();

 private:
  Context() = default;
  void AttachThreads();
  void NoteMemory(const LogCollector& log);
  Result<bool> DecodePart(std::span<const Token> part, bool wants_logits);

  llama_context* context_ = nullptr;
  ggml_threadpool* pool_ = nullptr;
  int64_t tokens_limit_ = 0;
  int64_t part_tokens_ = 0;
  int64_t vocabulary_tokens_ = 0;
  int threads_ = 1;
  std::optional<int64_t> kv_bytes_;
  std::optional<int64_t> compute_bytes_;
  std::optional<bool> flash_attention_;
  std::string cache_type_k_;
  std::string cache_type_v_;
  uint64_t memory_mark_ = 0;  // of its buffers
  std::vector<Token> held_;
  std::stop_token stop_;
};

}  // namespace rouse::engine
