// The halves of a model compute exactly what a plain load computes: compared bit by bit, with the
// library called directly for the plain one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/strings.h"
#include "engine/context.h"
#include "engine/llama_runtime.h"
#include "engine/model.h"
#include "engine/test_model.h"
#include "engine/text_gate.h"
#include "gguf/header.h"
#include "llama.h"

namespace rouse::engine {
namespace {

// A plain program on the library: one load, one context, as its own examples do it.
class Plain {
 public:
  explicit Plain(const std::string& path, bool repack = false) {
    EnsureRuntime();
    llama_model_params model_params = llama_model_default_params();
    model_params.use_extra_bufts = repack;
    model_.reset(llama_model_load_from_file(path.c_str(), model_params));
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 512;
    params.n_batch = params.n_ubatch = 512;
    params.n_threads = params.n_threads_batch = 1;
    context_.reset(llama_init_from_model(model_.get(), params));
  }

  std::vector<Token> Tokenize(const std::string& text) const {
    std::vector<Token> tokens(text.size() + 8);
    const int32_t count = llama_tokenize(llama_model_get_vocab(model_.get()), text.data(),
                                         static_cast<int32_t>(text.size()), tokens.data(),
                                         static_cast<int32_t>(tokens.size()), true, true);
    tokens.resize(static_cast<size_t>(count));
    return tokens;
  }

  std::span<const float> Decode(std::vector<Token> tokens) {
    EXPECT_EQ(llama_decode(context_.get(),
                           llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))),
              0);
    return {llama_get_logits_ith(context_.get(), -1),
            static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_.get())))};
  }

  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }

 private:
  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
    void operator()(llama_context* context) const { llama_free(context); }
  };
  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<llama_context, Free> context_;
};

constexpr char kText[] =
    "The quick brown fox jumps over the lazy dog, and na\xC3\xAFve \xF0\x9F"
    "\xA6\x9C parrots say <|im_start|>user\nhello<|im_end|>\n 12345";

void ExpectSameLogits(std::span<const float> a, std::span<const float> b, int step) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0) << "at step " << step;
}

Weights::Options SplitOptions(const std::string& path) {
  const gguf::Header header = gguf::ReadHeader(path).value();
  return {.path = path,
          .architecture = header.Architecture(),
          .vocabulary_tokens = header.VocabularySize()};
}

void CompareWithPlain(const std::string& path, bool repack) {
  Plain plain(path, repack);
  Weights::Options weights_options = SplitOptions(path);
  weights_options.repack = repack;
  const std::unique_ptr<Weights> weights = Weights::Load(weights_options, {}).value();
  EXPECT_FALSE(weights->plain());
  const std::unique_ptr<Context> context =
      Context::Create(*weights, {.context_tokens = 512, .threads = 1, .batch_tokens = 512}).value();
  const std::vector<Token> prompt = plain.Tokenize(kText);
  std::span<const float> expected = plain.Decode(prompt);
  ASSERT_TRUE(context->Decode(prompt, {}).value());
  ExpectSameLogits(context->Logits().value(), expected, 0);
  for (int step = 1; step <= 12; ++step) {
    const auto best = std::max_element(expected.begin(), expected.end());
    const Token token = static_cast<Token>(best - expected.begin());
    expected = plain.Decode({token});
    ASSERT_TRUE(context->Decode(std::span(&token, 1), {}).value());
    ExpectSameLogits(context->Logits().value(), expected, step);
  }
}

TEST(Halves, ComputeTheSameLogitsAsAPlainLoad) {
  ROUSE_NEED_MODEL(path);
  CompareWithPlain(path, /*repack=*/false);
}

TEST(Halves, ComputeTheSameLogitsAsAPlainLoadWhenRepacked) {
  ROUSE_NEED_MODEL(path);
  CompareWithPlain(path, /*repack=*/true);
}

TEST(Halves, TokenizeAsAPlainLoadDoes) {
  ROUSE_NEED_MODEL(path);
  const Plain plain(path);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::Load(path).value();
  EXPECT_EQ(tokenizer->Tokenize(kText, {}).value(), plain.Tokenize(kText));
  ASSERT_EQ(tokenizer->size(), llama_vocab_n_tokens(plain.vocab()));
  for (Token token = 0; token < tokenizer->size(); ++token) {
    char text[256];
    const int32_t length = llama_token_to_piece(plain.vocab(), token, text, sizeof text, 0, false);
    ASSERT_EQ(tokenizer->AnswerBytes(token),
              std::string(text, static_cast<size_t>(std::max(length, 0))))
        << token;
    ASSERT_EQ(tokenizer->EndsAnswer(token), llama_vocab_is_eog(plain.vocab(), token)) << token;
  }
  EXPECT_FALSE(tokenizer->EndTokens().empty());
}

// An Egyptian hieroglyph is no token of any vocabulary: its four bytes come in several, none of
// which is a character.
TEST(Tokenizer, GivesTheBytesOfARareCharacterWhichTheGateJoins) {
  ROUSE_NEED_MODEL(path);
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::Load(path).value();
  const std::string bird = "\xF0\x93\x85\x93";
  const std::vector<Token> tokens = tokenizer->Tokenize(bird, {.add_special = false}).value();
  ASSERT_GT(tokens.size(), 1U);
  TextGate gate({});
  std::string text;
  for (const Token token : tokens) {
    EXPECT_FALSE(IsValidUtf8(tokenizer->AnswerBytes(token)));
    const std::string passed = gate.Push(tokenizer->AnswerBytes(token)).text;
    EXPECT_TRUE(passed.empty() || passed == bird);
    text += passed;
  }
  EXPECT_EQ(text, bird);
}

// Keeping a prefix and computing the rest gives what the same batches give without a cut.
TEST(Context, ForgetsWhatComesAfterAKeptPrefix) {
  ROUSE_NEED_MODEL(path);
  const std::unique_ptr<Weights> weights = Weights::Load(SplitOptions(path), {}).value();
  const auto make = [&] {
    return Context::Create(*weights, {.context_tokens = 512, .threads = 1}).value();
  };
  const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::Load(path).value();
  const std::vector<Token> prompt = tokenizer->Tokenize(kText, {}).value();
  const std::span<const Token> head = std::span(prompt).first(10);
  const std::span<const Token> tail = std::span(prompt).subspan(10);

  const std::unique_ptr<Context> straight = make();
  ASSERT_TRUE(straight->Decode(head, {}).value());
  ASSERT_TRUE(straight->Decode(tail, {}).value());

  const std::unique_ptr<Context> cut = make();
  ASSERT_TRUE(cut->Decode(head, {}).value());
  ASSERT_TRUE(cut->Decode(std::vector<Token>(40, 7), {}).value());
  ASSERT_EQ(cut->KeepPrefix(10), 10);
  EXPECT_EQ(std::ssize(cut->held()), 10);
  ASSERT_TRUE(cut->Decode(tail, {}).value());
  EXPECT_EQ(cut->held(), prompt);
  ExpectSameLogits(cut->Logits().value(), straight->Logits().value(), 0);
}

}  // namespace
}  // namespace rouse::engine
