#include "gguf/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gguf/test_bytes.h"

namespace rouse::gguf {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

Writer SmallWriter(const std::string& path) {
  Writer writer(path);
  writer.AddString("general.architecture", "llama");
  writer.AddUint32("llama.block_count", 2);
  writer.AddUint16("split.count", 1);
  writer.AddInt32("negative", -5);
  writer.AddFloat32("eps", 0.5F);
  writer.AddBool("flag", true);
  writer.AddStrings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "", "ccc"});
  writer.AddFloats("scores", std::vector<float>{1.0F, 2.0F});
  writer.AddInts("types", std::vector<int32_t>{1, 2, 3});
  writer.AddTensor("token_embd.weight", {32, 3}, kTypeQ4_0);  // 54 bytes, padded to 64
  writer.AddTensor("output.weight", {5}, kTypeF32);           // 20 bytes, padded to 32
  return writer;
}

TEST(Writer, WritesWhatTheReaderReads) {
  const TestFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  Writer writer = SmallWriter(path);
  ASSERT_TRUE(writer.BeginData().ok());
  EXPECT_EQ(writer.DataBytes(), 96);
  const std::vector<std::byte> data(96, std::byte{0x5a});
  ASSERT_TRUE(writer.WriteData(std::span(data).first(10)).ok());
  ASSERT_TRUE(writer.WriteData(std::span(data).subspan(10)).ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(FilesIn(folder.path()), std::vector<std::string>{"m.gguf"});

  const Result<Header> header = ReadHeader(path);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->file_bytes, writer.TotalBytes());
  EXPECT_EQ(header->FindInt("llama.block_count"), 2);
  EXPECT_EQ(header->FindInt("negative"), -5);
  EXPECT_EQ(header->FindFloat("eps"), 0.5);
  EXPECT_EQ(header->PartCount(), 1);
  EXPECT_EQ(header->VocabularySize(), 3);
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].bytes, 54);
  EXPECT_EQ(header->tensors[1].offset, header->data_offset + 64);
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(content.substr(static_cast<size_t>(header->data_offset)), std::string(96, 0x5a));
}

TEST(Writer, LeavesNothingBehindWhenItIsGivenUp) {
  const TestFolder folder;
  {
    Writer writer = SmallWriter(folder.path() + "/m.gguf");
    ASSERT_TRUE(writer.BeginData().ok());
    const std::vector<std::byte> data(40);
    ASSERT_TRUE(writer.WriteData(data).ok());
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/m.gguf"));
  }
  EXPECT_TRUE(FilesIn(folder.path()).empty());
}

TEST(Writer, RefusesToFinishAnIncompleteFile) {
  const TestFolder folder;
  Writer writer = SmallWriter(folder.path() + "/m.gguf");
  ASSERT_TRUE(writer.BeginData().ok());
  const Status status = writer.Finish();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("0 of 96 bytes"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/m.gguf"));
}

TEST(Writer, NamesAFolderThatIsNotThere) {
  Writer writer = SmallWriter("/nonexistent/folder/m.gguf");
  const Status status = writer.BeginData();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(status.error().message(), HasSubstr("there is no folder /nonexistent/folder"));
}

TEST(Writer, RefusesAtOnceToReplaceAFolder) {
  const TestFolder folder;
  Writer writer = SmallWriter(folder.path());
  const Status status = writer.BeginData();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("no regular file"));
}

TEST(Writer, SaysHowManyBytesItWantedWhenThereIsNoRoom) {
  // A limit on file sizes stands for the full disk: both come as an errno of fallocate and write.
  const TestFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  struct rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Writer writer(path);
  writer.AddTensor("a", {100'000}, kTypeF32);
  const Status status = writer.BeginData();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr(path));
  EXPECT_THAT(status.error().message(),
              HasSubstr(std::to_string(writer.TotalBytes()) + " bytes wanted"));
}

TEST(Writer, ReplacesAnOlderFileOnlyAtTheEnd) {
  const TestFolder folder;
  const std::string path = folder.Write("m.gguf", "old");
  Writer writer = SmallWriter(path);
  ASSERT_TRUE(writer.BeginData().ok());
  EXPECT_EQ(std::filesystem::file_size(path), 3U);
  const std::vector<std::byte> data(96);
  ASSERT_TRUE(writer.WriteData(data).ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(std::filesystem::file_size(path), static_cast<uintmax_t>(writer.TotalBytes()));
}

}  // namespace
}  // namespace rouse::gguf
