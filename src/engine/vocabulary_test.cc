// The library with rouse's edits knows exactly the vocabularies that it knows without them. The
// hashes in tests/fixtures/vocabularies.tsv were made by the unedited library:
//
//   ./dev build --preset plain -DROUSE_ENGINE_EDITS=OFF   (any preset name of your own)
//   ROUSE_WRITE_VOCABULARY_HASHES=tests/fixtures/vocabularies.tsv
//       build/plain/src/engine/rouse_engine_test --gtest_filter='Vocabulary.*'
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engine/test_model.h"
#include "engine/vocabulary_hash.h"
#include "gguf/synthetic_vocabulary.h"
#include "gguf/writer.h"

namespace rouse::engine {
namespace {

constexpr char kFixture[] = ROUSE_SOURCE_DIR "/tests/fixtures/vocabularies.tsv";

std::map<std::string, std::string> ReadFixture() {
  std::map<std::string, std::string> hashes;
  std::ifstream file(kFixture);
  std::string name;
  std::string hash;
  while (file >> name >> hash) hashes[name] = hash;
  return hashes;
}

// Compares with the fixture, or adds to it when asked to.
void Check(const std::string& name, const std::string& path) {
  const Result<std::string> hash = HashVocabulary(path);
  ASSERT_TRUE(hash.ok()) << hash.error().message();
  if (const char* target = std::getenv("ROUSE_WRITE_VOCABULARY_HASHES")) {
    ASSERT_FALSE(ROUSE_ENGINE_EDITS) << "hashes are made without edits";
    std::ofstream(target, std::ios::app) << name << "\t" << *hash << "\n";
    return;
  }
  const auto known = ReadFixture();
  const auto found = known.find(name);
  ASSERT_NE(found, known.end()) << name << " has no hash in " << kFixture;
  EXPECT_EQ(*hash, found->second) << name;
}

TEST(Vocabulary, OfEveryFileOfTheEngineIsWhatItIsWithoutEdits) {
#ifdef ROUSE_ENGINE_VOCABULARIES
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(ROUSE_ENGINE_VOCABULARIES)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  EXPECT_GE(files.size(), 19U);
  for (const auto& file : files) Check(file.stem().string(), file.string());
#else
  GTEST_SKIP() << "this engine came without its vocabulary files";
#endif
}

TEST(Vocabulary, OfTheDefaultModelIsWhatItIsWithoutEdits) {
  ROUSE_NEED_MODEL(path);
  if (path.find("SmolLM2-135M-Instruct.Q4_1") == std::string::npos) GTEST_SKIP() << "another model";
  Check("smollm2-135m", path);
}

// What no file of the engine has: equal rules, rules without a gap or with two, control tokens
// called unused, several ends of turn of which none is named, bytes that are no UTF-8.
std::string WriteOdd(const std::string& model, const std::string& pre, int variant) {
  gguf::SyntheticVocabulary vocabulary = gguf::MakeVocabulary(4096, 7);
  std::vector<std::string>& merges = vocabulary.merges;
  std::vector<std::string>& tokens = vocabulary.tokens;
  const auto replace = [&](size_t id, const std::string& text, int32_t type) {
    tokens[id] = text;
    vocabulary.types[id] = type;
  };
  const size_t last = tokens.size() - 1;
  replace(last - 0, "<end_of_turn>", 1);
  replace(last - 1, "<|eot_id|>", 3);
  replace(last - 2, "<EOT>", 4);
  replace(last - 3, "<|channel|>", 3);
  replace(last - 4, "something unused here", 3);
  replace(last - 5, "<fim_prefix>", 1);
  replace(last - 6, "<PRE>", 1);
  replace(last - 7, "\xe2\x96\x81<PRE>", 1);
  replace(last - 8, "[PAD]", 1);
  replace(last - 9, "_<EOT>", 1);
  replace(last - 10, "\xff\xfe no utf-8", 1);
  replace(last - 11, "\xc4", 1);
  replace(last - 12, "\xe2\x96\x81word\xe2\x96\x81", 1);
  replace(last - 13, "\xc7\x90", 1);
  replace(last - 14, "<0x41>", 6);
  replace(last - 15, "", 1);
  replace(last - 16, "</s>", 2);
  for (int i = 0; i < variant; ++i)
    std::rotate(tokens.begin() + 256, tokens.begin() + 999, tokens.end());
  merges.insert(merges.begin() + 5, merges[0]);
  merges.insert(merges.begin() + 9, "nogap");
  merges.insert(merges.begin() + 12, "two gaps here");
  merges.insert(merges.begin() + 13, " leading");
  merges.emplace_back("nogap");
  merges.emplace_back("");
  merges.push_back(std::string(300, 'a') + " " + std::string(300, 'b'));
  const std::string path = testing::TempDir() + "rouse-odd-" + std::to_string(getpid()) + ".gguf";
  gguf::Writer writer(path);
  writer.AddString("general.architecture", "llama");
  writer.AddString("general.name", "odd");
  writer.AddString("tokenizer.ggml.model", model);
  writer.AddString("tokenizer.ggml.pre", pre);
  writer.AddStrings("tokenizer.ggml.tokens", tokens);
  writer.AddInts("tokenizer.ggml.token_type", vocabulary.types);
  writer.AddStrings("tokenizer.ggml.merges", merges);
  EXPECT_TRUE(writer.BeginData().ok());
  EXPECT_TRUE(writer.Finish().ok());
  return path;
}

TEST(Vocabulary, OfOddFilesIsWhatItIsWithoutEdits) {
  struct Kind {
    const char* model;
    const char* pre;
  };
  for (const Kind& kind :
       {Kind{"gpt2", "llama-bpe"}, Kind{"gpt2", "qwen2"}, Kind{"gemma4", "gemma4"}}) {
    for (int variant = 0; variant < 3; ++variant) {
      const std::string path = WriteOdd(kind.model, kind.pre, variant);
      Check("odd-" + std::string(kind.pre) + "-" + std::to_string(variant), path);
      unlink(path.c_str());
    }
  }
}

}  // namespace
}  // namespace rouse::engine
