// What is global in llama.cpp's library, tamed: one-time initialisation, its log, and its aborts.
// Private to src/engine. Not a wrapper of models or contexts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace rouse::engine {

// Initialises backends and redirects log and aborts; the first call costs milliseconds, later ones
// nothing. Any thread. True when this call did the work.
bool EnsureRuntime();
// Whether that has been done. Any thread.
bool RuntimeIsReady();

// While it lives, collects what the library logs *on this thread*: the last warnings and errors,
// and the buffer sizes that it tells at info level. Everything else that it logs is dropped, also
// when no collector lives. Collectors nest; the innermost gets the lines.
class LogCollector {
 public:
  LogCollector();
  ~LogCollector();
  LogCollector(const LogCollector&) = delete;
  LogCollector& operator=(const LogCollector&) = delete;

  // The most telling error for a person, without function names: the first one that was logged
  // ("error loading model: ..."), or the last warning, or `otherwise`.
  std::string Reason(std::string_view otherwise) const;

  // Sum of the buffers of a kind ("KV", "compute", "output", "model", "RS") whose owner's name
  // contains `owner`; rounded by the library to 0.01 MiB. nullopt when it told none.
  std::optional<int64_t> BufferBytes(std::string_view kind, std::string_view owner = "") const;

  // What it tells of a new context: whether flash attention is used ("auto" resolved), and the
  // types of keys ('K') and values ('V') in the KV cache; empty when it told nothing.
  std::optional<bool> FlashAttention() const { return flash_attention_; }
  std::string CacheType(char which) const { return which == 'K' ? type_k_ : type_v_; }

  // For the log callback only.
  void Add(int level, std::string_view text);

 private:
  struct Buffer {
    std::string owner;
    std::string kind;
    int64_t bytes = 0;
  };
  void AddLine(int level, std::string_view line);
  void NoticeContext(std::string_view line);

  LogCollector* outer_;
  int level_ = 0;
  std::string partial_;
  std::vector<std::string> errors_;
  std::vector<std::string> warnings_;
  std::vector<Buffer> buffers_;
  std::optional<bool> flash_attention_;
  std::string type_k_;
  std::string type_v_;
};

// Why the library could not load something: kExhausted where it had no memory ("std::bad_alloc" in
// its words), else kUnsupported.
Error LoadError(const std::string& what, const std::string& reason);

// While it lives, a failed assertion of the library on this thread becomes a C++ exception
// (std::runtime_error with the assertion's text) instead of the end of the process: a model file
// with absurd numbers must not end a server. It works because the library calls abort() through one
// C function that unwinds like any other. The object at fault must not be used afterwards, and
// memory may be lost. On the library's own threads an assertion still aborts.
class AbortGuard {
 public:
  AbortGuard();
  ~AbortGuard();
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;

 private:
  bool outer_;
};

}  // namespace rouse::engine
