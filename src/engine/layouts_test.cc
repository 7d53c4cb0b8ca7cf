// Logits are bit-identical to those of a plain load with the same layout, whatever became of the
// memory in between: on synthetic models of several shapes, mapped and repacked, in a larger
// context, after sleep, after a restored prefix. The plain load is a program on the library itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/context.h"
#include "engine/llama_runtime.h"
#include "engine/model.h"
#include "engine/model_file.h"
#include "engine/test_model.h"
#include "engine/test_synth.h"
#include "llama.h"

namespace rouse::engine {
namespace {

using Logits = std::vector<float>;

// The logits of each step of a greedy answer.
constexpr int kSteps = 8;

std::vector<Token> MakePrompt() {
  std::vector<Token> prompt;
  for (int i = 0; i < 70; ++i) prompt.push_back(static_cast<Token>(300 + (i * i * 31) % 900));
  return prompt;
}

Token Best(const Logits& logits) {
  return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
}

std::vector<Logits> PlainLogits(const std::string& path, bool repack, uint32_t context_tokens) {
  EnsureRuntime();
  llama_model_params model_params = llama_model_default_params();
  model_params.use_extra_bufts = repack;
  const std::unique_ptr<llama_model, decltype(&llama_model_free)> model(
      llama_model_load_from_file(path.c_str(), model_params), &llama_model_free);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = context_tokens;
  params.n_batch = params.n_ubatch = 512;
  params.n_threads = params.n_threads_batch = 1;
  const std::unique_ptr<llama_context, decltype(&llama_free)> context(
      llama_init_from_model(model.get(), params), &llama_free);
  const int32_t vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model.get()));
  std::vector<Logits> all;
  std::vector<Token> tokens = MakePrompt();
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_EQ(llama_decode(context.get(),
                           llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))),
              0);
    const float* logits = llama_get_logits_ith(context.get(), -1);
    all.emplace_back(logits, logits + vocabulary);
    tokens = {Best(all.back())};
  }
  return all;
}

std::vector<Logits> Run(Context& context, std::vector<Token> tokens) {
  std::vector<Logits> all;
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(context.Decode(tokens, {}).value());
    const std::span<const float> logits = context.Logits().value();
    all.emplace_back(logits.begin(), logits.end());
    tokens = {Best(all.back())};
  }
  return all;
}

void ExpectSame(const std::vector<Logits>& a, const std::vector<Logits>& b,
                const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size()) << what;
    ASSERT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)), 0)
        << what << ", step " << i;
  }
}

void CheckEveryState(const std::string& path, bool repack) {
  const std::string what = path + (repack ? " repacked" : " mapped");
  const std::vector<Logits> expected = PlainLogits(path, repack, 512);
  const std::vector<gguf::Header> parts = {gguf::ReadHeader(path).value()};
  const Weights::Options options = {.path = path,
                                    .architecture = parts[0].Architecture(),
                                    .vocabulary_tokens = parts[0].VocabularySize(),
                                    .repack = repack};
  const std::unique_ptr<Weights> weights = Weights::Load(options, {}).value();
  EXPECT_EQ(weights->private_bytes().value() > 0, repack) << what;
  const EngineOptions small = {.context_tokens = 512, .threads = 1, .batch_tokens = 512};
  const std::unique_ptr<Context> context = Context::Create(*weights, small).value();
  const std::vector<Token> prompt = MakePrompt();
  ExpectSame(Run(*context, prompt), expected, what);

  EngineOptions large = small;
  large.context_tokens = 2048;
  ExpectSame(Run(*Context::Create(*weights, large).value(), prompt), expected, what + " grown");
  ExpectSame(PlainLogits(path, repack, 2048), expected, what + " grown, plain");

  // Asleep: the memory of KV and compute buffers, and the pages of the file.
  const std::vector<FileMapping> mappings = weights->Mappings(parts);
  EXPECT_FALSE(mappings.empty()) << what;
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(DropMappedPages(mappings).ok());
    EXPECT_EQ(context->DropMemory(), ROUSE_ENGINE_EDITS == 1);
    EXPECT_TRUE(context->held().empty());
    ExpectSame(Run(*context, prompt), expected, what + " woken");
  }

  // A prefix that left the context and came back, against one that stayed.
  const auto rest = std::span(prompt).subspan(40);
  context->Clear();
  ASSERT_TRUE(context->Decode(std::span(prompt).first(40), {}).value());
  const std::vector<Token> held = context->held();
  const std::vector<std::byte> state = context->SaveState();
  ASSERT_FALSE(state.empty());
  const std::vector<Logits> stayed = Run(*context, {rest.begin(), rest.end()});
  context->DropMemory();
  ASSERT_TRUE(context->RestoreState(held, state));
  ExpectSame(Run(*context, {rest.begin(), rest.end()}), stayed, what + " restored");
  const std::unique_ptr<Context> fresh = Context::Create(*weights, large).value();
  ASSERT_TRUE(fresh->RestoreState(held, state));
  ExpectSame(Run(*fresh, {rest.begin(), rest.end()}), stayed, what + " restored elsewhere");
  EXPECT_FALSE(fresh->RestoreState(held, std::span(state).first(state.size() / 2)));
  EXPECT_TRUE(fresh->held().empty()) << "after a state that was refused";
}

TEST(Layouts, ComputeTheSameInEveryStateOnEveryShape) {
  for (const gguf::SyntheticShape& shape : SmallShapes()) {
    const std::string path = WriteSmallModel(shape);
    for (const bool repack : {false, true}) CheckEveryState(path, repack);
    unlink(path.c_str());
  }
}

TEST(Layouts, ComputeTheSameInEveryStateOnTheRealModel) {
  ROUSE_NEED_MODEL(path);
  CheckEveryState(path, false);
}

}  // namespace
}  // namespace rouse::engine
