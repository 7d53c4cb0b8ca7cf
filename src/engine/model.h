// The two halves of a model file, as two types, so that no code can reach the wrong one.
//
// Tokenizer: text <-> tokens. Holds the file's vocabulary only, takes no part in computing, and
// outlives any number of loads of the weights.
// Weights: what a context computes with. Its vocabulary is a stand-in that has nothing but a size:
// asking it for text would abort the process, and "is this the end?" would silently be no.
//
// Where a file does not allow that, both are made of one plain load (Weights::Options::
// vocabulary_tokens empty, then Tokenizer::FromPlainLoad). Private to src/engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/load_guard.h"
#include "gguf/header.h"

struct llama_model;
struct llama_vocab;

namespace rouse::engine {

class Weights;

class Tokenizer {
 public:
  // Reads the vocabulary from the file. Serial; 0.04 to 0.8 s by size of the vocabulary.
  static Result<std::unique_ptr<Tokenizer>> Load(const std::string& path);
  // Shares the model of a plain load and keeps its weights in memory as long as it lives.
  static Result<std::unique_ptr<Tokenizer>> FromPlainLoad(const Weights& weights);

  int64_t size() const { return size_; }
  bool shares_weights() const { return shares_weights_; }

  Result<std::vector<Token>> Tokenize(std::string_view text, const TokenizeOptions& options) const;

  // The bytes that a token stands for in an answer; "" for control tokens. Not always whole
  // characters. `token` is below size().
  std::string AnswerBytes(Token token) const;

  bool EndsAnswer(Token token) const;  // end of sequence, of turn, ...
  const std::vector<Token>& EndTokens() const { return end_tokens_; }
  // Tokens that the model's maker wants never to be chosen.
  const std::vector<Token>& SuppressedTokens() const { return suppressed_tokens_; }

  // As text for chat templates; "" where the model has none.
  const std::string& bos_text() const { return bos_text_; }
  const std::string& eos_text() const { return eos_text_; }
  bool adds_bos() const { return adds_bos_; }
  bool adds_eos() const { return adds_eos_; }

 private:
  explicit Tokenizer(std::shared_ptr<llama_model> model);
  std::string Text(Token token, bool special) const;

  std::shared_ptr<llama_model> model_;
  const llama_vocab* vocab_ = nullptr;
  bool shares_weights_ = false;
  int64_t size_ = 0;
  std::vector<Token> end_tokens_;
  std::vector<Token> suppressed_tokens_;
  std::string bos_text_;
  std::string eos_text_;
  bool adds_bos_ = false;
  bool adds_eos_ = false;
};

class Weights {
 public:
  struct Options {
    std::string path = {};
    std::vector<std::string> other_parts = {};  // of a model in several files
    std::string architecture = {};
    // Length of the file's token array: load without vocabulary. The file's own vocab_size may
    // differ and is then refused by the library. Empty: a plain load, vocabulary included.
    std::optional<int64_t> vocabulary_tokens = {};
    int gpu_layers = 0;
    bool map_file = true;
    bool repack = false;
  };

  // kInterrupted when `stop` is requested meanwhile (looked at between tensors). With mapping, a
  // library without rouse's edits asks the kernel for the whole file at once and waits for it; with
  // them, nothing but the header is read. Weights that are copied out of the mapping (repacked, for
  // a device) are read from it: kCorrupt where that fails.
  static Result<std::unique_ptr<Weights>> Load(const Options& options, std::stop_token stop);

  const std::string& path() const { return path_; }
  bool plain() const { return plain_; }
  int64_t vocabulary_tokens() const;
  int64_t trained_context_tokens() const;
  int64_t layers() const;
  int64_t embedding_length() const;
  int64_t parameters() const;
  int64_t tensor_bytes() const;
  std::string description() const;
  // Whether the KV of some first tokens can be kept while later ones are removed.
  bool state_is_recurrent() const;
  int64_t sliding_window_tokens() const;  // 0 = none

  // Where the files are mapped, found by the tensors in them; `parts` are the headers. Empty where
  // nothing is mapped, or where this build of the library does not show its tensors.
  std::vector<FileMapping> Mappings(const std::vector<gguf::Header>& parts) const;

  // A mapping from which weights were copied is guarded from then on. kCorrupt: a page of it could
  // not be read since.
  Status CheckGuard() const { return guard_ == nullptr ? Status() : guard_->Check(); }
  // Another guard takes over.
  void EndGuard() { guard_ = nullptr; }

  std::optional<int64_t> mapped_bytes() const { return mapped_bytes_; }
  std::optional<int64_t> private_bytes() const { return private_bytes_; }

 private:
  friend class Context;    // the only one that computes with it
  friend class Tokenizer;  // FromPlainLoad
  explicit Weights(std::shared_ptr<llama_model> model);

  std::shared_ptr<llama_model> model_;
  std::unique_ptr<LoadGuard> guard_;  // gone before what it guards is unmapped
  std::string path_;
  bool plain_ = false;
  std::optional<int64_t> mapped_bytes_;
  std::optional<int64_t> private_bytes_;
};

}  // namespace rouse::engine
