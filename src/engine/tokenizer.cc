// Tokenizer: the vocabulary half of a model file.
#include <limits>
#include <stdexcept>

#include "engine/llama_runtime.h"
#include "engine/model.h"
#include "llama.h"

namespace rouse::engine {
namespace {

// Tokens per call of the library are counted in int32_t, and a text can't have more tokens than
// bytes, but for the few that are added in front and behind.
constexpr size_t kLongestText = std::numeric_limits<int32_t>::max() / 2;

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<llama_model> model)
    : model_(std::move(model)), vocab_(llama_model_get_vocab(model_.get())) {
  size_ = llama_vocab_n_tokens(vocab_);
  for (Token token = 0; token < size_; ++token) {
    if (llama_vocab_is_eog(vocab_, token)) end_tokens_.push_back(token);
  }
  int32_t count = 0;
  if (const llama_token* suppressed = llama_vocab_get_suppress_tokens(vocab_, &count)) {
    for (int32_t i = 0; i < count; ++i) {
      if (suppressed[i] >= 0 && suppressed[i] < size_) suppressed_tokens_.push_back(suppressed[i]);
    }
  }
  const auto text_of = [this](Token token) {
    return token >= 0 && token < size_ ? Text(token, /*special=*/true) : "";
  };
  bos_text_ = text_of(llama_vocab_bos(vocab_));
  eos_text_ = text_of(llama_vocab_eos(vocab_));
  adds_bos_ = llama_vocab_get_add_bos(vocab_);
  adds_eos_ = llama_vocab_get_add_eos(vocab_);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  const LogCollector log;
  try {
    const AbortGuard guard;
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    params.n_gpu_layers = 0;
    std::shared_ptr<llama_model> model(llama_model_load_from_file(path.c_str(), params),
                                       [](llama_model* m) { llama_model_free(m); });
    if (model == nullptr) {
      return LoadError("cannot load the tokenizer of " + path + ": ",
                       log.Reason("no reason given"));
    }
    if (llama_vocab_type(llama_model_get_vocab(model.get())) == LLAMA_VOCAB_TYPE_NONE) {
      return Error(ErrorCode::kUnsupported, path + " has no tokenizer");
    }
    return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(model)));
  } catch (const std::exception& e) {
    return LoadError("cannot load the tokenizer of " + path + ": ", e.what());
  }
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::FromPlainLoad(const Weights& weights) {
  CHECK(weights.plain());
  if (llama_vocab_type(llama_model_get_vocab(weights.model_.get())) == LLAMA_VOCAB_TYPE_NONE) {
    return Error(ErrorCode::kUnsupported, weights.path() + " has no tokenizer");
  }
  try {
    const AbortGuard guard;
    std::unique_ptr<Tokenizer> tokenizer(new Tokenizer(weights.model_));
    tokenizer->shares_weights_ = true;
    return tokenizer;
  } catch (const std::exception& e) {
    return LoadError("cannot use the tokenizer of " + weights.path() + ": ", e.what());
  }
}

Result<std::vector<Token>> Tokenizer::Tokenize(std::string_view text,
                                               const TokenizeOptions& options) const {
  if (text.size() > kLongestText) {
    return Error(ErrorCode::kUsage, "the prompt is longer than 1 GiB");
  }
  std::vector<Token> tokens(text.size() / 3 + 16);
  try {
    const AbortGuard guard;
    const auto call = [&] {
      return llama_tokenize(vocab_, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                            static_cast<int32_t>(tokens.size()), options.add_special,
                            options.parse_special);
    };
    int32_t count = call();
    if (count < 0) {
      tokens.resize(static_cast<size_t>(-static_cast<int64_t>(count)));
      count = call();
    }
    if (count < 0) return Error(ErrorCode::kInternal, "the tokenizer failed");
    tokens.resize(static_cast<size_t>(count));
  } catch (const std::exception& e) {
    return Error(ErrorCode::kUsage, std::string("the prompt can't be tokenized: ") + e.what());
  }
  const Token bos = llama_vocab_bos(vocab_);
  if (options.add_special && adds_bos_ && tokens.size() >= 2 && tokens[0] == bos &&
      tokens[1] == bos) {
    tokens.erase(tokens.begin());
  }
  return tokens;
}

std::string Tokenizer::Text(Token token, bool special) const {
  std::string text(64, '\0');
  const auto call = [&] {
    return llama_token_to_piece(vocab_, token, text.data(), static_cast<int32_t>(text.size()), 0,
                                special);
  };
  int32_t length = call();
  if (length < 0) {
    text.resize(static_cast<size_t>(-length));
    length = call();
  }
  text.resize(static_cast<size_t>(std::max(length, 0)));
  return text;
}

std::string Tokenizer::AnswerBytes(Token token) const {
  CHECK(token >= 0 && token < size_);
  return Text(token, /*special=*/false);
}

bool Tokenizer::EndsAnswer(Token token) const {
  CHECK(token >= 0 && token < size_);
  return llama_vocab_is_eog(vocab_, token);
}

}  // namespace rouse::engine
