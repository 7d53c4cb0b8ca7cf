// Engine: the seam between the server and a model runtime. One model file; load, unload, chat
// template, tokenizer, generation with reuse of the last prompt's prefix. No type of the runtime
// shows here. The real one is MakeLlamaEngine() (llama.cpp); a fake stands behind the same class in
// the server's tests.
//
// Threads: one thread owns an engine and makes all calls, except Facts(), which any thread may call
// at any time, also while the owner is inside Load() or Generate(). Callbacks say on which thread
// they run. Times are CLOCK_MONOTONIC. Nothing here throws.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/steps.h"

namespace rouse::engine {

using Token = int32_t;

enum class FlashAttention { kAuto, kOn, kOff };

struct EngineOptions {
  std::string model_path = {};
  int64_t context_tokens = 2048;  // prompt plus answer; 0 = as long as the model was trained for
  // Threads of compute; 0 = one per physical core that this process may run on.
  int threads = 0;
  int64_t batch_tokens = 512;  // prompt tokens computed between two looks at the stop token
  FlashAttention flash_attention = FlashAttention::kAuto;
  std::string cache_type_k = "f16";  // f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1
  std::string cache_type_v = "f16";  // a quantized one needs flash attention
  int gpu_layers = 0;                // -1 = all; an error where the runtime has no GPU backend
  bool map_file = true;              // mmap; false = read into private memory
  // Rearranges quantized weights for this CPU while loading: slower start, private memory, faster
  // long prompts.
  bool repack = false;
  // Loads tokenizer and weights apart and in parallel; the tokenizer then survives Unload(). false
  // = one plain load of everything, as the runtime does by default.
  bool split_tokenizer = true;
};

struct SamplingParams {
  double temperature = 0.8;  // 0 = greedy: the likeliest token, the rest is ignored
  double top_p = 0.95;       // 1 = off
  int64_t top_k = 40;        // 0 = off
  double min_p = 0.05;       // 0 = off
  // Same seed, same prompt, same build and options: same answer. Empty = a fresh random one, which
  // the report tells.
  std::optional<uint32_t> seed = {};
};

struct LoadReport {
  MonoTime start = {};
  MonoTime end = {};
  std::vector<Step> steps = {};  // by start; the tokenizer and weights overlap
  bool tokenizer_kept = false;   // from an earlier load
  bool split_tokenizer = false;  // false also when the file did not allow it
};

struct TemplateOptions {
  bool add_generation_prompt = true;
  std::string tools_json = {};   // "" or a JSON array, as the OpenAI API has it
  std::string kwargs_json = {};  // "" or a JSON object: further variables for the template
};

struct TokenizeOptions {
  // Special tokens written as text ("<|im_start|>") become those tokens. True for rendered
  // templates; for plain completions too, as llama-server does.
  bool parse_special = true;
  bool add_special = true;  // BOS (and EOS) where the model wants them; never a second BOS
};

// A piece of the answer, handed to the sink as soon as it is sure.
struct Piece {
  std::string_view text = {};  // valid UTF-8, not empty, only for the time of the call
  int64_t tokens = 1;          // tokens that were generated since the last piece
  MonoTime sampled = {};       // when the last of them was chosen
};

enum class StopReason {
  kEnd,        // the model ended its answer
  kStopText,   // one of the stop strings appeared; it is not part of the text
  kLength,     // max_tokens, or the context is full
  kCancelled,  // the stop token, or the sink returned false
};
std::string_view StopReasonName(StopReason reason);  // "end", "stop_text", "length", "cancelled"

struct GenerateRequest {
  std::vector<Token> prompt = {};  // 1 to context_tokens - 1 of them
  SamplingParams sampling = {};
  int64_t max_tokens = -1;             // negative = until the context is full; 0 = prefill only
  std::vector<std::string> stop = {};  // none empty
  bool ignore_end = false;             // never chooses a token that ends the answer
  bool cache_prompt = true;            // reuse the common prefix with what the context holds
};

struct GenerateReport {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;     // of them, not computed again; always less than prompt_tokens
  int64_t generated_tokens = 0;  // the one that ended the answer is counted too
  StopReason stop_reason = StopReason::kEnd;
  std::string stop_text = {};  // the stop string that appeared
  uint32_t seed = 0;
  MonoTime start = {};  // Generate() was entered
  MonoTime prefill_start = {};
  std::optional<MonoTime> prefill_end = {};  // the first token's logits were there
  std::optional<MonoTime> first_token = {};  // sampled
  std::optional<MonoTime> first_piece = {};  // handed to the sink
  MonoTime end = {};
};

enum class LayerState { kAbsent, kLoading, kReady };
std::string_view LayerStateName(LayerState state);  // "absent", "loading", "ready"

// What is known about the engine now: a copy of the last published state, never half-updated.
struct EngineFacts {
  struct Layer {
    LayerState state = LayerState::kAbsent;
    MonoTime since = {};
    std::optional<int64_t> bytes = {};  // memory it holds
  };
  Layer tokenizer = {};
  Layer weights = {};
  Layer context = {};
  int64_t prefix_tokens = 0;  // tokens of which the context holds the KV
  MonoTime prefix_since = {};

  // Of the model. Empty before the first load; kept across Unload().
  std::optional<std::string> model_name = {};   // general.name
  std::optional<std::string> description = {};  // "llama 135M Q4_1"
  std::optional<std::string> architecture = {};
  std::optional<int64_t> parameters = {};
  std::optional<int64_t> weights_bytes = {};  // all tensors
  std::optional<int64_t> vocabulary_tokens = {};
  std::optional<int64_t> trained_context_tokens = {};
  std::optional<int64_t> embedding_length = {};
  bool has_chat_template = false;
  // Of the running context.
  std::optional<int64_t> context_tokens = {};
  std::optional<int> threads = {};
  // Why tokenizer and weights were not loaded apart; empty when they were.
  std::string plain_load_reason = {};

  // Memory by kind. Mapped weights are the file's own pages; the kernel may take them back.
  std::optional<int64_t> weights_mapped_bytes = {};
  std::optional<int64_t> weights_private_bytes = {};
  std::optional<int64_t> kv_bytes = {};
  std::optional<int64_t> compute_bytes = {};
};

class Engine {
 public:
  using StepObserver = std::function<void(const Step&)>;  // see Load()
  // Called on the owner's thread. false = stop generating (kCancelled).
  using Sink = std::function<bool(const Piece&)>;

  virtual ~Engine() = default;

  // Makes everything ready that Generate() needs; what is ready stays. On failure or when `stop` is
  // requested (kInterrupted), all that this call made is freed, except the tokenizer if that was
  // complete, and a later Load() tries again. `observer` may be empty; it gets each step when it
  // has ended, on the thread that did it, one at a time.
  // Errors: kNotFound, kPermission, kCorrupt, kUnsupported (name the file and the runtime's
  // reason), kExhausted (names --context).
  virtual Result<LoadReport> Load(std::stop_token stop, const StepObserver& observer) = 0;

  // Frees weights and context; tokenizer and template stay. Milliseconds.
  virtual void Unload() = 0;

  // Renders the model's chat template. `messages_json`: an array of objects with role and content,
  // as the OpenAI API has them. Needs a tokenizer (kState before the first Load()). kUsage: bad
  // JSON, or the template itself refused the messages (its words are quoted). kUnsupported: the
  // model's template can't be used. A model that brings none gets ChatML, as in llama-server.
  virtual Result<std::string> ApplyTemplate(std::string_view messages_json,
                                            const TemplateOptions& options) = 0;

  // Text to tokens; needs a tokenizer. About 5 MB/s.
  virtual Result<std::vector<Token>> Tokenize(std::string_view text,
                                              const TokenizeOptions& options) = 0;

  // Computes the prompt and generates. `sink` gets the answer's pieces; `stop` is looked at before
  // each token and between parts of the prompt, and inside a part too where the runtime can. A
  // cancelled call is a report, not an error; what was computed by then can be reused.
  // Errors: kState (not loaded), kUsage (no prompt, a token that is none, prompt too long: says
  // both numbers, bad sampling values), kExhausted, kInternal. After an error the prefix is
  // dropped and the engine can be used again.
  virtual Result<GenerateReport> Generate(const GenerateRequest& request, const Sink& sink,
                                          std::stop_token stop) = 0;

  // Any thread, any time, never waits for the owner's calls.
  virtual std::shared_ptr<const EngineFacts> Facts() const = 0;
};

// Checks `options` only, opens nothing. kUsage names the flag at fault.
Result<std::unique_ptr<Engine>> MakeLlamaEngine(EngineOptions options);

// What `rouse --version` tells.
struct EngineInfo {
  std::string name = {};  // "llama.cpp"
  std::string version = {};
  bool gpu_offload = false;
  std::vector<std::string> backends = {};      // "CPU: Intel(R) Xeon(R) ..."
  std::vector<std::string> cpu_features = {};  // "AVX2", "FMA", ... that the build uses here
};
EngineInfo GetEngineInfo();

}  // namespace rouse::engine
