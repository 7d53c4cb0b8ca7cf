#include "http/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rouse::http {
namespace {

using ::testing::HasSubstr;
using State = RequestParser::State;

constexpr int64_t kHeaderLimit = 1024;
constexpr int64_t kBodyLimit = 100;

// Feeds `parts` as a connection does: what was not taken is given again with more behind it.
size_t FeedParts(RequestParser& parser, const std::vector<std::string>& parts) {
  std::string input;
  for (const std::string& part : parts) {
    input += part;
    input.erase(0, parser.Feed(input));
  }
  return input.size();
}

ParseFailure FailureOf(const std::string& text) {
  RequestParser parser(kHeaderLimit, kBodyLimit);
  parser.Feed(text);
  EXPECT_EQ(parser.state(), State::kFailed) << text;
  return parser.state() == State::kFailed ? parser.failure() : ParseFailure{0, ""};
}

const std::string kPost =
    "POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nX-One: two words \r\nContent-Length: 5\r\n\r\nhello";
const std::string kChunkedPost =
    "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: t\r\n\r\n";

TEST(RequestParser, ReadsAWholeRequest) {
  RequestParser parser(kHeaderLimit, kBodyLimit);
  EXPECT_EQ(parser.Feed(kPost), kPost.size());
  ASSERT_EQ(parser.state(), State::kComplete);
  EXPECT_TRUE(parser.KeepAlive());
  const Request request = parser.Take();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v1/x?a=b");
  EXPECT_EQ(request.path, "/v1/x");
  EXPECT_EQ(request.query, "a=b");
  EXPECT_EQ(request.Find("x-one"), "two words");
  EXPECT_EQ(request.body, "hello");
}

TEST(RequestParser, ReadsARequestThatIsSplitAnywhere) {
  for (const std::string& text : {kPost, kChunkedPost}) {
    for (size_t first = 0; first <= text.size(); ++first) {
      for (const size_t second : {first, first + (text.size() - first) / 2}) {
        RequestParser parser(kHeaderLimit, kBodyLimit);
        const size_t rest = FeedParts(
            parser,
            {text.substr(0, first), text.substr(first, second - first), text.substr(second)});
        ASSERT_EQ(parser.state(), State::kComplete) << first << " " << second;
        EXPECT_EQ(rest, 0U);
        EXPECT_EQ(parser.Take().body, "hello");
      }
    }
  }
}

TEST(RequestParser, ReadsARequestByteByByte) {
  for (const std::string& text : {kPost, kChunkedPost}) {
    RequestParser parser(kHeaderLimit, kBodyLimit);
    std::vector<std::string> bytes;
    for (const char byte : text) bytes.emplace_back(1, byte);
    FeedParts(parser, bytes);
    ASSERT_EQ(parser.state(), State::kComplete);
    EXPECT_EQ(parser.Take().body, "hello");
  }
}

TEST(RequestParser, LeavesTheNextRequestAlone) {
  for (const std::string& text : {kPost, kChunkedPost}) {
    RequestParser parser(kHeaderLimit, kBodyLimit);
    EXPECT_EQ(parser.Feed(text + "GET / HTTP/1.1\r\n"), text.size());
    EXPECT_EQ(parser.state(), State::kComplete);
  }
}

TEST(RequestParser, TakesAnAbsoluteTarget) {
  RequestParser parser(kHeaderLimit, kBodyLimit);
  parser.Feed("GET http://h:80/health?x HTTP/1.1\r\nHost: h\r\n\r\n");
  ASSERT_EQ(parser.state(), State::kComplete);
  const Request request = parser.Take();
  EXPECT_EQ(request.path, "/health");
  EXPECT_EQ(request.query, "x");
}

TEST(RequestParser, ClosesAfterHttp10ByDefault) {
  RequestParser parser(kHeaderLimit, kBodyLimit);
  parser.Feed("GET / HTTP/1.0\r\n\r\n");
  ASSERT_EQ(parser.state(), State::kComplete);
  EXPECT_TRUE(parser.IsHttp10());
  EXPECT_FALSE(parser.KeepAlive());
}

// Found by fuzzing: a head in pieces could be longer than a whole one, by its start line.
TEST(RequestParser, HoldsTheHeaderLimitToTheByteHoweverTheHeadComes) {
  constexpr auto kLimit = static_cast<size_t>(kHeaderLimit);
  for (const size_t size : {kLimit, kLimit + 1}) {
    std::string head = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
    head += std::string(size - head.size() - 4, 'x') + "\r\n\r\n";
    for (size_t split = 0; split < head.size(); ++split) {
      RequestParser parser(kHeaderLimit, kBodyLimit);
      FeedParts(parser, {head.substr(0, split), head.substr(split)});
      ASSERT_EQ(parser.state(), size > kLimit ? State::kFailed : State::kComplete) << split;
      if (size > kLimit) {
        ASSERT_EQ(parser.failure().status, 431) << split;
      }
    }
  }
}

// Found by fuzzing: the last chunk, byte by byte, ended the process by an assertion in Beast.
TEST(RequestParser, TakesAnEmptyChunkedBodyByteByByte) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string last :
       {"0\r\n\r\n", "0;\r\n\r\n", "00\r\n\r\n", "0;x=y\r\nT: t\r\n\r\n"}) {
    RequestParser parser(kHeaderLimit, kBodyLimit);
    std::vector<std::string> parts = {head};
    for (const char c : last) parts.emplace_back(1, c);
    FeedParts(parser, parts);
    EXPECT_NE(parser.state(), State::kNeedsMore) << last;
    if (last == "0\r\n\r\n") {
      EXPECT_EQ(parser.state(), State::kComplete);
    }
  }
}

TEST(RequestParser, RefusesABodyOverTheLimitBeforeItComes) {
  const ParseFailure failure =
      FailureOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n");
  EXPECT_EQ(failure.status, 413);
  EXPECT_THAT(failure.message, HasSubstr("100 bytes"));
}

TEST(RequestParser, RefusesChunksThatSumUpToMoreThanTheLimit) {
  std::string text = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int chunk = 0; chunk < 11; ++chunk) text += "a\r\n0123456789\r\n";
  EXPECT_EQ(FailureOf(text).status, 413);
}

TEST(RequestParser, AcceptsABodyOfExactlyTheLimit) {
  RequestParser parser(kHeaderLimit, kBodyLimit);
  parser.Feed("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x'));
  ASSERT_EQ(parser.state(), State::kComplete);
  EXPECT_EQ(parser.Take().body.size(), 100U);
}

TEST(RequestParser, RefusesHeadersOverTheLimitWhetherTheyEndOrNot) {
  const std::string endless = "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(2000, 'x');
  EXPECT_EQ(FailureOf(endless).status, 431);
  EXPECT_EQ(FailureOf(endless + "\r\n\r\n").status, 431);
}

TEST(RequestParser, RefusesWhatIsNotHttp) {
  for (const std::string text : {
           "hello\r\n\r\n",
           "GET /\r\n\r\n",
           "GET / HTTP/9.9\r\nHost: h\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: h\r\nBad Name: x\r\n\r\n",
           "GET nopath HTTP/1.1\r\nHost: h\r\n\r\n",
           "GET / HTTP/1.1\r\n\r\n",
           "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: minus\r\n\r\n",
           "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
           "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
           "\x16\x03\x01\x02\x01\x01\xfc\x03\x03 a TLS hello\r\n\r\n",
       }) {
    const int status = FailureOf(text).status;
    EXPECT_TRUE(status == 400 || status == 505) << status << ": " << text;
  }
}

// Two lengths for one body are how requests are smuggled past a proxy.
TEST(RequestParser, RefusesALengthBesideChunks) {
  EXPECT_EQ(FailureOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n0\r\n\r\n")
                .status,
            400);
}

TEST(RequestParser, KnowsWhoWaitsForContinue) {
  RequestParser parser(kHeaderLimit, kBodyLimit);
  parser.Feed("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(parser.state(), State::kNeedsMore);
  EXPECT_TRUE(parser.WantsContinue());
  parser.Feed("ok");
  EXPECT_EQ(parser.state(), State::kComplete);
  EXPECT_FALSE(parser.WantsContinue());
  EXPECT_EQ(FailureOf("POST / HTTP/1.1\r\nHost: h\r\nExpect: gold\r\n\r\n").status, 417);
}

}  // namespace
}  // namespace rouse::http
