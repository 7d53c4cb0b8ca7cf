// Each way in which a model file can be wrong, with the sentence that a user then reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "gguf/header.h"
#include "gguf/test_bytes.h"

namespace rouse::gguf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void ExpectError(const Result<Header>& header, ErrorCode code, const std::string& part) {
  ASSERT_FALSE(header.ok()) << "parsed, wanted: " << part;
  EXPECT_EQ(header.error().code(), code) << header.error().message();
  EXPECT_THAT(header.error().message(), AllOf(HasSubstr(part), HasSubstr("m.gguf")));
  EXPECT_THAT(header.error().message(), Not(HasSubstr("\n")));
}

void ExpectCorrupt(const TestBytes& bytes, const std::string& part) {
  ExpectError(ParseHeader(bytes.str(), bytes.size(), "m.gguf"), ErrorCode::kCorrupt, part);
}

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

TEST(HeaderFaults, AMissingFileIsNamed) {
  const TestFolder folder;
  ExpectError(ReadHeader(folder.path() + "/m.gguf"), ErrorCode::kNotFound, "no model file");
}

TEST(HeaderFaults, ADirectoryIsCalledOne) {
  const TestFolder folder;
  std::filesystem::create_directory(folder.path() + "/m.gguf");
  ExpectError(ReadHeader(folder.path() + "/m.gguf"), ErrorCode::kCorrupt, "is a directory");
}

TEST(HeaderFaults, AFifoIsRefusedWithoutWaiting) {
  const TestFolder folder;
  ASSERT_EQ(mkfifo((folder.path() + "/m.gguf").c_str(), 0600), 0);
  ExpectError(ReadHeader(folder.path() + "/m.gguf"), ErrorCode::kCorrupt, "not a regular file");
}

TEST(HeaderFaults, AFileThatMayNotBeReadSaysSo) {
  const TestFolder folder;
  const std::string path = folder.Write("m.gguf", SoundFile().str());
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  // Root may read everything: be somebody else for the call.
  const uid_t user = geteuid();
  constexpr uid_t kNobody = 65534;
  if (user == 0) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const Result<Header> header = ReadHeader(path);
  if (user == 0) {
    ASSERT_EQ(seteuid(user), 0);
  }
  ExpectError(header, ErrorCode::kPermission, "Permission denied");
}

TEST(HeaderFaults, AnEmptyFileIsCalledEmpty) {
  const TestFolder folder;
  ExpectError(ReadHeader(folder.Write("m.gguf", "")), ErrorCode::kCorrupt, "is empty");
}

TEST(HeaderFaults, AForeignFileIsDescribed) {
  TestBytes bytes;
  bytes.Raw("<!DOCTYPE html><html><body>404</body></html>");
  ExpectCorrupt(bytes, "is not a GGUF model; it looks like an HTML page");
}

TEST(HeaderFaults, OtherVersionsAreNamed) {
  for (const uint32_t version : {0U, 1U, 4U, 1000U}) {
    TestBytes bytes;
    bytes.Head(0, 0, version);
    ExpectError(ParseHeader(bytes.str(), bytes.size(), "m.gguf"), ErrorCode::kUnsupported,
                "is GGUF version " + std::to_string(version));
  }
  TestBytes second;
  second.Head(0, 0, 2);
  EXPECT_TRUE(ParseHeader(second.str(), second.size(), "m.gguf").ok());
}

TEST(HeaderFaults, BigEndianFilesAreNamed) {
  TestBytes bytes;
  bytes.Raw("GGUF").Raw(std::string_view("\0\0\0\3", 4)).Zeros(16);
  ExpectError(ParseHeader(bytes.str(), bytes.size(), "m.gguf"), ErrorCode::kUnsupported,
              "big-endian");
}

TEST(HeaderFaults, EveryCutOfTheHeaderIsAnErrorAndEveryCutOfTheDataToo) {
  const std::string whole = SoundFile().str();
  for (size_t length = 1; length < whole.size(); ++length) {
    const std::string cut = whole.substr(0, length);
    const Result<Header> header = ParseHeader(cut, static_cast<int64_t>(length), "m.gguf");
    ASSERT_FALSE(header.ok()) << length;
    EXPECT_EQ(header.error().code(), ErrorCode::kCorrupt) << header.error().message();
    EXPECT_THAT(header.error().message(), HasSubstr("is cut off")) << length;
  }
}

TEST(HeaderFaults, CutTensorDataGivesBothSizes) {
  const TestBytes whole = SoundFile();
  const std::string cut = whole.str().substr(0, whole.str().size() - 7);
  ExpectError(ParseHeader(cut, whole.size() - 7, "m.gguf"), ErrorCode::kCorrupt,
              "its tensors need " + std::to_string(whole.size()) + " bytes, the file has " +
                  std::to_string(whole.size() - 7));
}

TEST(HeaderFaults, CountsThatTheFileCannotHoldAreRefusedAtOnce) {
  TestBytes entries;
  entries.Head(0, kHuge).Zeros(100);
  ExpectCorrupt(entries, "claims 18446744073709551615 metadata entries");
  TestBytes tensors;
  tensors.Head(kHuge / 2, 0).Zeros(100);
  ExpectCorrupt(tensors, "claims 9223372036854775807 tensors");
  TestBytes elements;
  elements.Head(0, 1).Key("k", 9).Put(uint32_t{10}).Put(kHuge).Zeros(100);
  ExpectCorrupt(elements, "metadata \"k\" claims 18446744073709551615 elements");
  TestBytes strings;
  strings.Head(0, 1).Key("k", 9).Put(uint32_t{8}).Put(uint64_t{1} << 40U).Zeros(100);
  ExpectCorrupt(strings, "claims 1099511627776 elements");
}

TEST(HeaderFaults, CountsBeyondAnyModelAreRefusedEvenInAHugeSparseFile) {
  TestBytes bytes;
  bytes.Head(2'000'000, 0).Zeros(64);
  ExpectError(ParseHeader(bytes.str(), int64_t{1} << 50, "m.gguf"), ErrorCode::kUnsupported,
              "claims 2000000 tensors");
}

TEST(HeaderFaults, LengthsThatTheFileCannotHoldAreRefused) {
  TestBytes key;
  key.Head(0, 1).Put(kHuge).Zeros(100);
  ExpectCorrupt(key, "metadata entry 1 of 1 claims 18446744073709551615 bytes");
  TestBytes value;
  value.Head(0, 1).Key("k", 8).Put(uint64_t{101}).Zeros(100);
  ExpectCorrupt(value, "metadata \"k\" claims 101 bytes, but only 100 are left");
  TestBytes element;
  element.Head(0, 1).Key("k", 9).Put(uint32_t{8}).Put(uint64_t{2}).Text("a").Put(kHuge);
  ExpectCorrupt(element, "metadata \"k\"");
  TestBytes name;
  name.Head(1, 0).Put(uint64_t{64}).Zeros(100);
  ExpectCorrupt(name, "the name of tensor 1 of 1 has 64 bytes");
}

TEST(HeaderFaults, UnknownValueTypesAndNestedArraysAreRefused) {
  TestBytes unknown;
  unknown.Head(0, 1).Key("k", 13).Zeros(32);
  ExpectCorrupt(unknown, "metadata \"k\" has the value type 13");
  TestBytes nested;
  nested.Head(0, 1).Key("k", 9).Put(uint32_t{9}).Put(uint64_t{1}).Zeros(32);
  ExpectCorrupt(nested, "metadata \"k\" has the value type 9");
}

TEST(HeaderFaults, DuplicateKeysAndTensorsAreRefused) {
  TestBytes keys;
  keys.Head(0, 2).Key("k", 7).Put(uint8_t{0}).Key("k", 7).Put(uint8_t{1});
  ExpectCorrupt(keys, "the metadata key \"k\" stands there twice");
  TestBytes tensors;
  tensors.Head(2, 0).TensorRow("a", {8}, 0, 0).TensorRow("a", {8}, 0, 32).PadTo(32).Zeros(64);
  ExpectCorrupt(tensors, "tensor \"a\" stands there twice");
}

TEST(HeaderFaults, UnknownAndRemovedTensorTypesAreNamedByNumber) {
  for (const uint32_t type : {4U, 31U, 43U, 4'000'000'000U}) {
    TestBytes bytes;
    bytes.Head(1, 0).TensorRow("a", {256}, type, 0).PadTo(32).Zeros(2048);
    ExpectError(ParseHeader(bytes.str(), bytes.size(), "m.gguf"), ErrorCode::kUnsupported,
                "tensor \"a\" of the unknown type " + std::to_string(type));
  }
}

TEST(HeaderFaults, ImpossibleShapesAreRefused) {
  const int64_t big = int64_t{1} << 31;
  const std::vector<std::vector<int64_t>> shapes = {
      {-32}, {33}, {big, big, big}, {std::numeric_limits<int64_t>::max() / 32 * 32}, {32, -1}};
  for (const std::vector<int64_t>& shape : shapes) {
    TestBytes bytes;
    bytes.Head(1, 0).TensorRow("a", shape, kTypeQ4_0, 0).PadTo(32).Zeros(64);
    ExpectCorrupt(bytes, "tensor \"a\" has the impossible shape [" + std::to_string(shape[0]));
  }
  TestBytes five;
  five.Head(1, 0).TensorRow("a", {1, 1, 1, 1, 1}, 0, 0).PadTo(32).Zeros(64);
  ExpectCorrupt(five, "tensor \"a\" has 5 dimensions");
}

TEST(HeaderFaults, OffsetsOutsideMisalignedOrOverlappingAreRefused) {
  TestBytes outside;
  outside.Head(1, 0).TensorRow("a", {8}, 0, kHuge - 31).PadTo(32).Zeros(64);
  ExpectCorrupt(outside, "tensor \"a\" begins at byte 18446744073709551584");
  TestBytes beyond;
  beyond.Head(1, 0).TensorRow("a", {8}, 0, uint64_t{1} << 61U).PadTo(32).Zeros(64);
  ExpectCorrupt(beyond, "is cut off: its tensors need 2305843009213694");
  TestBytes at_end;
  at_end.Head(1, 0).TensorRow("a", {8}, 0, 64).PadTo(32).Zeros(64);
  ExpectCorrupt(at_end, "is cut off: its tensors need");
  TestBytes misaligned;
  misaligned.Head(1, 0).TensorRow("a", {8}, 0, 4).PadTo(32).Zeros(64);
  ExpectCorrupt(misaligned, "is not a multiple of 32");
  TestBytes overlap;
  overlap.Head(2, 0).TensorRow("a", {16}, 0, 0).TensorRow("b", {8}, 0, 32).PadTo(32).Zeros(64);
  ExpectCorrupt(overlap, "tensor \"b\" overlaps the one before it");
}

TEST(HeaderFaults, AnAlignmentThatIsNoPowerOfTwoIsRefused) {
  for (const uint32_t alignment : {0U, 3U, 48U}) {
    TestBytes bytes;
    bytes.Head(0, 1).Key("general.alignment", 4).Put(alignment);
    ExpectCorrupt(bytes, "\"general.alignment\" is not a 32-bit power of two");
  }
  TestBytes text;
  text.Head(0, 1).Key("general.alignment", 8).Text("32");
  ExpectCorrupt(text, "\"general.alignment\" is not");
}

TEST(HeaderFaults, NamesWithControlCharactersCannotReachTheTerminal) {
  TestBytes bytes;
  bytes.Head(0, 2).Key("\x1b[31mred", 7).Put(uint8_t{0}).Key("\x1b[31mred", 7).Put(uint8_t{0});
  const Result<Header> header = ParseHeader(bytes.str(), bytes.size(), "m.gguf");
  ASSERT_FALSE(header.ok());
  EXPECT_THAT(header.error().message(), AllOf(HasSubstr("?[31mred"), Not(HasSubstr("\x1b"))));
}

TEST(HeaderFaults, AFileThatShrinksWhileItIsReadIsCutNotACrash) {
  // The file claims more bytes than the source can give.
  const TestBytes whole = SoundFile();
  ExpectError(ParseHeader(whole.str().substr(0, 60), whole.size(), "m.gguf"), ErrorCode::kCorrupt,
              "is cut off");
}

}  // namespace
}  // namespace rouse::gguf
