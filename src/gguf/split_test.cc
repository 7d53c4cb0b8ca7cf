#include "gguf/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/test_bytes.h"

namespace rouse::gguf {
namespace {

using ::testing::HasSubstr;

TestBytes Part(uint16_t number, uint16_t count, int32_t tensors, const std::string& tensor) {
  TestBytes bytes;
  bytes.Head(1, 3).Key("split.no", 2).Put(number).Key("split.count", 2).Put(count);
  bytes.Key("split.tensors.count", 5).Put(tensors);
  bytes.TensorRow(tensor, {8}, 0, 0).PadTo(32).Zeros(32);
  return bytes;
}

TEST(ReadAllParts, GivesAWholeFileAsItsOnlyPart) {
  const TestFolder folder;
  const std::string path = folder.Write("m.gguf", SoundFile().str());
  const Result<std::vector<Header>> parts = ReadAllParts(path);
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  ASSERT_EQ(parts->size(), 1U);
  EXPECT_EQ((*parts)[0].path, path);
}

TEST(ReadAllParts, FindsTheOtherPartsFromAnyOfThem) {
  const TestFolder folder;
  folder.Write("m-00001-of-00002.gguf", Part(0, 2, 2, "a").str());
  const std::string second = folder.Write("m-00002-of-00002.gguf", Part(1, 2, 2, "b").str());
  const Result<std::vector<Header>> parts = ReadAllParts(second);
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  ASSERT_EQ(parts->size(), 2U);
  EXPECT_EQ((*parts)[0].tensors[0].name, "a");
  EXPECT_EQ((*parts)[1].tensors[0].name, "b");
}

TEST(ReadAllParts, NamesAPartThatIsMissing) {
  const TestFolder folder;
  const std::string first = folder.Write("m-00001-of-00002.gguf", Part(0, 2, 2, "a").str());
  const Result<std::vector<Header>> parts = ReadAllParts(first);
  ASSERT_FALSE(parts.ok());
  EXPECT_EQ(parts.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(parts.error().message(), HasSubstr("m-00002-of-00002.gguf (part 2 of 2"));
}

TEST(ReadAllParts, RefusesARenamedPartAndAForeignOne) {
  const TestFolder folder;
  const std::string renamed = folder.Write("renamed.gguf", Part(0, 2, 2, "a").str());
  const Result<std::vector<Header>> lost = ReadAllParts(renamed);
  ASSERT_FALSE(lost.ok());
  EXPECT_THAT(lost.error().message(), HasSubstr("-00001-of-00002.gguf\""));

  const std::string first = folder.Write("m-00001-of-00002.gguf", Part(0, 2, 2, "a").str());
  folder.Write("m-00002-of-00002.gguf", Part(0, 2, 2, "b").str());
  const Result<std::vector<Header>> swapped = ReadAllParts(first);
  ASSERT_FALSE(swapped.ok());
  EXPECT_THAT(swapped.error().message(), HasSubstr("says it is part 1 of 2"));
}

TEST(ReadAllParts, RefusesPartsOfDifferentModels) {
  const TestFolder folder;
  const std::string first = folder.Write("m-00001-of-00002.gguf", Part(0, 2, 5, "a").str());
  folder.Write("m-00002-of-00002.gguf", Part(1, 2, 5, "b").str());
  const Result<std::vector<Header>> parts = ReadAllParts(first);
  ASSERT_FALSE(parts.ok());
  EXPECT_THAT(parts.error().message(), HasSubstr("a model of 5 tensors, but its parts hold 2"));
}

TEST(PartPaths, RefusesAnImpossibleNumber) {
  const TestBytes bytes = Part(7, 2, 2, "a");
  const Result<Header> header = ParseHeader(bytes.str(), bytes.size(), "m-00008-of-00002.gguf");
  ASSERT_TRUE(header.ok());
  const Result<std::vector<std::string>> paths = PartPaths(*header);
  ASSERT_FALSE(paths.ok());
  EXPECT_THAT(paths.error().message(), HasSubstr("part 8 of 2"));
}

}  // namespace
}  // namespace rouse::gguf
