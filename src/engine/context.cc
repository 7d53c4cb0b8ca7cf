// Context: KV cache and forward pass.
#include "engine/context.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/strings.h"
#include "base/units.h"
#include "engine/host.h"
#include "engine/llama_runtime.h"
#include "ggml-cpu.h"
#include "llama.h"
#if ROUSE_ENGINE_EDITS
#include "rouse-edits.h"
#endif

namespace rouse::engine {
namespace {

// While it lives, buffers that the library allocates on this thread belong to one context.
class BufferMark {
 public:
#if ROUSE_ENGINE_EDITS
  explicit BufferMark(uint64_t mark) { rouse_mark_buffers(mark); }
  ~BufferMark() { rouse_mark_buffers(0); }
#else
  explicit BufferMark(uint64_t /*mark*/) {}
  ~BufferMark() = default;
#endif
  BufferMark(const BufferMark&) = delete;
  BufferMark& operator=(const BufferMark&) = delete;
};

uint64_t NewMark() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

struct CacheType {
  std::string_view name;
  ggml_type type;
};
constexpr CacheType kCacheTypes[] = {
    {"f16", GGML_TYPE_F16},   {"f32", GGML_TYPE_F32},   {"bf16", GGML_TYPE_BF16},
    {"q8_0", GGML_TYPE_Q8_0}, {"q4_0", GGML_TYPE_Q4_0}, {"q4_1", GGML_TYPE_Q4_1},
    {"q5_0", GGML_TYPE_Q5_0}, {"q5_1", GGML_TYPE_Q5_1}, {"iq4_nl", GGML_TYPE_IQ4_NL},
};

ggml_type TypeByName(std::string_view name) {
  for (const CacheType& entry : kCacheTypes) {
    if (entry.name == name) return entry.type;
  }
  CHECK(false);  // CheckOptions() saw to it
}

llama_flash_attn_type FlashType(FlashAttention mode) {
  switch (mode) {
    case FlashAttention::kAuto:
      return LLAMA_FLASH_ATTN_TYPE_AUTO;
    case FlashAttention::kOn:
      return LLAMA_FLASH_ATTN_TYPE_ENABLED;
    case FlashAttention::kOff:
      return LLAMA_FLASH_ATTN_TYPE_DISABLED;
  }
  CHECK(false);
}

std::optional<int64_t> MetaInt(const llama_model* model, const std::string& key) {
  std::array<char, 64> text{};
  if (llama_model_meta_val_str(model, key.c_str(), text.data(), text.size()) < 0) {
    return std::nullopt;
  }
  return ParseInt64(text.data());
}

// Bytes of a plain KV cache: layers x tokens x KV heads x (key + value length). nullopt for models
// that keep something else (compressed latents, recurrent state, windows).
std::optional<int64_t> EstimateKvBytes(const llama_model* model, bool recurrent, int64_t window,
                                       int64_t tokens, const EngineOptions& options) {
  std::array<char, 64> arch{};
  if (llama_model_meta_val_str(model, "general.architecture", arch.data(), arch.size()) < 0) {
    return std::nullopt;
  }
  const std::string prefix = std::string(arch.data()) + ".attention.";
  if (recurrent || window > 0 || MetaInt(model, prefix + "kv_lora_rank")) return std::nullopt;
  const int64_t heads = llama_model_n_head(model);
  if (heads <= 0) return std::nullopt;
  const int64_t default_length = llama_model_n_embd(model) / heads;
  const auto row_bytes = [&](const char* key, const std::string& type) {
    const int64_t length =
        MetaInt(model, prefix + key).value_or(default_length) * llama_model_n_head_kv(model);
    const ggml_type t = TypeByName(type);
    return static_cast<int64_t>(ggml_type_size(t)) * length / ggml_blck_size(t);
  };
  const int64_t token_bytes = row_bytes("key_length", options.cache_type_k) +
                              row_bytes("value_length", options.cache_type_v);
  return llama_model_n_layer(model) * token_bytes * tokens;
}

}  // namespace

bool IsCacheType(std::string_view name) {
  return std::any_of(std::begin(kCacheTypes), std::end(kCacheTypes),
                     [name](const CacheType& entry) { return entry.name == name; });
}

Result<std::unique_ptr<Context>> Context::Create(const Weights& weights,
                                                 const EngineOptions& options) {
  llama_model* model = weights.model_.get();
  const int64_t tokens =
      options.context_tokens > 0 ? options.context_tokens : weights.trained_context_tokens();
  if (tokens <= 0) {
    return Error(ErrorCode::kUsage,
                 weights.path() + " does not say its context length; give it by --context");
  }
  const std::optional<int64_t> estimate = EstimateKvBytes(
      model, weights.state_is_recurrent(), weights.sliding_window_tokens(), tokens, options);
  const std::optional<int64_t> available = AvailableMemoryBytes(options.system_root);
  if (estimate && available && *estimate > *available && options.gpu_layers == 0) {
    return Error(ErrorCode::kExhausted,
                 "a context of " + std::to_string(tokens) + " tokens needs " +
                     FormatBytes(*estimate) + " of memory for its KV cache, and " +
                     FormatBytes(*available) + " are available; use a smaller --context");
  }

  std::unique_ptr<Context> context(new Context());
  const BufferMark mark(context->memory_mark_ = NewMark());
  context->threads_ = options.threads > 0 ? options.threads : UsableCores();
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(tokens);
  params.n_batch = static_cast<uint32_t>(std::min(options.batch_tokens, tokens));
  params.n_ubatch = params.n_batch;
  params.n_seq_max = 1;
  // Only the last token's logits are ever asked for: no room for those of a whole part.
  params.n_outputs_max = 1;
  params.n_threads = context->threads_;
  params.n_threads_batch = context->threads_;
  params.flash_attn_type = FlashType(options.flash_attention);
  params.type_k = TypeByName(options.cache_type_k);
  params.type_v = TypeByName(options.cache_type_v);
  params.no_perf = true;
  params.abort_callback = [](void* user) {
    return static_cast<const Context*>(user)->stop_.stop_requested();
  };
  params.abort_callback_data = context.get();

  const LogCollector log;
  std::string reason;
  try {
    const AbortGuard guard;
    context->context_ = llama_init_from_model(model, params);
    reason = log.Reason("out of memory");
  } catch (const std::exception& e) {
    reason = e.what();
  }
  if (context->context_ == nullptr) {
    const bool memory =
        reason.find("alloc") != std::string::npos || reason.find("memory") != std::string::npos;
    return Error(memory ? ErrorCode::kExhausted : ErrorCode::kUsage,
                 "cannot make a context of " + std::to_string(tokens) + " tokens for " +
                     weights.path() + ": " + reason + (memory ? "; use a smaller --context" : ""));
  }
  context->AttachThreads();
  // The library rounds up.
  context->tokens_limit_ = llama_n_ctx(context->context_);
  context->part_tokens_ = llama_n_batch(context->context_);
  context->vocabulary_tokens_ = weights.vocabulary_tokens();
  context->NoteMemory(log);
  return context;
}

// What the library said while it made the context.
void Context::NoteMemory(const LogCollector& log) {
  kv_bytes_ = log.BufferBytes("KV");
  if (const auto recurrent = log.BufferBytes("RS")) {
    kv_bytes_ = kv_bytes_.value_or(0) + *recurrent;
  }
  flash_attention_ = log.FlashAttention();
  cache_type_k_ = log.CacheType('K');
  cache_type_v_ = log.CacheType('V');
  compute_bytes_ = log.BufferBytes("compute");
  if (const auto output = log.BufferBytes("output")) {
    compute_bytes_ = compute_bytes_.value_or(0) + *output;
  }
}

Context::~Context() {
  llama_free(context_);
  ggml_threadpool_free(pool_);
}

// Threads that live as long as the context: the library would make new ones for every graph. Not
// where it was built with OpenMP (without rouse's edits), which has a pool of its own.
void Context::AttachThreads() {
#if ROUSE_ENGINE_EDITS
  ggml_threadpool_params params = ggml_threadpool_params_default(threads_);
  pool_ = ggml_threadpool_new(&params);
  llama_attach_threadpool(context_, pool_, pool_);
#endif
}

void Context::Clear() {
  llama_memory_clear(llama_get_memory(context_), /*data=*/false);
  held_.clear();
}

int64_t Context::StateBytes() const {
  return held_.empty() ? 0 : static_cast<int64_t>(llama_state_seq_get_size(context_, 0));
}

std::vector<std::byte> Context::SaveState() const {
  std::vector<std::byte> state(static_cast<size_t>(StateBytes()));
  if (state.empty()) return state;
  const LogCollector log;
  try {
    const AbortGuard guard;
    const size_t written = llama_state_seq_get_data(
        context_, reinterpret_cast<uint8_t*>(state.data()), state.size(), 0);
    state.resize(written);
  } catch (const std::exception&) {
    state.clear();
  }
  return state;
}

bool Context::RestoreState(std::span<const Token> tokens, std::span<const std::byte> state) {
  Clear();
  if (std::ssize(tokens) > tokens_limit_) return false;
  const LogCollector log;
  bool restored = false;
  try {
    const AbortGuard guard;
    restored = llama_state_seq_set_data(context_, reinterpret_cast<const uint8_t*>(state.data()),
                                        state.size(), 0) == state.size();
  } catch (const std::exception&) {
    restored = false;
  }
  if (!restored) {
    Clear();
    return false;
  }
  held_.assign(tokens.begin(), tokens.end());
  return true;
}

bool Context::DropMemory() {
  Clear();
#if ROUSE_ENGINE_EDITS
  rouse_drop_buffers(memory_mark_);
  return true;
#else
  return false;
#endif
}

int64_t Context::KeepPrefix(int64_t count) {
  CHECK(count >= 0 && count <= std::ssize(held_));
  if (count == 0) {
    Clear();
    return 0;
  }
  llama_memory_t memory = llama_get_memory(context_);
  if (count < std::ssize(held_)) {
    if (!llama_memory_seq_rm(memory, 0, static_cast<llama_pos>(count), -1)) {
      Clear();
      return 0;
    }
    held_.resize(static_cast<size_t>(count));
    // A sliding window that has thrown away its beginning can't go back.
    if (llama_memory_seq_pos_min(memory, 0) > 0) {
      Clear();
      return 0;
    }
  }
  return count;
}

Result<bool> Context::Decode(std::span<const Token> tokens, std::stop_token stop) {
  CHECK(!tokens.empty());
  CHECK(std::ssize(held_) + std::ssize(tokens) <= tokens_limit_);
  stop_ = std::move(stop);
  const BufferMark mark(memory_mark_);  // a larger graph may need larger buffers
  while (!tokens.empty()) {
    if (stop_.stop_requested()) return false;
    const auto part = tokens.first(std::min(tokens.size(), static_cast<size_t>(part_tokens_)));
    tokens = tokens.subspan(part.size());
    ASSIGN_OR_RETURN(const bool complete, DecodePart(part, /*wants_logits=*/tokens.empty()));
    if (!complete) return false;
  }
  return true;
}

Result<bool> Context::DecodePart(std::span<const Token> part, bool wants_logits) {
  const size_t count = part.size();
  std::vector<Token> ids(part.begin(), part.end());
  std::vector<llama_pos> positions(count);
  for (size_t i = 0; i < count; ++i) positions[i] = static_cast<llama_pos>(held_.size() + i);
  std::vector<int8_t> outputs(count, 0);
  if (wants_logits) outputs.back() = 1;
  llama_batch batch = {};
  batch.n_tokens = static_cast<int32_t>(count);
  batch.token = ids.data();
  batch.pos = positions.data();
  batch.logits = outputs.data();

  const LogCollector log;
  std::string reason;
  int32_t status = 0;
  try {
    const AbortGuard guard;
    status = llama_decode(context_, batch);
    if (status == 0) llama_synchronize(context_);
  } catch (const std::exception& e) {
    status = -100;
    reason = e.what();
  }
  if (status == 0) {
    held_.insert(held_.end(), part.begin(), part.end());
    return true;
  }
  if (status == 2) {
    // Of an aborted part some may have gone into the cache; what was before it is sound.
    const int64_t sound = std::ssize(held_);
    if (sound == 0 ||
        !llama_memory_seq_rm(llama_get_memory(context_), 0, static_cast<llama_pos>(sound), -1)) {
      Clear();
    }
    return false;
  }
  Clear();
  if (status == 1) {
    return Error(ErrorCode::kExhausted,
                 "the context of " + std::to_string(tokens_limit_) +
                     " tokens has no room for the request; use a larger --context");
  }
  if (reason.empty()) reason = log.Reason("status " + std::to_string(status));
  return Error(ErrorCode::kInternal, "computing failed: " + reason);
}

Result<std::span<const float>> Context::Logits() {
  const LogCollector log;
  const float* logits = nullptr;
  try {
    const AbortGuard guard;
    logits = llama_get_logits_ith(context_, -1);
  } catch (const std::exception& e) {
    return Error(ErrorCode::kInternal, std::string("the model gave no output: ") + e.what());
  }
  if (logits == nullptr) {
    return Error(ErrorCode::kInternal, "the model gave no output: " + log.Reason("no logits"));
  }
  return std::span<const float>(logits, static_cast<size_t>(vocabulary_tokens_));
}

}  // namespace rouse::engine
