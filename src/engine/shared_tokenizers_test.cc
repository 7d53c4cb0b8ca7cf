#include "engine/shared_tokenizers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/test_synth.h"
#include "gguf/header.h"

namespace rouse::engine {
namespace {

constexpr char kText[] = "The old river, 1234 times: \xc3\xa9t\xc3\xa9";

class SharedTokenizersTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : files_) std::remove(path.c_str());
  }

  std::string File(size_t shape) {
    files_.push_back(WriteSmallModel(SmallShapes()[shape]));
    return files_.back();
  }

  static std::unique_ptr<Engine> Make(const std::string& path) {
    EngineOptions options;
    options.model_path = path;
    options.context_tokens = 256;
    Result<std::unique_ptr<Engine>> engine = MakeLlamaEngine(options);
    EXPECT_TRUE(engine.ok());
    return std::move(engine).value();
  }

  static std::vector<std::string> StepsOf(Engine& engine) {
    const Result<LoadReport> report = engine.Load({}, {});
    EXPECT_TRUE(report.ok()) << report.error().message();
    std::vector<std::string> names;
    for (const Step& step : report->steps) names.push_back(step.name);
    return names;
  }

  static bool Has(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  }

 private:
  std::vector<std::string> files_;
};

constexpr size_t kLlama = 0;
constexpr size_t kQwen = 1;     // another way to split words
constexpr size_t kMixture = 2;  // of the same vocabulary as kLlama

TEST_F(SharedTokenizersTest, ASecondModelOfTheSameVocabularyLoadsNone) {
  const auto first = Make(File(kLlama));
  EXPECT_TRUE(Has(StepsOf(*first), "tokenizer"));
  EXPECT_FALSE(first->Facts()->tokenizer_shared);
  auto second = Make(File(kMixture));
  const std::vector<std::string> steps = StepsOf(*second);
  EXPECT_TRUE(Has(steps, "tokenizer (shared)"));
  EXPECT_FALSE(Has(steps, "tokenizer"));
  EXPECT_TRUE(second->Facts()->tokenizer_shared);
  EXPECT_EQ(second->Facts()->tokenizer.state, LayerState::kReady);
  EXPECT_EQ(second->Tokenize(kText, {}).value(), first->Tokenize(kText, {}).value());
}

TEST_F(SharedTokenizersTest, ItStaysWhenTheEngineThatLoadedItHasGone) {
  auto first = Make(File(kLlama));
  StepsOf(*first);
  const std::vector<Token> tokens = first->Tokenize(kText, {}).value();
  const auto second = Make(File(kMixture));
  StepsOf(*second);
  first->Unload();
  EXPECT_EQ(second->Tokenize(kText, {}).value(), tokens);
  first = nullptr;
  EXPECT_EQ(second->Tokenize(kText, {}).value(), tokens);
  const Result<GenerateReport> answer =
      second->Generate({.prompt = tokens, .sampling = {.temperature = 0}, .max_tokens = 2}, {}, {});
  ASSERT_TRUE(answer.ok()) << answer.error().message();
  // And whoever comes later still finds it, though not where it was loaded from.
  const auto third = Make(File(kLlama));
  EXPECT_TRUE(Has(StepsOf(*third), "tokenizer (shared)"));
}

TEST_F(SharedTokenizersTest, NothingIsKeptWithoutAnEngineThatUsesIt) {
  auto first = Make(File(kLlama));
  StepsOf(*first);
  first = nullptr;
  EXPECT_FALSE(SharedTokenizers::Instance().Any());
  const auto second = Make(File(kMixture));
  EXPECT_TRUE(Has(StepsOf(*second), "tokenizer"));
}

TEST_F(SharedTokenizersTest, AnotherVocabularyIsLoaded) {
  const auto first = Make(File(kLlama));
  StepsOf(*first);
  const auto second = Make(File(kQwen));
  EXPECT_TRUE(Has(StepsOf(*second), "tokenizer"));
  EXPECT_FALSE(second->Facts()->tokenizer_shared);
}

TEST_F(SharedTokenizersTest, TheVocabularyOfAFileThatWasWrittenToIsNotTrusted) {
  const std::string path = File(kLlama);
  const auto first = Make(path);
  StepsOf(*first);
  std::FILE* const file = std::fopen(path.c_str(), "ab");
  ASSERT_NE(file, nullptr);
  std::fputc('x', file);
  std::fclose(file);
  const auto second = Make(File(kMixture));
  EXPECT_TRUE(Has(StepsOf(*second), "tokenizer"));
}

// What the digest must see, and what it must not.
TEST_F(SharedTokenizersTest, ADigestTellsVocabulariesApartAndNothingElse) {
  const Result<gguf::Header> header = gguf::ReadHeader(File(kLlama));
  ASSERT_TRUE(header.ok());
  const std::string digest = VocabularyDigest(*header).value();
  gguf::Header other = *header;
  const auto entry = [&](const char* key) {
    return std::ranges::find(other.metadata, key, &gguf::Entry::key);
  };
  entry("general.name")->value = std::string("Another Name");
  EXPECT_EQ(VocabularyDigest(other).value(), digest);
  entry("general.name")->value = std::string("Phi-3 mini");
  EXPECT_NE(VocabularyDigest(other).value(), digest);
  other = *header;
  entry("general.architecture")->value = std::string("jina-bert-v3");
  EXPECT_NE(VocabularyDigest(other).value(), digest);
  other = *header;
  for (gguf::Entry& one : other.metadata) {
    if (one.key.starts_with("tokenizer.") && one.value.index() == 2) {
      one.value = uint64_t{77};  // a special token's number
    }
  }
  EXPECT_NE(VocabularyDigest(other).value(), digest);
  other = *header;
  other.metadata.erase(entry("tokenizer.ggml.merges"));
  EXPECT_NE(VocabularyDigest(other).value(), digest);
}

}  // namespace
}  // namespace rouse::engine
