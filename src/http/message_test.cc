#include "http/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(FormatHead, SaysTheLengthOfTheBody) {
  Response response;
  response.body = "12345";
  const std::string head = FormatHead(response, Framing::kLength, true);
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Length: 5\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nConnection: keep-alive\r\n"));
  EXPECT_THAT(head, HasSubstr(" GMT\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST(FormatHead, NeverGivesBothALengthAndChunks) {
  const std::string head = FormatHead({}, Framing::kChunked, true);
  EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_THAT(head, Not(HasSubstr("Content-Length")));
}

TEST(FormatHead, AnnouncesTheEndOfTheConnection) {
  EXPECT_THAT(FormatHead({}, Framing::kClose, false), HasSubstr("Connection: close\r\n"));
}

TEST(AppendChunk, WritesTheSizeInHexadecimal) {
  std::string out;
  AppendChunk(out, std::string(26, 'x'));
  EXPECT_EQ(out, "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(AppendChunk, NeverWritesTheEmptyChunkThatEndsABody) {
  std::string out;
  AppendChunk(out, "");
  EXPECT_EQ(out, "");
}

TEST(ErrorResponse, IsAnErrorObjectWithTheMessageEscaped) {
  const Response response = ErrorResponse(400, "a \"b\" \\ \n");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body,
            R"({"error":{"message":"a \"b\" \\ \u000a","type":"invalid_request_error",)"
            R"("param":null,"code":null}})");
  EXPECT_THAT(ErrorResponse(503, "x").body, HasSubstr("\"server_error\""));
}

TEST(Request, FindsAHeaderInAnyCase) {
  Request request;
  request.headers = {{"Authorization", "Bearer x"}, {"X-A", "1"}};
  EXPECT_EQ(request.Find("authorization"), "Bearer x");
  EXPECT_EQ(request.Find("x-a"), "1");
  EXPECT_EQ(request.Find("x-ab"), std::nullopt);
}

}  // namespace
}  // namespace rouse::http
