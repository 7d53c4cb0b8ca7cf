#include "lab/targets.h"

#include "base/check.h"

namespace rouse::lab {
namespace {

// What is the same for all: the request's own socket, pages of a file, loads of our own.
constexpr TargetLayer kConnection{
    .set = "a new socket, or the one that the primer used",
    .proof = "local port and connect time of the request's own socket",
    .limit = ""};
constexpr TargetLayer kPageCacheOfFile{
    .set = "posix_fadvise(DONTNEED) without a mapping; reads in file order to warm",
    .proof = "cachestat, mincore, or sampled reads that don't wait",
    .limit = "needs model_file, a local file; pages that the server maps stay"};
constexpr TargetLayer kMemoryPressure{
    .set = "a ballast process of ours, in a control group of its own where that is allowed",
    .proof = "anonymous resident memory of that process",
    .limit = ""};
constexpr TargetLayer kBackground{
    .set =
        "processes of ours: a spinner per CPU, O_DIRECT reads of the model file, two request "
        "streams, another server with two of its own",
    .proof = "their CPU time, bytes read, requests answered",
    .limit = "disk needs a local model file"};
constexpr TargetLayer kForeignProcess{.set = "",
                                      .proof = "pid and start time of who listens, on this machine",
                                      .limit = "the server's process is not ours to end"};
constexpr TargetLayer kForeignCompileCache{
    .set = "",
    .proof = "",
    .limit = "the directory is fixed when a server starts, and this one is not started by rouse"};
constexpr TargetLayer kSaltedPrefix{
    .set = "a salt that begins the prompt, or the same prompt sent before",
    .proof = "cached tokens that the server reports with the answer",
    .limit = ""};

constexpr std::array<TargetRow, 7> kTargets{{
    {.kind = TargetKind::kBuiltin,
     .name = "builtin",
     .summary = "rouse serve, started by rouse",
     .owns_process = true,
     .takes_cache_prompt = true,
     .block_tokens = 1,
     .layers = {{kConnection,
                 {.set = "a salt and cache_prompt: false, or the same prompt sent before",
                  .proof = "cached tokens of its timeline",
                  .limit = ""},
                 {.set = "POST /models/load, /models/sleep and /models/unload",
                  .proof = "GET /state; unloaded: no process of it maps the file; asleep: none has "
                           "a page of it in memory",
                  .limit = ""},
                 {.set = "the old process is ended; the new one is started at the intended send "
                         "time",
                  .proof = "process id and start time",
                  .limit = ""},
                 {.set = kPageCacheOfFile.set,
                  .proof = kPageCacheOfFile.proof,
                  .limit = "needs model = \"unloaded\": a loaded model maps its file"},
                 {.set = "",
                  .proof = "",
                  .limit = "its engine computes on the CPU, which compiles nothing"},
                 kMemoryPressure,
                 kBackground}}},
    {.kind = TargetKind::kCommand,
     .name = "command",
     .summary = "any server that a command starts",
     .owns_process = true,
     .takes_cache_prompt = false,
     .block_tokens = 16,
     .layers = {{kConnection,
                 kSaltedPrefix,
                 {.set = "a new process has none loaded",
                  .proof = "no process",
                  .limit = "model = \"unloaded\" needs process = \"new\": its unload call is not "
                           "known"},
                 {.set = "the old process is ended; the new one is started at the intended send "
                         "time",
                  .proof = "process id and start time",
                  .limit = ""},
                 kPageCacheOfFile,
                 {.set = "a directory of ours, which the variable compile_cache_env names to the "
                         "server, is emptied before a new process",
                  .proof = "bytes and files in that directory, before and after",
                  .limit = "needs compile_cache_env in [target], and process = \"new\""},
                 kMemoryPressure,
                 kBackground}}},
    {.kind = TargetKind::kUrl,
     .name = "url",
     .summary = "a server that runs already, of which nothing is known",
     .owns_process = false,
     .takes_cache_prompt = false,
     .block_tokens = 16,
     .layers = {{kConnection,
                 kSaltedPrefix,
                 {.set = "",
                  .proof = "",
                  .limit = "its load and unload calls are not known; name its kind, as in "
                           "ollama:http://127.0.0.1:11434"},
                 kForeignProcess,
                 kPageCacheOfFile,
                 kForeignCompileCache,
                 kMemoryPressure,
                 kBackground}}},
    {.kind = TargetKind::kLlamaServer,
     .name = "llama-server",
     .summary = "llama.cpp's server that runs already, single or router",
     .owns_process = false,
     .takes_cache_prompt = true,
     .block_tokens = 16,
     .layers = {{{.set = kConnection.set,
                  .proof = kConnection.proof,
                  .limit =
                      "0.5.0 closes the connection after a streamed answer: \"reused\" is then "
                      "not reached"},
                 {.set = "a salt and cache_prompt: false, or the same prompt sent before",
                  .proof = "timings.cache_n of the answer",
                  .limit = ""},
                 {.set = "router: POST /models/load and /models/unload; single: its own "
                         "--sleep-idle-seconds is waited for, a primer wakes it",
                  .proof = "GET /models or /props, and no process of it maps the file",
                  .limit = "a single-model server has no unload call: start it with "
                           "--sleep-idle-seconds, at most 25"},
                 kForeignProcess,
                 kPageCacheOfFile,
                 kForeignCompileCache,
                 kMemoryPressure,
                 kBackground}}},
    {.kind = TargetKind::kOllama,
     .name = "ollama",
     .summary = "Ollama that runs already",
     .owns_process = false,
     .takes_cache_prompt = false,
     .block_tokens = 16,
     .layers = {{kConnection,
                 {.set = "a salt that begins the prompt, or the same prompt sent before",
                  .proof = "",
                  .limit = "it always caches, and does not tell cached tokens: the salt only"},
                 {.set = "POST /api/generate with keep_alive 0 or -1, a number",
                  .proof = "GET /api/ps, and its runner process gone (same machine)",
                  .limit = ""},
                 kForeignProcess,
                 kPageCacheOfFile,
                 kForeignCompileCache,
                 kMemoryPressure,
                 kBackground}}},
    {.kind = TargetKind::kLlamaSwap,
     .name = "llama-swap",
     .summary = "llama-swap that runs already",
     .owns_process = false,
     .takes_cache_prompt = false,
     .block_tokens = 16,
     .layers = {{kConnection,
                 kSaltedPrefix,
                 {.set = "GET /unload; a request to /upstream/MODEL/ loads",
                  .proof = "GET /running",
                  .limit = ""},
                 kForeignProcess,
                 kPageCacheOfFile,
                 kForeignCompileCache,
                 kMemoryPressure,
                 kBackground}}},
    {.kind = TargetKind::kVllm,
     .name = "vllm",
     .summary = "vLLM that runs already, with VLLM_SERVER_DEV_MODE=1 and --enable-sleep-mode",
     .owns_process = false,
     .takes_cache_prompt = false,
     .block_tokens = 16,
     .layers = {{kConnection,
                 {.set = "POST /reset_prefix_cache and a salt, or the same prompt sent before",
                  .proof = "cached tokens of the answer (--enable-prompt-tokens-details)",
                  .limit = ""},
                 {.set = "POST /sleep?level=1 and /wake_up",
                  .proof = "GET /is_sleeping",
                  .limit = "asleep at level 1 its weights lie in CPU memory; a level that drops "
                           "them cannot be woken by one call"},
                 kForeignProcess,
                 kPageCacheOfFile,
                 kForeignCompileCache,
                 kMemoryPressure,
                 kBackground}}},
}};

}  // namespace

std::span<const TargetRow> Targets() { return kTargets; }

const TargetRow& RowOf(TargetKind kind) {
  const TargetRow& row = kTargets.at(static_cast<size_t>(kind));
  CHECK(row.kind == kind);
  return row;
}

std::string_view TargetKindName(TargetKind kind) { return RowOf(kind).name; }

std::optional<TargetKind> TargetKindFromName(std::string_view name) {
  for (const TargetRow& row : kTargets) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

std::vector<std::string_view> TargetKindNames() {
  std::vector<std::string_view> names;
  for (const TargetRow& row : kTargets) names.push_back(row.name);
  return names;
}

bool CanSet(const LayerRow& row, TargetKind kind) { return RowOf(kind).Sets(row.layer); }

}  // namespace rouse::lab
