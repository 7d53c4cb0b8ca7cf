// Model files that are missing, cut, foreign or absurd, and options that can't be met: each is an
// error with one sentence, never the end of the process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/fd.h"
#include "engine/engine.h"
#include "engine/test_model.h"
#include "gguf/header.h"

namespace rouse::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ModelFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/rouse_model_faults_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The error of loading `path`, which must be one.
  static Error LoadError(const std::string& path, EngineOptions options = {}) {
    options.model_path = path;
    const std::unique_ptr<Engine> engine = MakeLlamaEngine(std::move(options)).value();
    const Result<LoadReport> report = engine->Load({}, {});
    EXPECT_FALSE(report.ok()) << path << " was loaded";
    EXPECT_EQ(engine->Facts()->weights.state, LayerState::kAbsent);
    EXPECT_EQ(engine->Facts()->context.state, LayerState::kAbsent);
    return report.ok() ? Error(ErrorCode::kInternal, "loaded") : report.error();
  }

  // A copy of the model with four bytes of one metadata value replaced.
  template <typename Value>
  std::string Patched(const std::string& model, const std::string& key, Value value) {
    static_assert(sizeof value == 4);
    const std::string copy = folder_ + "/patched.gguf";
    std::filesystem::copy_file(model, copy, std::filesystem::copy_options::overwrite_existing);
    const gguf::Header header = gguf::ReadHeader(copy).value();
    const gguf::Entry* entry = header.Find(key);
    EXPECT_NE(entry, nullptr) << key;
    const Fd fd = OpenFile(copy, O_RDWR).value();
    EXPECT_EQ(pwrite(fd.get(), &value, 4, entry->offset), 4);
    return copy;
  }

  std::string folder_;
};

TEST_F(ModelFaultsTest, NamesAMissingFile) {
  const std::string path = folder_ + "/missing.gguf";
  const Error error = LoadError(path);
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr(path));
}

TEST_F(ModelFaultsTest, NamesADirectoryAndAForeignFile) {
  EXPECT_THAT(LoadError(folder_).message(), HasSubstr(folder_));
  const std::string text = folder_ + "/text.gguf";
  std::ofstream(text) << "this is no model, it is a long enough text of more than 24 bytes";
  const Error error = LoadError(text);
  EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr(text));
}

TEST_F(ModelFaultsTest, FindsCutDataBeforeAnythingIsMapped) {
  ROUSE_NEED_MODEL(path);
  const std::string copy = folder_ + "/cut.gguf";
  std::filesystem::copy_file(path, copy);
  const auto whole = std::filesystem::file_size(copy);
  for (const auto bytes :
       {whole - 1000, whole / 2, std::uintmax_t{1'000'000}, std::uintmax_t{20}}) {
    std::filesystem::resize_file(copy, bytes);
    const Error error = LoadError(copy);
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << bytes << ": " << error.message();
    EXPECT_THAT(error.message(), HasSubstr(copy));
  }
}

// Numbers at which the library's own assertions would end the process.
TEST_F(ModelFaultsTest, SurvivesAbsurdNumbersInTheHeader) {
  ROUSE_NEED_MODEL(path);
  if (gguf::ReadHeader(path).value().Architecture() != "llama") GTEST_SKIP() << "another model";
  for (const uint32_t layers : {0U, 100'000U}) {
    const std::string patched = Patched(path, "llama.block_count", layers);
    EXPECT_THAT(LoadError(patched).message(), AllOf(HasSubstr(patched), HasSubstr("n_layer")));
  }
  for (const float epsilon : {-1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    const std::string patched = Patched(path, "llama.attention.layer_norm_rms_epsilon", epsilon);
    EXPECT_THAT(LoadError(patched).message(), HasSubstr("epsilon"));
  }
  EXPECT_THAT(LoadError(Patched(path, "llama.attention.head_count", 0U)).message(),
              HasSubstr("patched.gguf"));
  EXPECT_THAT(LoadError(Patched(path, "llama.embedding_length", 577U)).message(),
              HasSubstr("patched.gguf"));
}

TEST_F(ModelFaultsTest, KeepsTheBuildersFoldersOutOfItsSentences) {
  ROUSE_NEED_MODEL(path);
  if (gguf::ReadHeader(path).value().Architecture() != "llama") GTEST_SKIP() << "another model";
  const Error error = LoadError(Patched(path, "llama.block_count", 0U));
  EXPECT_THAT(error.message(), Not(HasSubstr("/src/llama-model.cpp")));
  EXPECT_THAT(error.message(), Not(HasSubstr("\n")));
}

TEST_F(ModelFaultsTest, RefusesAContextThatDoesNotFitIntoMemory) {
  ROUSE_NEED_MODEL(path);
  const Error error = LoadError(path, {.context_tokens = 2'000'000'000});
  EXPECT_EQ(error.code(), ErrorCode::kExhausted);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("2000000000"), HasSubstr("--context")));
}

// The template is not parsed any more when the context has failed: that is what has to be told, and
// not that the model had no usable template.
TEST_F(ModelFaultsTest, TellsALoadsErrorToWhomeverWaitsForItsTemplate) {
  ROUSE_NEED_MODEL(path);
  EngineOptions options;
  options.model_path = path;
  options.context_tokens = 2'000'000'000;
  const std::unique_ptr<Engine> engine = MakeLlamaEngine(std::move(options)).value();
  for (int round = 0; round < 2; ++round) {
    engine->StartLoad({.stop = {}, .observer = {}, .done = {}, .prompt_tokens = {}});
    const Result<std::string> text =
        engine->ApplyTemplate(R"([{"role": "user", "content": "Hi"}])", {});
    if (!text.ok()) {
      EXPECT_EQ(text.error().code(), ErrorCode::kState);
      EXPECT_THAT(text.error().message(), HasSubstr("--context"));
    }
    const Result<LoadReport> report = engine->FinishLoad();
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().message(), HasSubstr("--context"));
  }
}

TEST(MakeLlamaEngine, RefusesOptionsAndNamesTheFlag) {
  const auto message = [](EngineOptions options) {
    if (options.model_path.empty()) options.model_path = "x.gguf";
    const Result<std::unique_ptr<Engine>> engine = MakeLlamaEngine(std::move(options));
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? "" : engine.error().message();
  };
  EXPECT_THAT(message({.context_tokens = -1}), HasSubstr("--context"));
  EXPECT_THAT(message({.threads = 100'000}), HasSubstr("--threads"));
  EXPECT_THAT(message({.batch_tokens = 0}), HasSubstr("--batch"));
  EXPECT_THAT(message({.cache_type_k = "q9"}), AllOf(HasSubstr("--cache-type-k"), HasSubstr("q9")));
  EXPECT_THAT(message({.flash_attention = FlashAttention::kOff, .cache_type_v = "q8_0"}),
              HasSubstr("--flash-attn"));
  EXPECT_THAT(message({.gpu_layers = -2}), HasSubstr("--gpu-layers"));
  if (!GetEngineInfo().gpu_offload) {
    EXPECT_THAT(message({.gpu_layers = 1}), HasSubstr("no GPU backend"));
  }
  EXPECT_FALSE(MakeLlamaEngine({}).ok()) << "without a model";
}

}  // namespace
}  // namespace rouse::engine
