// Tokenizers of this process by what is in their files: two engines whose models have the same
// vocabulary share one tokenizer. Loading one is most of a start from a cached file, and it takes
// up to 65 MB; to tell that two are the same, their vocabularies are read once, when a second
// engine asks (0.5 ms a megabyte). A process with one model pays nothing. Private to src/engine;
// any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/model.h"
#include "engine/model_file.h"
#include "gguf/header.h"

namespace rouse::engine {

// Names everything that the library makes a tokenizer of: all metadata "tokenizer.*" but chat
// templates, the architecture, and what it looks for in the model's name. Reads the file.
Result<std::string> VocabularyDigest(const gguf::Header& header);

class SharedTokenizers {
 public:
  // Of this process.
  static SharedTokenizers& Instance();

  // Whether there is any: else there is nothing to look for.
  bool Any();
  // One that was made of the same vocabulary as this file's. Null: there is none, or that can't be
  // told since its file changed.
  std::shared_ptr<const Tokenizer> Find(const gguf::Header& header);
  // Tells of one that was made of this file. It stays as long as somebody holds it.
  void Add(const gguf::Header& header, const FileIdentity& identity,
           const std::shared_ptr<const Tokenizer>& tokenizer);

 private:
  struct Known {
    gguf::Header header;  // without tensors
    FileIdentity identity;
    std::string digest;  // "" until somebody asks
    std::weak_ptr<const Tokenizer> tokenizer;
  };

  std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace rouse::engine
