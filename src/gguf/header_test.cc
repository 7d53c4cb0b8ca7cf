#include "gguf/header.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "gguf/test_bytes.h"

namespace rouse::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Header> ParseAll(const TestBytes& bytes) {
  return ParseHeader(bytes.str(), bytes.size(), "m.gguf");
}

TEST(ReadHeader, ReadsMetadataTensorsAndPlacesOfASoundFile) {
  const TestBytes bytes = SoundFile();
  const Result<Header> header = ParseAll(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->version, 3U);
  EXPECT_EQ(header->Architecture(), "llama");
  EXPECT_EQ(header->VocabularySize(), 3);
  EXPECT_EQ(header->data_offset, bytes.size() - 128);
  EXPECT_EQ(header->data_offset % 32, 0);
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[1].name, "output.weight");
  EXPECT_THAT(header->tensors[1].dims, ElementsAre(4, 4));
  EXPECT_EQ(header->tensors[1].offset, header->data_offset + 64);
  EXPECT_EQ(header->tensors[1].bytes, 64);
  EXPECT_EQ(header->tensors[1].type->name, "f32");
}

TEST(ReadHeader, ReadsEveryScalarTypeAtItsWidth) {
  TestBytes bytes;
  bytes.Head(0, 12).Key("u8", 0).Put(uint8_t{200}).Key("i8", 1).Put(int8_t{-100});
  bytes.Key("u16", 2).Put(uint16_t{60'000}).Key("i16", 3).Put(int16_t{-30'000});
  bytes.Key("u32", 4).Put(uint32_t{4'000'000'000}).Key("i32", 5).Put(int32_t{-2'000'000'000});
  bytes.Key("f32", 6).Put(1.5F).Key("bool", 7).Put(uint8_t{1}).Key("text", 8).Text("hello");
  bytes.Key("u64", 10).Put(uint64_t{18'000'000'000'000'000'000U});
  bytes.Key("i64", 11).Put(int64_t{-9'000'000'000'000'000'000}).Key("f64", 12).Put(0.1);
  const Result<Header> header = ParseAll(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->FindInt("u8"), 200);
  EXPECT_EQ(header->FindInt("i8"), -100);
  EXPECT_EQ(header->FindInt("u16"), 60'000);
  EXPECT_EQ(header->FindInt("i16"), -30'000);
  EXPECT_EQ(header->FindInt("u32"), 4'000'000'000);
  EXPECT_EQ(header->FindInt("i32"), -2'000'000'000);
  EXPECT_EQ(header->FindFloat("f32"), 1.5);
  EXPECT_EQ(std::get<bool>(header->Find("bool")->value), true);
  EXPECT_EQ(header->FindString("text"), "hello");
  EXPECT_EQ(header->FindInt("u64"), std::nullopt);  // does not fit
  EXPECT_EQ(std::get<uint64_t>(header->Find("u64")->value), 18'000'000'000'000'000'000U);
  EXPECT_EQ(header->FindInt("i64"), -9'000'000'000'000'000'000);
  EXPECT_EQ(header->FindFloat("f64"), 0.1);
  EXPECT_EQ(header->FindInt("text"), std::nullopt);
  EXPECT_EQ(header->Find("missing"), nullptr);
}

TEST(ReadHeader, KeepsArraysAsPlaceAndCountInsteadOfCopyingThem) {
  TestBytes bytes;
  bytes.Head(0, 2).Key("strings", 9).Put(uint32_t{8}).Put(uint64_t{2});
  const int64_t strings_at = bytes.size();
  bytes.Text("one").Text("three");
  bytes.Key("floats", 9).Put(uint32_t{6}).Put(uint64_t{3});
  const int64_t floats_at = bytes.size();
  bytes.Put(1.0F).Put(2.0F).Put(3.0F);
  const Result<Header> header = ParseAll(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->Find("strings")->offset, strings_at);
  EXPECT_EQ(header->Find("strings")->bytes, 8 + 3 + 8 + 5);
  EXPECT_EQ(header->Find("strings")->count, 2);
  EXPECT_EQ(header->Find("floats")->offset, floats_at);
  EXPECT_EQ(header->Find("floats")->bytes, 12);
  EXPECT_EQ(header->Find("floats")->element_type, ValueType::kFloat32);
}

TEST(ReadHeader, HonoursAnAlignmentOfTheFilesOwn) {
  TestBytes bytes;
  bytes.Head(1, 1).Key("general.alignment", 4).Put(uint32_t{256});
  bytes.TensorRow("a", {1}, 0, 256).PadTo(256).Zeros(260);
  const Result<Header> header = ParseAll(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->data_offset, 256);
  EXPECT_EQ(header->tensors[0].offset, 512);
}

TEST(ReadHeader, SortsTheTableByPlaceInTheFile) {
  TestBytes bytes;
  bytes.Head(2, 0).TensorRow("late", {8}, 0, 32).TensorRow("early", {8}, 0, 0);
  bytes.PadTo(32).Zeros(64);
  const Result<Header> header = ParseAll(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->tensors[0].name, "early");
  EXPECT_EQ(header->tensors[1].name, "late");
}

TEST(ReadHeader, AcceptsAVocabularyWithoutTensorsAndAFileWithoutFinalPadding) {
  TestBytes vocabulary;
  vocabulary.Head(0, 1).Key("k", 7).Put(uint8_t{0});
  const Result<Header> empty = ParseAll(vocabulary);
  ASSERT_TRUE(empty.ok()) << empty.error().message();
  EXPECT_EQ(empty->data_offset, vocabulary.size());

  TestBytes unpadded;
  unpadded.Head(1, 0).TensorRow("a", {1}, 0, 0).PadTo(32).Zeros(4);
  EXPECT_TRUE(ParseAll(unpadded).ok());
}

TEST(ReadHeader, ReadsAFileWhoseStringsAndArraysCrossTheReadersWindow) {
  // The reader's window is 256 KiB: strings of 1 KB with odd lengths cross its end at all places.
  TestBytes bytes;
  constexpr uint64_t kCount = 2000;
  bytes.Head(1, 2).Key("tokens", 9).Put(uint32_t{8}).Put(kCount);
  for (uint64_t i = 0; i < kCount; ++i) bytes.Text(std::string(1000 + i % 37, 'x'));
  bytes.Key("after", 4).Put(uint32_t{77});
  bytes.TensorRow("a", {8}, 0, 0).PadTo(32).Zeros(32);
  const TestFolder folder;
  const std::string path = folder.Write("m.gguf", bytes.str());
  for (const bool direct : {false, true}) {
    const Result<Header> header = ReadHeader(path, {.leave_page_cache_alone = direct});
    ASSERT_TRUE(header.ok()) << header.error().message();
    EXPECT_EQ(header->Find("tokens")->count, 2000);
    EXPECT_EQ(header->FindInt("after"), 77);
    EXPECT_EQ(header->tensors[0].offset, bytes.size() - 32);
  }
}

TEST(ReadHeader, LeavesStringsOverAMebibyteInTheFile) {
  TestBytes bytes;
  bytes.Head(0, 2).Key("big", 8).Text(std::string((1U << 20U) + 1, 'x')).Key("n", 4);
  bytes.Put(uint32_t{5});
  const Result<Header> header = ParseAll(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->FindString("big"), std::nullopt);
  EXPECT_EQ(header->Find("big")->bytes, (1 << 20) + 1);
  EXPECT_EQ(header->FindInt("n"), 5);
}

// Resident pages of a file, by mincore on a fresh mapping (the test owns the file).
int64_t ResidentPages(const std::string& path, int64_t bytes) {
  const Result<Fd> fd = OpenFile(path, O_RDONLY);
  void* const memory =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_SHARED, fd->get(), 0);
  std::vector<unsigned char> pages(static_cast<size_t>((bytes + 4095) / 4096));
  EXPECT_EQ(mincore(memory, static_cast<size_t>(bytes), pages.data()), 0);
  munmap(memory, static_cast<size_t>(bytes));
  return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; });
}

TEST(ReadHeader, LeavesAColdFileColdWhenAsked) {
  const TestFolder folder;
  TestBytes bytes;
  bytes.Head(1, 1).Key("text", 8).Text(std::string(500'000, 'x'));
  bytes.TensorRow("a", {250'000}, 0, 0).PadTo(32).Zeros(1'000'000);
  const std::string path = folder.Write("m.gguf", bytes.str());
  {
    const Result<Fd> fd = OpenFile(path, O_RDWR);
    ASSERT_EQ(fsync(fd->get()), 0);
    ASSERT_EQ(posix_fadvise(fd->get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  if (ResidentPages(path, bytes.size()) > 0) GTEST_SKIP() << "the file can't be evicted here";
  ASSERT_TRUE(ReadHeader(path, {.leave_page_cache_alone = true}).ok());
  EXPECT_EQ(ResidentPages(path, bytes.size()), 0);
  ASSERT_TRUE(ReadHeader(path).ok());
  EXPECT_GT(ResidentPages(path, bytes.size()), 0);
}

TEST(GraphOrder, PutsEmbeddingFirstBlocksByNumberAndOutputLast) {
  TestBytes bytes;
  bytes.Head(6, 0).TensorRow("output.weight", {8}, 0, 0).TensorRow("blk.10.ffn_up", {8}, 0, 32);
  bytes.TensorRow("token_embd.weight", {8}, 0, 64).TensorRow("blk.2.attn_q", {8}, 0, 96);
  bytes.TensorRow("blk.2.attn_k", {8}, 0, 128).TensorRow("mm.0.weight", {8}, 0, 160);
  bytes.PadTo(32).Zeros(192);
  const Result<Header> header = ParseAll(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  std::vector<std::string> names;
  for (const Group& group : GraphOrder(*header)) names.push_back(group.name);
  EXPECT_THAT(names, ElementsAre("embedding", "blk.2", "blk.10", "output", "other"));
}

TEST(GraphOrder, MergesRangesOverPaddingButNotOverOtherTensors) {
  TestBytes bytes;
  // 20-byte tensors at a 32-byte alignment; blk.0 is torn apart by the output.
  bytes.Head(4, 0).TensorRow("blk.0.a", {5}, 0, 0).TensorRow("blk.0.b", {5}, 0, 32);
  bytes.TensorRow("output.weight", {8}, 0, 64).TensorRow("blk.0.c", {8}, 0, 96);
  bytes.PadTo(32).Zeros(128);
  const Result<Header> header = ParseAll(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  const Group block = GraphOrder(*header).front();
  ASSERT_EQ(block.ranges.size(), 2U);
  EXPECT_EQ(block.ranges[0].offset, header->data_offset);
  EXPECT_EQ(block.ranges[0].bytes, 52);
  EXPECT_EQ(block.ranges[1].offset, header->data_offset + 96);
  EXPECT_EQ(block.bytes, 20 + 20 + 32);
}

}  // namespace
}  // namespace rouse::gguf
