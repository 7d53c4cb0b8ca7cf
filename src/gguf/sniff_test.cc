#include "gguf/sniff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rouse::gguf {
namespace {

using ::testing::HasSubstr;

TEST(DescribeForeignFile, NamesTheFormatsThatPeopleMistakeForGguf) {
  EXPECT_THAT(DescribeForeignFile("  <!doctype html>\n<title>"), HasSubstr("HTML"));
  EXPECT_THAT(DescribeForeignFile("<HTML><head>"), HasSubstr("HTML"));
  EXPECT_THAT(DescribeForeignFile(std::string("\x40\0\0\0\0\0\0\0{\"__metadata__\"", 23)),
              HasSubstr("safetensors"));
  EXPECT_THAT(DescribeForeignFile("PK\x03\x04rest"), HasSubstr("zip"));
  EXPECT_THAT(DescribeForeignFile("\x80\x02}q"), HasSubstr("pickle"));
  EXPECT_THAT(DescribeForeignFile("tjgg\x03"), HasSubstr("ggjt"));
  EXPECT_THAT(DescribeForeignFile("lmgg"), HasSubstr("old GGML"));
  EXPECT_THAT(DescribeForeignFile("\x1f\x8b\x08"), HasSubstr("gzip"));
  EXPECT_THAT(DescribeForeignFile("version https://git-lfs.github.com/spec/v1"),
              HasSubstr("Git LFS"));
  EXPECT_THAT(DescribeForeignFile("{\"error\":\"not found\"}"), HasSubstr("JSON"));
  EXPECT_THAT(DescribeForeignFile("Not Found"), HasSubstr("plain text"));
  EXPECT_THAT(DescribeForeignFile(std::string(512, '\0')), HasSubstr("zeros"));
  EXPECT_THAT(DescribeForeignFile("\x01\x02\xfe\xff\x05"), HasSubstr("01 02 fe ff"));
  std::string tar(512, 'a');
  tar.replace(257, 5, "ustar");
  EXPECT_THAT(DescribeForeignFile(tar), HasSubstr("tar archive"));
}

}  // namespace
}  // namespace rouse::gguf
