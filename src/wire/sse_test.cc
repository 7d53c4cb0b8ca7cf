#include "wire/sse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace rouse::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Writes down everything as one string each, so that two parses can be compared.
class Recorder : public SseSink {
 public:
  void OnEvent(const SseEvent& event) override {
    std::string text = std::string(event.type) + "|" + std::string(event.data);
    if (!event.id.empty()) text += "|id=" + std::string(event.id);
    if (event.unterminated) text += "|unterminated";
    events.push_back(std::move(text));
  }
  void OnComment(std::string_view text) override { comments.emplace_back(text); }
  void OnRetry(int64_t retry_ms) override { retries.push_back(retry_ms); }
  void OnOtherLine(std::string_view line) override { others.emplace_back(line); }

  std::vector<std::string> events;
  std::vector<std::string> comments;
  std::vector<int64_t> retries;
  std::vector<std::string> others;
  bool operator==(const Recorder& other) const {
    return events == other.events && comments == other.comments && retries == other.retries &&
           others == other.others;
  }
};

Recorder ParseAll(std::string_view stream) {
  Recorder recorder;
  SseParser parser(1 << 20);
  EXPECT_TRUE(parser.Feed(stream, recorder));
  EXPECT_TRUE(parser.Finish(recorder));
  return recorder;
}

TEST(SseParser, DeliversOneEventForEachBlankLine) {
  EXPECT_THAT(ParseAll("data: a\n\ndata: b\n\n").events, ElementsAre("|a", "|b"));
}

TEST(SseParser, TakesOffOneBlankBehindTheColonAndNoMore) {
  EXPECT_THAT(ParseAll("data:a\n\ndata:  b\n\ndata: \tc\n\n").events,
              ElementsAre("|a", "| b", "|\tc"));
}

TEST(SseParser, JoinsDataLinesByLineFeeds) {
  EXPECT_THAT(ParseAll("data: YHOO\ndata: +2\ndata: 10\n\n").events, ElementsAre("|YHOO\n+2\n10"));
}

TEST(SseParser, DeliversEmptyDataButNoEventWithoutData) {
  EXPECT_THAT(ParseAll("data\n\ndata\ndata\n\ndata:\n\n").events, ElementsAre("|", "|\n", "|"));
  EXPECT_THAT(ParseAll("event: ping\n\nid: 3\n\n\n\n").events, IsEmpty());
}

TEST(SseParser, ForgetsTheTypeOfAnEventWithoutData) {
  EXPECT_THAT(ParseAll("event: ping\n\ndata: x\n\n").events, ElementsAre("|x"));
}

TEST(SseParser, KeepsTheLastIdUntilAnotherOne) {
  EXPECT_THAT(ParseAll("id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n").events,
              ElementsAre("|a|id=1", "|b|id=1", "|c"));
}

TEST(SseParser, IgnoresAnIdWithNul) {
  EXPECT_THAT(ParseAll(std::string_view("id: a\0b\ndata: x\n\n", 17)).events, ElementsAre("|x"));
}

TEST(SseParser, TakesRetryOnlyFromDigits) {
  EXPECT_THAT(ParseAll("retry: 250\nretry: 1s\nretry: -1\nretry:\nretry: +5\n").retries,
              ElementsAre(250));
}

TEST(SseParser, TakesTheThreeLineEndsAlike) {
  for (const std::string end : {"\n", "\r", "\r\n"}) {
    const Recorder all = ParseAll("event: t" + end + "data: a" + end + "data: b" + end + end +
                                  ":c" + end + "data: d" + end + end);
    EXPECT_THAT(all.events, ElementsAre("t|a\nb", "|d"));
    EXPECT_THAT(all.comments, ElementsAre("c"));
  }
}

TEST(SseParser, DeliversAtTheCarriageReturnWithoutWaitingForTheLineFeed) {
  Recorder recorder;
  SseParser parser(1 << 20);
  ASSERT_TRUE(parser.Feed("data: a\r\n\r", recorder));
  EXPECT_THAT(recorder.events, ElementsAre("|a"));
  ASSERT_TRUE(parser.Feed("\ndata: b\r\n\r\n", recorder));
  EXPECT_THAT(recorder.events, ElementsAre("|a", "|b"));
}

TEST(SseParser, KeepsAnEventThatIsSplitBetweenCrAndLf) {
  Recorder recorder;
  SseParser parser(1 << 20);
  ASSERT_TRUE(parser.Feed("data: a\r", recorder));
  ASSERT_TRUE(parser.Feed("\ndata: b\r\n\r\n", recorder));
  EXPECT_THAT(recorder.events, ElementsAre("|a\nb"));
}

TEST(SseParser, SkipsOneByteOrderMarkAtTheVeryStart) {
  EXPECT_THAT(ParseAll("\xEF\xBB\xBF"
                       "data: a\n\n")
                  .events,
              ElementsAre("|a"));
  EXPECT_THAT(ParseAll("\xEF\xBB\xBF\xEF\xBB\xBF"
                       "data: a\n\n")
                  .events,
              IsEmpty());
  EXPECT_THAT(ParseAll("\xEF\xBB"
                       "data: a\n\n")
                  .others,
              ElementsAre("\xEF\xBB"
                          "data: a"));
  EXPECT_THAT(ParseAll("\n\xEF\xBB\xBF"
                       "data: a\n\n")
                  .events,
              IsEmpty());
}

TEST(SseParser, DeliversTheUnterminatedLastEvent) {
  EXPECT_THAT(ParseAll("data: a\n\ndata: [DONE]").events,
              ElementsAre("|a", "|[DONE]|unterminated"));
  EXPECT_THAT(ParseAll("data: a\n").events, ElementsAre("|a|unterminated"));
}

TEST(SseParser, CountsCommentsAndBareColons) {
  EXPECT_THAT(ParseAll(": ping\n:\n\n:x\n").comments, ElementsAre(" ping", "", "x"));
}

TEST(SseParser, HandsOverLinesThatAreNoFieldOfTheStandard) {
  const Recorder all = ParseAll("error: {\"code\":500}\nDATA: x\n data: y\nOK\n\n");
  EXPECT_THAT(all.events, IsEmpty());
  EXPECT_THAT(all.others, ElementsAre("error: {\"code\":500}", "DATA: x", " data: y", "OK"));
}

TEST(SseParser, CountsOnlyLinesOfTheStandardAsRecognized) {
  Recorder recorder;
  SseParser parser(1 << 20);
  ASSERT_TRUE(parser.Feed("Internal Server Error\nplease: retry\n", recorder));
  EXPECT_EQ(parser.recognized_lines(), 0);
  ASSERT_TRUE(parser.Feed(": x\ndata: y\n", recorder));
  EXPECT_EQ(parser.recognized_lines(), 2);
}

TEST(SseParser, RefusesAnEventLongerThanItsLimit) {
  Recorder recorder;
  SseParser fits(10);
  EXPECT_TRUE(fits.Feed("data: 1234\n\n", recorder));
  SseParser one_line(10);
  EXPECT_FALSE(one_line.Feed("data: 12345\n\n", recorder));
  SseParser unfinished(10);
  EXPECT_FALSE(unfinished.Feed("data: 12345", recorder));
  SseParser many_lines(10);
  EXPECT_FALSE(many_lines.Feed("data:1234\ndata:1234\ndata:1234\n\n", recorder));
  EXPECT_THAT(recorder.events, ElementsAre("|1234"));
}

TEST(SseParser, GivesTheSameForEverySplit) {
  const std::string stream =
      "\xEF\xBB\xBF: hi\r\nevent: t\rdata: gr\xC3\xBC\xC3\x9F\ndata:\r\n\r\nretry: 7\n"
      "id: 9\r\ndata: \xF0\x9F\x98\x80\r\r\nfoo\n\ndata: [DONE]";
  const Recorder whole = ParseAll(stream);
  ASSERT_EQ(whole.events.size(), 3U);
  for (size_t first = 0; first <= stream.size(); ++first) {
    for (size_t second = first; second <= stream.size(); ++second) {
      Recorder split;
      SseParser parser(1 << 20);
      const std::string_view view = stream;
      parser.Feed(view.substr(0, first), split);
      parser.Feed(view.substr(first, second - first), split);
      parser.Feed(view.substr(second), split);
      parser.Finish(split);
      ASSERT_EQ(split, whole) << "split at " << first << " and " << second;
    }
  }
}

}  // namespace
}  // namespace rouse::wire
