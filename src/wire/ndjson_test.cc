#include "wire/ndjson.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rouse::wire {
namespace {

using ::testing::ElementsAre;

class Recorder : public LineSink {
 public:
  void OnLine(std::string_view line, bool unterminated) override {
    lines.push_back(std::string(line) + (unterminated ? "|unterminated" : ""));
  }
  std::vector<std::string> lines;
};

TEST(NdjsonParser, DeliversLinesWithEitherLineEndAndTheUnfinishedLast) {
  Recorder recorder;
  NdjsonParser parser(100);
  EXPECT_TRUE(parser.Feed("{\"a\":1}\r\n\n{\"b\":2}\n{\"c\"", recorder));
  EXPECT_TRUE(parser.Feed(":3}", recorder));
  EXPECT_TRUE(parser.Finish(recorder));
  EXPECT_THAT(recorder.lines, ElementsAre("{\"a\":1}", "", "{\"b\":2}", "{\"c\":3}|unterminated"));
}

TEST(NdjsonParser, SkipsAByteOrderMarkBeforeTheFirstLine) {
  Recorder recorder;
  NdjsonParser parser(100);
  EXPECT_TRUE(parser.Feed("\xEF", recorder));
  EXPECT_TRUE(parser.Feed("\xBB\xBF{}\n", recorder));
  EXPECT_THAT(recorder.lines, ElementsAre("{}"));
}

TEST(NdjsonParser, RefusesALineLongerThanItsLimit) {
  Recorder recorder;
  NdjsonParser parser(4);
  EXPECT_TRUE(parser.Feed("1234\n12", recorder));
  EXPECT_FALSE(parser.Feed("345", recorder));
  EXPECT_FALSE(parser.Feed("\n1\n", recorder));
  EXPECT_THAT(recorder.lines, ElementsAre("1234"));
}

TEST(NdjsonParser, GivesTheSameForEverySplit) {
  const std::string stream = "\xEF\xBB\xBF{\"r\":\"gr\xC3\xBC\xC3\x9F\"}\r\n{}\n\n{\"d\":true}";
  Recorder whole;
  NdjsonParser parser(100);
  parser.Feed(stream, whole);
  parser.Finish(whole);
  ASSERT_EQ(whole.lines.size(), 4U);
  for (size_t at = 0; at <= stream.size(); ++at) {
    Recorder split;
    NdjsonParser again(100);
    again.Feed(std::string_view(stream).substr(0, at), split);
    again.Feed(std::string_view(stream).substr(at), split);
    again.Finish(split);
    ASSERT_EQ(split.lines, whole.lines) << "split at " << at;
  }
}

}  // namespace
}  // namespace rouse::wire
