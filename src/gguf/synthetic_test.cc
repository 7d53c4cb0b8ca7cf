#include "gguf/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "gguf/header.h"
#include "gguf/synthetic_shape.h"
#include "gguf/tensor_table.h"
#include "gguf/test_bytes.h"

namespace rouse::gguf {
namespace {

using ::testing::HasSubstr;

SyntheticSpec Tiny(const std::string& quant) {
  return {.like = "tiny", .quant = quant, .vocabulary = "32k", .seed = 4};
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct FreeModel {
  void operator()(llama_model* model) const { llama_model_free(model); }
  void operator()(llama_context* context) const { llama_free(context); }
};

// Loads the model with the engine and returns the logits after `text`.
std::vector<float> LogitsAfter(const std::string& path, const std::string& text) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  const std::unique_ptr<llama_model, FreeModel> model(
      llama_model_load_from_file(path.c_str(), model_params));
  if (model == nullptr) return {};
  llama_context_params context_params = llama_context_default_params();
  context_params.n_ctx = 64;
  context_params.n_threads = 1;
  context_params.n_threads_batch = 1;
  const std::unique_ptr<llama_context, FreeModel> context(
      llama_init_from_model(model.get(), context_params));
  if (context == nullptr) return {};
  const llama_vocab* const vocab = llama_model_get_vocab(model.get());
  std::vector<llama_token> tokens(64);
  const int count = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                                   64, false, true);
  if (count <= 0) return {};
  if (llama_decode(context.get(), llama_batch_get_one(tokens.data(), count)) != 0) return {};
  const float* const logits = llama_get_logits_ith(context.get(), -1);
  return {logits, logits + llama_vocab_n_tokens(vocab)};
}

class SyntheticQuantTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SyntheticQuantTest, LoadsInTheEngineAndGivesFiniteLogitsThatDiffer) {
  const TestFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  const Result<SyntheticReport> report = WriteSynthetic(path, Tiny(GetParam()));
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(static_cast<uintmax_t>(report->file_bytes), std::filesystem::file_size(path));
  const std::vector<float> logits = LogitsAfter(path, "Hello, Welt! \xe2\x82\xac\n");
  ASSERT_EQ(logits.size(), 32'000U);
  for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit));
  const auto [lowest, highest] = std::ranges::minmax(logits);
  EXPECT_GT(highest - lowest, 1.0F);
  EXPECT_LT(highest - lowest, 100.0F);
  EXPECT_NE(LogitsAfter(path, "Something else"), logits);
}

INSTANTIATE_TEST_SUITE_P(Quants, SyntheticQuantTest, ::testing::Values("q4_0", "q8_0", "f16"));

TEST(WriteSynthetic, GivesTheSameBytesForTheSameSeedAndOthersForAnother) {
  const TestFolder folder;
  SyntheticSpec spec = Tiny("q4_0");
  ASSERT_TRUE(WriteSynthetic(folder.path() + "/a", spec).ok());
  ASSERT_TRUE(WriteSynthetic(folder.path() + "/b", spec).ok());
  spec.seed = 5;
  ASSERT_TRUE(WriteSynthetic(folder.path() + "/c", spec).ok());
  EXPECT_EQ(Content(folder.path() + "/a"), Content(folder.path() + "/b"));
  EXPECT_NE(Content(folder.path() + "/a"), Content(folder.path() + "/c"));
}

TEST(WriteSynthetic, NamesTheNearestOfAnUnknownName) {
  SyntheticSpec spec = Tiny("q4_0");
  spec.like = "lama-1b";
  const Result<SyntheticReport> shape = WriteSynthetic("/nonexistent/m.gguf", spec);
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().code(), ErrorCode::kUsage);
  EXPECT_THAT(shape.error().message(), HasSubstr("did you mean llama-1b?"));
  const Result<SyntheticReport> quant = WriteSynthetic("/nonexistent/m.gguf", Tiny("q5_0"));
  ASSERT_FALSE(quant.ok());
  EXPECT_THAT(quant.error().message(), HasSubstr("there are q4_0, q8_0, f16"));
}

TEST(WriteSynthetic, StopsWhenCancelledAndLeavesNothing) {
  const TestFolder folder;
  const std::atomic<bool> cancel{true};
  const Result<SyntheticReport> report =
      WriteSynthetic(folder.path() + "/m.gguf", Tiny("q4_0"), {}, &cancel);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), ErrorCode::kInterrupted);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Bytes of all tensors of a shape, without padding.
int64_t BytesOf(std::string_view name, uint32_t type, int64_t vocabulary_size) {
  int64_t bytes = 0;
  for (const SyntheticShape& shape : SyntheticShapes()) {
    if (shape.name != name) continue;
    for (const SyntheticTensor& tensor : SyntheticTensors(shape, type, vocabulary_size)) {
      bytes += TensorBytes(tensor.dims, *FindTensorType(tensor.type)).value_or(0);
    }
  }
  return bytes;
}

TEST(SyntheticShapes, AreAsLargeAsTheModelsThatTheyAreNamedAfter) {
  // Published parameter counts: 1,235,814,400 and 3,212,749,824; q4_0 takes 4.5 bits for each.
  EXPECT_NEAR(static_cast<double>(BytesOf("llama-1b", kTypeF16, 128'256)), 2.0 * 1'235'814'400,
              2e5);
  EXPECT_NEAR(static_cast<double>(BytesOf("llama-3b", kTypeF16, 128'256)), 2.0 * 3'212'749'824,
              1e6);
  EXPECT_NEAR(static_cast<double>(BytesOf("qwen-0.5b", kTypeF16, 151'936)), 2.0 * 494'032'768, 2e5);
  EXPECT_NEAR(static_cast<double>(BytesOf("llama-1b", kTypeQ4_0, 128'256)), 695e6, 1e6);
}

}  // namespace
}  // namespace rouse::gguf
