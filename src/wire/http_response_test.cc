#include "wire/http_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rouse::wire {
namespace {

using State = HttpResponseParser::State;
using ::testing::HasSubstr;

class Recorder : public HttpSink {
 public:
  void OnHead(const HttpHead& head) override {
    ++heads;
    status = head.status;
    content_type = head.Field("content-TYPE");
  }
  void OnBody(std::string_view bytes) override { body += bytes; }

  int heads = 0;
  int status = 0;
  std::string content_type;
  std::string body;
};

struct Parsed {
  State state = State::kHead;
  Recorder seen;
  bool keep_alive = false;
  bool extra = false;
  bool by_close = false;
  std::string error;
  int64_t informational = 0;
};

// Feeds the bytes in pieces of `piece` and then, if asked, the end.
Parsed Parse(std::string_view bytes, size_t piece, bool eof = false, int64_t limit = 65536) {
  Parsed parsed;
  HttpResponseParser parser(limit);
  for (size_t at = 0; at < bytes.size(); at += piece)
    parser.Feed(bytes.substr(at, piece), parsed.seen);
  if (eof) parser.FeedEof(parsed.seen);
  parsed.state = parser.state();
  parsed.keep_alive = parser.keep_alive();
  parsed.extra = parser.has_extra_bytes();
  parsed.by_close = parser.ended_by_close();
  parsed.error = parser.error();
  parsed.informational = parser.informational_heads();
  return parsed;
}

void ExpectBody(std::string_view bytes, std::string_view body, bool eof = false) {
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const Parsed parsed = Parse(bytes, piece, eof);
    ASSERT_EQ(parsed.state, State::kComplete) << piece << ": " << parsed.error;
    ASSERT_EQ(parsed.seen.body, body) << piece;
    ASSERT_EQ(parsed.seen.heads, 1) << piece;
    ASSERT_FALSE(parsed.extra) << piece;
  }
}

TEST(HttpResponseParser, ReadsABodyByItsLengthInAnySplit) {
  ExpectBody("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello");
}

TEST(HttpResponseParser, ReadsChunksWithExtensionsAndTrailersInAnySplit) {
  ExpectBody(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;name=value;q=\"a;b\"\r\nhello\r\n00a\r\n, world..!\r\n0;last\r\nX-Trailer: yes\r\n\r\n",
      "hello, world..!");
}

TEST(HttpResponseParser, ReadsAnEmptyChunkedBodyInAnySplit) {
  ExpectBody("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "");
}

TEST(HttpResponseParser, ReadsABodyThatLastsUntilTheClose) {
  ExpectBody("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n", "data: x\n\n",
             true);
  const Parsed parsed = Parse("HTTP/1.0 200 OK\r\n\r\nabc", 100, true);
  EXPECT_TRUE(parsed.by_close);
  EXPECT_FALSE(parsed.keep_alive);
}

TEST(HttpResponseParser, SkipsInterimHeads) {
  const std::string bytes =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: a/b\r\n\r\nok";
  ExpectBody(bytes, "ok");
  EXPECT_EQ(Parse(bytes, 7).informational, 2);
  EXPECT_EQ(Parse(bytes, 7).seen.content_type, "a/b");
}

TEST(HttpResponseParser, HandsOverABodyByteInTheCallThatBringsIt) {
  Recorder seen;
  HttpResponseParser parser(65536);
  parser.Feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nX", seen);
  EXPECT_EQ(seen.body, "X");
  parser.Feed("\r\n5\r\nab", seen);
  EXPECT_EQ(seen.body, "Xab");
}

TEST(HttpResponseParser, AcceptsAStatusLineWithoutReasonAndBareLineFeeds) {
  ExpectBody("HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", "x");
  ExpectBody("HTTP/1.1 200 OK\nContent-Length: 1\n\nx", "x");
}

TEST(HttpResponseParser, HasNoBodyAfter204And304) {
  EXPECT_EQ(Parse("HTTP/1.1 204 No Content\r\n\r\n", 5).state, State::kComplete);
  EXPECT_EQ(Parse("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 5).state,
            State::kComplete);
}

TEST(HttpResponseParser, TellsWhetherTheConnectionMayBeKept) {
  const std::string ok = "Content-Length: 0\r\n\r\n";
  EXPECT_TRUE(Parse("HTTP/1.1 200 OK\r\n" + ok, 99).keep_alive);
  EXPECT_FALSE(Parse("HTTP/1.1 200 OK\r\nConnection: close\r\n" + ok, 99).keep_alive);
  EXPECT_FALSE(Parse("HTTP/1.0 200 OK\r\n" + ok, 99).keep_alive);
  EXPECT_TRUE(Parse("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" + ok, 99).keep_alive);
}

TEST(HttpResponseParser, SeesBytesBehindTheEnd) {
  EXPECT_TRUE(Parse("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", 100).extra);
  EXPECT_TRUE(Parse("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", 1).extra);
}

TEST(HttpResponseParser, IsNotCompleteWhenTheBodyWasCut) {
  EXPECT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 9, true).state, State::kBody);
  EXPECT_EQ(
      Parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 9, true).state,
      State::kBody);
  EXPECT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-", 9, true).state, State::kHead);
  EXPECT_EQ(Parse("HTT", 9, true).state, State::kHead);
}

TEST(HttpResponseParser, RefusesWhatIsNotHttpAtItsFirstByte) {
  EXPECT_THAT(Parse("SSH-2.0-OpenSSH", 1).error, HasSubstr("not HTTP"));
  EXPECT_EQ(Parse("S", 1).state, State::kFailed);
  EXPECT_EQ(Parse("HTTQ", 1).state, State::kFailed);
}

TEST(HttpResponseParser, RefusesBadFraming) {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(Parse(chunked + "zz\r\n", 1).state, State::kFailed);
  EXPECT_EQ(Parse(chunked + "2\r\nabX\r\n\r\n", 1).state, State::kFailed);
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{1000}}) {
    // A chunk of another size than said: what follows looks like a last chunk, and is none.
    EXPECT_EQ(Parse(chunked + "2\r\nab0\r\n\r", piece).state, State::kFailed) << piece;
  }
  EXPECT_EQ(Parse(chunked + "ffffffffffffffffff\r\n", 1).state, State::kFailed);
  EXPECT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 1).state, State::kFailed);
  EXPECT_EQ(Parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 1).state,
            State::kFailed);
  EXPECT_EQ(Parse("HTTP/1.1 20 OK\r\n\r\n", 1).state, State::kFailed);
  EXPECT_EQ(Parse("HTTP/2.0 200 OK\r\n\r\n", 1).state, State::kFailed);
  EXPECT_EQ(Parse("HTTP/1.1 101 Switching\r\n\r\n", 1).state, State::kFailed);
}

TEST(HttpResponseParser, RefusesALongHeadByName) {
  const std::string head = "HTTP/1.1 200 OK\r\nX: " + std::string(100, 'x') + "\r\n\r\n";
  const auto length = static_cast<int64_t>(head.size());
  for (const size_t piece : {size_t{1}, size_t{7}, head.size()}) {
    EXPECT_NE(Parse(head, piece, false, length).state, State::kFailed);
    EXPECT_THAT(Parse(head, piece, false, length - 1).error, HasSubstr("header_limit"));
    // Without an end as well: the limit must not wait for one.
    EXPECT_THAT(Parse(head.substr(0, head.size() - 2), piece, false, 50).error,
                HasSubstr("header_limit"));
  }
}

TEST(HttpResponseParser, RefusesALongChunkHeaderOrTrailerByName) {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_THAT(Parse(chunked + "5;" + std::string(200, 'x'), 10, false, 100).error,
              HasSubstr("header_limit"));
  EXPECT_THAT(Parse(chunked + "0\r\nX: " + std::string(200, 'x'), 10, false, 100).error,
              HasSubstr("header_limit"));
}

}  // namespace
}  // namespace rouse::wire
