// Engine: the seam between the server and a model runtime. One model file; load, sleep, unload,
// chat template, tokenizer, generation with reuse of a prompt's prefix. No type of the runtime
// shows here. The real one is MakeLlamaEngine() (llama.cpp); a fake stands behind the same class in
// the server's tests.
//
// A load is a graph of steps on threads of the engine's own (StartLoad()). Meanwhile the owner
// renders and tokenizes the prompt: ApplyTemplate() and Tokenize() wait for what they need, and no
// longer.
//
// Threads: one thread owns an engine and makes all calls, except Facts(), which any thread may call
// at any time, also while the owner is inside another call. Callbacks say on which thread they run.
// Times are CLOCK_MONOTONIC. Nothing here throws.
#pragma once

#include <cstddef>
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

// Repacking rearranges quantized weights for this CPU: one thread copies them into private memory
// (0.5 to 1 s a gigabyte), after which long prompts and generated tokens take less time.
enum class RepackMode {
  kOff,   // compute from the mapped file
  kOn,    // while loading
  kAuto,  // while loading when the prompt that waits is long enough to pay for it, else by
          // Improve()
};

// One file of a model as the weights have it mapped: `address` is where `file_offset` is.
struct FileMapping {
  std::string path = {};
  const std::byte* address = nullptr;
  int64_t file_offset = 0;
  int64_t bytes = 0;
};

// Told where the weights are mapped, so that a reader can fill in their pages (loader/reader.h).
// Called on whichever thread of the engine does the step.
class MappingWatcher {
 public:
  virtual ~MappingWatcher() = default;
  // The parts of the file that are mapped, before anything of them was read. They stay mapped until
  // AboutToUnmap(): also while asleep, so that a reader can begin before the wake does. Not called
  // for weights in private memory. Returns at once.
  virtual void Mapped(const std::vector<FileMapping>& mappings) = 0;
  // When this returns, nobody touches the addresses any more.
  virtual void AboutToUnmap() = 0;
};

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
  RepackMode repack = RepackMode::kOff;
  // Keeps the part of the file that a first token needs first (embeddings, layers 0, 1, ...) locked
  // in memory, also across Sleep() and Unload(). Done by Improve(). Only one of the two.
  int64_t keep_leading_bytes = 0;
  double keep_leading_ratio = 0;  // of the file, 0 to 1
  // Sleep() and Unload() keep the KV of the last prefixes, up to so much memory in all.
  int64_t kept_prefix_bytes = int64_t{256} << 20;
  // May be null.
  std::shared_ptr<MappingWatcher> watcher = {};
  // Loads tokenizer and weights apart and in parallel; the tokenizer then survives Unload(). false
  // = one plain load of everything, as the runtime does by default.
  bool split_tokenizer = true;
  // Where proc and sys lie that tell of memory; "" except in tests.
  std::string system_root = {};
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

// How much of a model is in memory.
enum class Tier {
  kUnloaded,  // at most tokenizer, template and kept prefixes
  kAsleep,    // all objects, but neither the weights' pages nor the KV's memory
  kReady,     // Generate() would begin to compute at once
};
std::string_view TierName(Tier tier);  // "unloaded", "asleep", "ready"

struct LoadReport {
  MonoTime start = {};
  MonoTime end = {};
  Tier from = Tier::kUnloaded;
  std::vector<Step> steps = {};  // by start; they overlap
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
  std::vector<Step> steps = {};  // "prefix" (looked up, restored), "prefill"
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
  // Another engine of this process, whose model has the same vocabulary, had loaded it.
  bool tokenizer_shared = false;
  Layer weights = {};
  Layer context = {};
  int64_t prefix_tokens = 0;  // tokens of which the context holds the KV
  // What their KV would take outside of the context (kept_prefix_bytes, a file). Empty: not known
  // since they changed.
  std::optional<int64_t> prefix_bytes = {};
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
  std::optional<bool> flash_attention = {};  // "auto" resolved
  std::string cache_type_k = {};             // "f16"; "" = not told
  std::string cache_type_v = {};
  // Why tokenizer and weights were not loaded apart; empty when they were.
  std::string plain_load_reason = {};

  Tier tier = Tier::kUnloaded;
  MonoTime tier_since = {};
  // What each tier cost when it was last there. Empty: not yet.
  struct TierCost {
    // Resident memory of the whole process right after the tier was entered, file pages included.
    std::optional<int64_t> process_bytes = {};
    std::optional<int64_t> wake_ns = {};  // of the last successful load from it, until ready
  };
  TierCost unloaded_cost = {};
  TierCost asleep_cost = {};
  TierCost ready_cost = {};  // no wake_ns

  bool repacked = false;
  // Prompt tokens from which repacking while loading pays, by measurement. Empty: not measured.
  std::optional<int64_t> repack_break_even_tokens = {};
  // Prefixes whose KV is kept outside of the context.
  int64_t kept_prefixes = 0;
  int64_t kept_prefix_bytes = 0;
  // Of keep_leading_*, as read back from the kernel; why it is less than asked for, or "".
  std::optional<int64_t> locked_bytes = {};
  std::string locked_problem = {};

  // Memory by kind. Mapped weights are the file's own pages; the kernel may take them back. While
  // asleep the first, third and fourth are what waking can bring back.
  std::optional<int64_t> weights_mapped_bytes = {};
  std::optional<int64_t> weights_private_bytes = {};
  std::optional<int64_t> kv_bytes = {};
  std::optional<int64_t> compute_bytes = {};
};

class Engine {
 public:
  using StepObserver = std::function<void(const Step&)>;
  using LoadDone = std::function<void(const Result<LoadReport>&)>;
  // Called on the owner's thread. false = stop generating (kCancelled).
  using Sink = std::function<bool(const Piece&)>;

  virtual ~Engine() = default;

  struct LoadOptions {
    std::stop_token stop = {};
    // Gets each step when it has ended, on the thread that did it, one at a time. May be empty.
    StepObserver observer = {};
    // Called once, when the load has ended either way, on a thread of the engine (in StartLoad()
    // itself when there was nothing to do). It must not call the engine. May be empty.
    LoadDone done = {};
    // Of the request that waits, as far as it can be told (4 bytes a token will do):
    // RepackMode::kAuto decides by it. Empty: nobody waits.
    std::optional<int64_t> prompt_tokens = {};
  };

  // Begins to make everything ready that Generate() needs, and returns at once; what is ready
  // stays. On failure or when `stop` is requested (kInterrupted), all that this load made is freed,
  // except tokenizer and template if those were complete, and a later load tries again.
  // Errors (of `done` and FinishLoad()): kNotFound, kPermission, kCorrupt, kUnsupported (name the
  // file and the runtime's reason), kExhausted (names --context).
  virtual void StartLoad(LoadOptions options) = 0;

  // Waits until the load has ended. Without one since the last FinishLoad(): kState.
  virtual Result<LoadReport> FinishLoad() = 0;

  // Both.
  Result<LoadReport> Load(std::stop_token stop, const StepObserver& observer) {
    StartLoad({.stop = std::move(stop), .observer = observer, .done = {}, .prompt_tokens = {}});
    return FinishLoad();
  }

  // Drops the weights' pages and the KV's memory and keeps every object: the next load is a matter
  // of microseconds, after which the first prompt computes from the file's pages. The prefix is
  // kept as `kept_prefix_bytes` allows. Milliseconds. kUnsupported (and nothing is done) where the
  // weights are not the mapped file: repacked, not mapped, on a device. kState when not loaded.
  virtual Status Sleep() = 0;

  // Frees weights and context; tokenizer, template and kept prefixes stay. A load that runs is
  // stopped first. Milliseconds.
  virtual void Unload() = 0;

  // One piece of work that makes later requests faster, for when nobody waits: locks the leading
  // layers, builds the repacked layout and swaps it in. Returns what it did, for the log; "" when
  // nothing is left to do. `stop` ends it within milliseconds (kInterrupted); a later call tries
  // again. Another failure is not tried again before the next load.
  virtual Result<std::string> Improve(std::stop_token stop) = 0;

  // Renders the model's chat template; waits for a load's tokenizer and template, not for its
  // weights. `messages_json`: an array of objects with role and content,
  // as the OpenAI API has them. Needs a tokenizer (kState before the first load). kUsage: bad
  // JSON, or the template itself refused the messages (its words are quoted). kUnsupported: the
  // model's template can't be used. A model that brings none gets ChatML, as in llama-server.
  virtual Result<std::string> ApplyTemplate(std::string_view messages_json,
                                            const TemplateOptions& options) = 0;

  // Text to tokens; waits for a load's tokenizer, not for its weights. About 5 MB/s.
  virtual Result<std::vector<Token>> Tokenize(std::string_view text,
                                              const TokenizeOptions& options) = 0;

  // Computes the prompt and generates; waits for a load that runs. `sink` gets the answer's pieces;
  // `stop` is looked at before each token and between parts of the prompt, and inside a part too
  // where the runtime can. A cancelled call is a report, not an error; what was computed by then
  // can be reused. Errors: kState (not loaded), kUsage (no prompt, a token that is none, prompt too
  // long: says both numbers, bad sampling values), kExhausted, kInternal. After an error the prefix
  // is dropped and the engine can be used again.
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
