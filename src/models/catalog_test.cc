#include "models/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gguf/test_bytes.h"

namespace rouse::models {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An empty cache of its own, and no models from the caller's environment.
class CatalogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("ROUSE_CACHE", folder_.path().c_str(), 1);
    unsetenv("ROUSE_MODELS");
    std::filesystem::create_directory(folder_.path() + "/models");
  }
  void TearDown() override {
    unsetenv("ROUSE_CACHE");
    unsetenv("ROUSE_MODELS");
  }
  std::string WriteModel(const std::string& name) {
    return folder_.Write("models/" + name, gguf::SoundFile().str());
  }

  gguf::TestFolder folder_;
};

const CatalogEntry* Find(const std::vector<CatalogEntry>& entries, const std::string& name) {
  for (const CatalogEntry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

TEST_F(CatalogTest, FollowsTheCacheVariablesInTheirOrder) {
  EXPECT_EQ(ModelsFolder(), folder_.path() + "/models");
  unsetenv("ROUSE_CACHE");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(ModelsFolder(), "/xdg/rouse/models");
  unsetenv("XDG_CACHE_HOME");
  const std::string home = std::getenv("HOME");
  setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(ModelsFolder(), "/home/someone/.cache/rouse/models");
  setenv("HOME", home.c_str(), 1);
  setenv("ROUSE_MODELS", "/a::/b", 1);
  EXPECT_THAT(SearchFolders(), ElementsAre("/a", "/b", home + "/.cache/rouse/models"));
}

TEST_F(CatalogTest, ListsTheDefaultModelAsAbsentWithTheWayToGetIt) {
  const std::vector<CatalogEntry> entries = List();
  const CatalogEntry* const entry = Find(entries, std::string(kDefaultModel));
  ASSERT_NE(entry, nullptr);
  EXPECT_FALSE(entry->present);
  EXPECT_TRUE(entry->is_default);
  EXPECT_EQ(entry->bytes, 98'362'432);
  EXPECT_EQ(entry->path, folder_.path() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf");
  EXPECT_THAT(entry->how_to_get, HasSubstr("./dev run"));
}

TEST_F(CatalogTest, ResolvesAKnownModelThatIsNotHereToTheWayToGetIt) {
  const Result<ModelFile> file = Resolve(kDefaultModel);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message(), AllOf(HasSubstr("smollm2-135m is not here"),
                                            HasSubstr("./dev run"), HasSubstr(folder_.path())));
}

TEST_F(CatalogTest, ListsAndResolvesWhatLiesInTheFolders) {
  const std::string path = WriteModel("tiny.gguf");
  const Result<ModelFile> file = Resolve("tiny");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->path, path);
  EXPECT_EQ(file->name, "tiny");
  EXPECT_EQ(file->bytes, gguf::SoundFile().size());
  EXPECT_THAT(file->parts, ElementsAre(path));
  const std::vector<CatalogEntry> entries = List();
  const CatalogEntry* const entry = Find(entries, "tiny");
  ASSERT_NE(entry, nullptr);
  EXPECT_TRUE(entry->present);
  EXPECT_EQ(entry->bytes, gguf::SoundFile().size());
  EXPECT_EQ(entry->sha256, std::nullopt);
  EXPECT_TRUE(entry->problem.empty());
}

TEST_F(CatalogTest, PrefersTheUsersFoldersToItsOwn) {
  WriteModel("tiny.gguf");
  const gguf::TestFolder other;
  const std::string path = other.Write("tiny.gguf", gguf::SoundFile().str());
  setenv("ROUSE_MODELS", other.path().c_str(), 1);
  const Result<ModelFile> file = Resolve("tiny");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->path, path);
}

TEST_F(CatalogTest, NamesTheNearestModelForATypo) {
  WriteModel("tiny-llama.gguf");
  const Result<ModelFile> typo = Resolve("tiny-lama");
  ASSERT_FALSE(typo.ok());
  EXPECT_EQ(typo.error().code(), ErrorCode::kUsage);
  EXPECT_THAT(typo.error().message(),
              AllOf(HasSubstr("did you mean tiny-llama?"), HasSubstr("./dev run")));
  const Result<ModelFile> known = Resolve("smolm2-135m");
  ASSERT_FALSE(known.ok());
  EXPECT_THAT(known.error().message(), HasSubstr("did you mean smollm2-135m?"));
}

TEST_F(CatalogTest, TakesPathsAsTheyAreAndBareFileNamesFromTheFolders) {
  const std::string path = WriteModel("tiny.gguf");
  EXPECT_TRUE(Resolve(path).ok());
  const Result<ModelFile> bare = Resolve("tiny.gguf");
  ASSERT_TRUE(bare.ok()) << bare.error().message();
  EXPECT_EQ(bare->path, path);
  const Result<ModelFile> missing = Resolve("./nowhere.gguf");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message(),
              AllOf(HasSubstr("no model file ./nowhere.gguf"), HasSubstr("smollm2-135m")));
}

TEST_F(CatalogTest, SaysWhatIsWrongWithAFileInsteadOfHidingIt) {
  folder_.Write("models/broken.gguf", "<html>");
  folder_.Write("models/SmolLM2-135M-Instruct.Q4_1.gguf", gguf::SoundFile().str());
  const std::vector<CatalogEntry> entries = List();
  EXPECT_THAT(Find(entries, "broken")->problem, HasSubstr("HTML page"));
  const CatalogEntry* const changed = Find(entries, std::string(kDefaultModel));
  EXPECT_TRUE(changed->present);
  EXPECT_THAT(changed->problem, HasSubstr("it is another one"));
  EXPECT_EQ(changed->sha256, std::nullopt);
  EXPECT_EQ(changed->bytes, gguf::SoundFile().size());
}

TEST_F(CatalogTest, ListsASplitModelOnceWithTheBytesOfAllParts) {
  int64_t bytes = 0;
  for (uint16_t i = 0; i < 2; ++i) {
    gguf::TestBytes part;
    part.Head(1, 2).Key("split.no", 2).Put(i).Key("split.count", 2).Put(uint16_t{2});
    part.TensorRow("t" + std::to_string(i), {8}, 0, 0).PadTo(32).Zeros(32);
    folder_.Write("models/big-0000" + std::to_string(i + 1) + "-of-00002.gguf", part.str());
    bytes += part.size();
  }
  const std::vector<CatalogEntry> entries = List();
  const CatalogEntry* const entry = Find(entries, "big");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->bytes, bytes);
  EXPECT_EQ(Find(entries, "big-00002-of-00002"), nullptr);
  const Result<ModelFile> file = Resolve("big");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->parts.size(), 2U);
}

TEST_F(CatalogTest, DigestsAFileAsTheStandardSays) {
  // FIPS 180-2's example "abc", and a million letters "a" (not a multiple of a page).
  const std::string abc = folder_.Write("abc", "abc");
  EXPECT_EQ(*FileSha256(abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string many = folder_.Write("many", std::string(1'000'000, 'a'));
  int64_t heard_bytes = 0;
  const Result<std::string> digest =
      FileSha256(many, [&heard_bytes](int64_t bytes) { heard_bytes = bytes; });
  EXPECT_EQ(*digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(heard_bytes, 1'000'000);
  const std::atomic<bool> cancel{true};
  EXPECT_EQ(FileSha256(many, {}, &cancel).error().code(), ErrorCode::kInterrupted);
  EXPECT_EQ(FileSha256(folder_.path() + "/none").error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace rouse::models
