// Every stream under tests/fixtures/wire: recorded reads, and what must be concluded from them. The
// first line of a file says what it is about and what is expected; the rest is a recording as
// `rouse probe --events` writes it. Each is replayed as recorded, and then in other splits, which
// must change nothing but stamps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "wire/replay.h"

namespace rouse::wire {
namespace {

using Json = nlohmann::json;

struct Fixture {
  std::string name;
  Json expected;
  Recording recording;
};

std::vector<std::filesystem::path> FixturePaths() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(ROUSE_SOURCE_DIR "/tests/fixtures/wire")) {
    if (entry.path().extension() == ".jsonl") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

Fixture Load(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Fixture fixture;
  fixture.name = path.stem().string();
  fixture.expected = Json::parse(text.str().substr(0, text.str().find('\n')));
  const Result<Recording> recording = ParseRecording(text.str());
  EXPECT_TRUE(recording.ok()) << path << ": "
                              << (recording.ok() ? "" : recording.error().message());
  if (recording.ok()) fixture.recording = *recording;
  return fixture;
}

Json OrNull(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }
Json OrNull(const std::optional<MonoTime>& mark) { return mark ? Json(mark->ns) : Json(); }

std::vector<std::string> WarningCodes(const Exchange& exchange) {
  std::vector<std::string> codes;
  for (const Warning& warning : exchange.warnings) codes.push_back(warning.code);
  std::ranges::sort(codes);
  return codes;
}

// What no split may change.
Json Facts(const Exchange& exchange) {
  const auto& channel = exchange.first_token_channel;
  return {{"outcome", OutcomeName(exchange.outcome)},
          {"http_status", OrNull(exchange.http_status)},
          {"channel", channel ? Json(ChannelName(*channel)) : Json()},
          {"events", exchange.stream.events},
          {"token_events", exchange.stream.token_events},
          {"pings", exchange.stream.pings},
          {"prompt", OrNull(exchange.usage.prompt_tokens)},
          {"cached", OrNull(exchange.usage.cached_tokens)},
          {"completion", OrNull(exchange.usage.completion_tokens)},
          {"first_chunk", OrNull(exchange.usage.first_chunk_tokens)},
          {"finish_reason", exchange.stream.finish_reason},
          {"content", exchange.content_text},
          {"reasoning", exchange.reasoning_text}};
}

Json Times(const Exchange& exchange) {
  const Marks& marks = exchange.marks;
  return {{"response_headers_ns", OrNull(marks.response_headers)},
          {"first_byte_ns", OrNull(marks.first_byte)},
          {"first_event_ns", OrNull(marks.first_event)},
          {"first_token_ns", OrNull(marks.first_token)},
          {"first_content_ns", OrNull(marks.first_content)},
          {"last_token_ns", OrNull(marks.last_token)},
          {"end_ns", OrNull(marks.end)},
          {"coalesced", exchange.stream.coalesced},
          {"warnings", WarningCodes(exchange)}};
}

class WireFixture : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(WireFixture, IsConcludedAsExpected) {
  const Fixture fixture = Load(GetParam());
  const Exchange exchange = Replay(fixture.recording);
  Json seen = Facts(exchange);
  seen.update(Times(exchange));
  ASSERT_TRUE(fixture.expected.contains("outcome"));
  for (const auto& [key, value] : fixture.expected.items()) {
    if (key == "kind" || key == "about") continue;
    if (key == "detail_has") {
      EXPECT_THAT(exchange.outcome_detail, ::testing::HasSubstr(value.get<std::string>()));
    } else if (key == "detail_lacks") {
      EXPECT_THAT(exchange.outcome_detail,
                  ::testing::Not(::testing::HasSubstr(value.get<std::string>())));
    } else {
      ASSERT_TRUE(seen.contains(key)) << "no such fact: " << key;
      EXPECT_EQ(seen[key], value) << key << "; detail: " << exchange.outcome_detail;
    }
  }
}

// The same bytes in other reads, all at one instant: nothing but stamps and counts of reads may
// depend on how the network cut them.
TEST_P(WireFixture, IsConcludedAlikeForEverySplit) {
  const Fixture fixture = Load(GetParam());
  std::string bytes;
  for (const RecordedRead& read : fixture.recording.reads) bytes += read.data;
  const auto replay = [&fixture, &bytes](std::vector<size_t> cuts) {
    Recording recording = fixture.recording;
    recording.reads.clear();
    cuts.push_back(bytes.size());
    size_t from = 0;
    for (const size_t cut : cuts) {
      if (cut > from) recording.reads.push_back({1'000'000, bytes.substr(from, cut - from)});
      from = std::max(from, cut);
    }
    return Facts(Replay(recording));
  };
  const Json whole = replay({});
  // What a read behind the end holds is never read.
  const bool stops_early = fixture.name == "bytes_after_end";
  for (size_t at = 1; at < bytes.size() && !stops_early; ++at) {
    ASSERT_EQ(replay({at}), whole) << "split at " << at;
  }
  std::vector<size_t> all;
  for (size_t at = 1; at < bytes.size(); ++at) all.push_back(at);
  ASSERT_EQ(replay(all), whole) << "byte by byte";
  std::mt19937 random(4711);
  for (int round = 0; round < 100 && bytes.size() > 1; ++round) {
    std::vector<size_t> cuts(random() % 12);
    for (size_t& cut : cuts) cut = random() % bytes.size();
    std::ranges::sort(cuts);
    ASSERT_EQ(replay(cuts), whole) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, WireFixture, ::testing::ValuesIn(FixturePaths()),
                         [](const auto& tested) { return tested.param.stem().string(); });

TEST(WireFixtures, CoverEveryApi) {
  std::set<Api> apis;
  for (const auto& path : FixturePaths()) apis.insert(Load(path).recording.api);
  EXPECT_EQ(apis.size(), static_cast<size_t>(kApiCount));
}

TEST(Replay, ReadsWhatEventsWrote) {
  Exchange exchange;
  exchange.api = Api::kAnthropic;
  exchange.marks.send_start = {1000};
  exchange.marks.request_sent = MonoTime{1500};
  exchange.marks.end = MonoTime{4000};
  exchange.stream_end = StreamEnd::kReset;
  exchange.reads = {{{2000}, 5, 30, "HTTP/"}, {{3000}, 3, {}, "\xF0\x9F\n"}, {{3500}, 0, {}, ""}};
  exchange.events = {{{3000}, 7, EventClass::kToken, Channel::kReasoning}};
  const std::string jsonl = EventsJsonl(exchange);
  EXPECT_EQ(std::ranges::count(jsonl, '\n'), 6);
  for (std::istringstream lines(jsonl); lines.peek() != EOF;) {
    std::string line;
    std::getline(lines, line);
    const Json json = Json::parse(line);
    EXPECT_TRUE(json.contains("time_ns") && json.contains("bytes") && json.contains("kind"))
        << line;
  }
  const Result<Recording> recording = ParseRecording(jsonl);
  ASSERT_TRUE(recording.ok());
  EXPECT_EQ(recording->api, Api::kAnthropic);
  EXPECT_EQ(recording->request_sent_ns, 500);
  ASSERT_EQ(recording->reads.size(), 3U);
  EXPECT_EQ(recording->reads[0].time_ns, 1000);
  EXPECT_EQ(recording->reads[1].data, "\xF0\x9F\n");
  EXPECT_EQ(recording->end, StreamEnd::kReset);
  EXPECT_EQ(recording->end_ns, 3000);
}

TEST(Replay, NamesTheLineThatIsAtFault) {
  for (const std::string_view bad :
       {"no json", "{}", R"({"kind":"read","data":"x"})", R"({"kind":"end","time_ns":1,"how":"x"})",
        R"({"kind":"read","time_ns":1,"data_base64":"!"})",
        R"({"kind":"request","time_ns":1,"api":"x"})"}) {
    const Result<Recording> recording = ParseRecording("{\"kind\":\"x\"}\n" + std::string(bad));
    ASSERT_FALSE(recording.ok()) << bad;
    EXPECT_THAT(recording.error().message(), ::testing::HasSubstr("line 2"));
  }
}

}  // namespace
}  // namespace rouse::wire
