// One-time initialisation of llama.cpp, its log and its aborts.
#include "engine/llama_runtime.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include "base/strings.h"
#include "llama.h"

namespace rouse::engine {
namespace {

constexpr size_t kKeptLines = 8;

thread_local LogCollector* collector = nullptr;
thread_local bool abort_throws = false;
thread_local int last_level = GGML_LOG_LEVEL_NONE;

void OnLog(ggml_log_level level, const char* text, void* /*user*/) {
  // A continuation has the level of the line that it continues.
  if (level == GGML_LOG_LEVEL_CONT) {
    level = static_cast<ggml_log_level>(last_level);
  } else {
    last_level = level;
  }
  if (collector != nullptr) collector->Add(level, text);
}

// "/build/folder/llama-model.cpp:1328: GGML_ASSERT(...) failed": the folder says nothing to a user.
void OnAbort(const char* message) {
  std::string_view text = message;
  const size_t colon = text.find(':');
  const size_t slash = text.substr(0, colon).rfind('/');
  if (slash != std::string_view::npos) text.remove_prefix(slash + 1);
  if (abort_throws) throw std::runtime_error(std::string(text));
  std::fprintf(stderr, "%s\n", message);
}

// "llama_model_load: error loading model: x" -> "x": the function's name says nothing to a user.
std::string WithoutFunctionName(std::string_view line) {
  const size_t colon = line.find(": ");
  if (colon != std::string_view::npos &&
      line.substr(0, colon).find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                              "0123456789_") == std::string_view::npos) {
    line.remove_prefix(colon + 2);
  }
  for (std::string_view prefix : {"error loading model: ", "error loading model "}) {
    if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
  }
  return std::string(TrimBlanks(line));
}

std::atomic<bool> runtime_ready = false;

}  // namespace

bool RuntimeIsReady() { return runtime_ready; }

bool EnsureRuntime() {
  static std::once_flag once;
  bool first = false;
  std::call_once(once, [&first] {
    first = true;
    llama_log_set(OnLog, nullptr);
    ggml_set_abort_callback(OnAbort);
    llama_backend_init();
    // Static builds register their backends by themselves, builds with loadable ones don't.
    if (ggml_backend_reg_count() == 0) ggml_backend_load_all();
    runtime_ready = true;
  });
  return first;
}

LogCollector::LogCollector() : outer_(collector) { collector = this; }
LogCollector::~LogCollector() { collector = outer_; }

void LogCollector::Add(int level, std::string_view text) {
  level_ = level;
  partial_ += text;
  size_t end;
  while ((end = partial_.find('\n')) != std::string::npos) {
    AddLine(level_, std::string_view(partial_).substr(0, end));
    partial_.erase(0, end + 1);
  }
}

void LogCollector::AddLine(int level, std::string_view line) {
  if (TrimBlanks(line).empty()) return;
  NoticeContext(line);
  if (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN) {
    std::vector<std::string>& kept = level == GGML_LOG_LEVEL_ERROR ? errors_ : warnings_;
    if (kept.size() < kKeptLines) kept.push_back(WithoutFunctionName(line));
    return;
  }
  // "llama_kv_cache:        CPU KV buffer size =    45.00 MiB"
  constexpr std::string_view kMarker = " buffer size =";
  const size_t marker = line.find(kMarker);
  const size_t colon = line.find(": ");
  if (marker == std::string_view::npos || colon == std::string_view::npos || colon >= marker) {
    return;
  }
  const std::string_view names = TrimBlanks(line.substr(colon + 1, marker - colon - 1));
  const std::string number(TrimBlanks(line.substr(marker + kMarker.size())));
  char* end = nullptr;
  const double mebibytes = std::strtod(number.c_str(), &end);
  if (end == number.c_str() || TrimBlanks(end) != "MiB" || mebibytes < 0) return;
  const size_t space = names.find(' ');
  if (space == std::string_view::npos) return;
  buffers_.push_back({std::string(names.substr(0, space)),
                      std::string(TrimBlanks(names.substr(space))),
                      static_cast<int64_t>(mebibytes * 1024 * 1024)});
}

// "llama_context: flash_attn            = auto", and for auto later one of
// "resolve_fused_ops: Flash Attention enabled",
// "resolve_fused_ops: Flash Attention not supported, set to disabled";
// "llama_kv_cache: size = 45.00 MiB (...), K (f16): 22.50 MiB, V (f16): 22.50 MiB"
void LogCollector::NoticeContext(std::string_view line) {
  const auto has = [line](std::string_view text) { return line.find(text) != line.npos; };
  if (has(": flash_attn ")) {
    if (line.ends_with("= enabled")) flash_attention_ = true;
    if (line.ends_with("= disabled")) flash_attention_ = false;
  } else if (has(": Flash Attention ")) {
    flash_attention_ = line.ends_with(" enabled");
  }
  const auto type = [line](std::string_view marker, std::string& to) {
    const size_t at = line.find(marker);
    const size_t end = at == line.npos ? at : line.find(')', at);
    if (end == line.npos) return;
    to = line.substr(at + marker.size(), end - at - marker.size());
  };
  if (!has("llama_kv_cache")) return;
  type(", K (", type_k_);
  type(", V (", type_v_);
}

std::string LogCollector::Reason(std::string_view otherwise) const {
  if (!errors_.empty()) return errors_.front();
  if (!warnings_.empty()) return warnings_.back();
  return std::string(otherwise);
}

std::optional<int64_t> LogCollector::BufferBytes(std::string_view kind,
                                                 std::string_view owner) const {
  std::optional<int64_t> sum;
  for (const Buffer& buffer : buffers_) {
    if (buffer.kind != kind || buffer.owner.find(owner) == std::string::npos) continue;
    sum = sum.value_or(0) + buffer.bytes;
  }
  return sum;
}

Error LoadError(const std::string& what, const std::string& reason) {
  if (reason.find("bad_alloc") != std::string::npos) {
    return Error(ErrorCode::kExhausted, what + "out of memory");
  }
  return Error(ErrorCode::kUnsupported, what + reason);
}

AbortGuard::AbortGuard() : outer_(abort_throws) { abort_throws = true; }
AbortGuard::~AbortGuard() { abort_throws = outer_; }

}  // namespace rouse::engine
